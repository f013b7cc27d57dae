//! The project's chores. `cargo xtask --help` lists them.

mod bench;
mod build;
mod chaos;
mod clock;
mod collective;
mod dashboards;
mod example;
mod faults;
mod fuzz;
mod gpu_bundle;
mod harm;
mod hosts;
mod http;
mod kube;
mod nccl;
mod packages;
mod peers;
mod process;
mod python;
mod pytorch;
mod rdma;
mod rig;
mod scale;
mod screens;
mod soak;
mod test;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    after_help = "Examples:
  cargo xtask demo                            the page at http://127.0.0.1:9440
  cargo xtask demo -- --seconds 12 --json     once through all phases
  cargo xtask test                            everything that CI checks"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check everything: formatting, lints, licences, all tests, the web page. Installs what is missing through apt and npm
    Test,
    /// Build what is needed and run `ringscope demo`
    Demo {
        /// Arguments of `ringscope demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build the one file that is the whole installation: target/dist/ringscope
    Dist,
    /// Build what people install, for x86-64 and aarch64: .deb, .rpm, images, list of contents, checksums: target/packages.
    /// Installs zig and cargo's packagers there, and Debian's cross compilers
    Packages(packages::Args),
    /// Build the Python package with the engine's libraries and ringscope-sumd inside, for glibc 2.17, and try it in fresh
    /// environments: target/packages/*.whl
    Wheel(packages::WheelArgs),
    /// Build the folder that holds ringscope against NCCL on a machine with a GPU; see gpu/README.md
    GpuBundle {
        /// Where to; replaced if it is an older bundle [default: target/gpu-bundle]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Build the page into web/dist
    Web,
    /// Build the rules of Prometheus and the dashboards of Grafana from dashboards/src
    Dashboards,
    /// Get Helm and the schemas of Kubernetes' versions (target/kube), and test chart, webhook and pods. Installs podman and buildah
    /// through apt
    Kube,
    /// Fetch the versions of NVIDIA's library that the tests need, 2 GB: target/nccl
    Nccl,
    /// Fetch the Python programs that the tests need: target/python
    Python,
    /// Run PyTorch's own tests of process groups on the backend rsccl, and count them: 20 minutes for each of its releases
    Pytorch(pytorch::Args),
    /// Feed what reads foreign bytes with mutated ones, and stop at the first panic. Installs cargo-fuzz if it is missing;
    /// needs a nightly compiler (`rustup toolchain install nightly`)
    Fuzz {
        /// Which targets [default: all]
        targets: Vec<String>,
        /// Seconds for each target
        #[arg(long, default_value_t = 90, value_name = "N")]
        seconds: u32,
    },
    /// Take pictures of every page in light and dark, wide and narrow: the demo, one host, a thousand simulated hosts, real
    /// jobs that hang, what a proxy says in the daemon's place
    Screens {
        /// Where to, with an index.html [default: target/screens]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Make those of docs/ anew
        #[arg(long)]
        docs: bool,
        /// Only these: demo, one-host, thousand-hosts, empty, hang, stopped, mismatch, cycle, init, killed, unknown, proxy-401,
        /// proxy-502, away
        stages: Vec<String>,
    },
    /// Run the healthy demo under Prometheus with all rules, and fail if an alert of severity warning or above fires
    Soak {
        /// In place of the demo a summation group of two workers and a server: fail if what a process has resident grows by more
        /// than 1 MB an hour. Takes an hour to be sure: --seconds 3600
        #[arg(long)]
        summation: bool,
        /// Seconds to run
        #[arg(long, default_value_t = 600, value_name = "N", value_parser = clap::value_parser!(u32).range(60..))]
        seconds: u32,
    },
    /// Kill ranks of the engine at random moments, during init too: no hang, no wrong result, nothing left behind
    Chaos(chaos::Chaos),
    /// Programs that a collector could hang, stop or slow, bare and with it, as a table; fails if one is not as bare
    Harm(harm::Args),
    /// Start up to 1024 ranks of the engine on this machine, as processes and as threads: they begin, sum, split into groups of
    /// eight, sum in them and end. Prints what that takes
    Scale(scale::Scale),
    /// Faults of jobs with several communicators, hangs and slowness, each with healthy twins, and whether ringscope names who is
    /// at fault: on the engine (`engine`, the default), or of a thousand or more simulated ranks (`fleet`); `--slow`: only who is
    /// slow; `-- --help` has options and examples
    Faults {
        /// Arguments of the suite
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Hosts as network namespaces behind rate-limited links, and experiments on them: predicted beside measured
    Rig(rig::Args),
    /// Scenes of `ringscope launch` on two pretended hosts: jobs, failures, signals, deaths; how many left nothing behind
    Launch(hosts::Args),
    /// Two guests with soft RoCE devices (QEMU, Debian's kernel), and RDMA between them: predicted beside measured. Installs QEMU
    /// and RDMA's programs through apt
    Rdma(rdma::Args),
    /// Measure the engine's algorithms and channels against each other, and print the table that it chooses by, as
    /// RSCCL_TUNING takes it
    Tune(collective::Tune),
    /// Simulate a collective over hosts with NICs; `cargo xtask simulate -- --help` has its arguments and examples
    Simulate {
        /// Arguments of the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare how tensors are placed on summation services; `cargo xtask placement -- --help` has its arguments and examples
    Placement {
        /// Arguments of the comparison
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run an example of examples/ and judge what comes of it; `cargo xtask example digits -- --steps 50` is a short one
    Example {
        /// Which
        #[arg(value_enum)]
        example: example::Example,
        /// Arguments of the example's program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure, and print figures with their limits
    Bench {
        /// What to measure
        #[arg(value_enum)]
        what: bench::Bench,
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test => test::run_all(),
        Command::Demo { arguments } => build::demo(&arguments),
        Command::Dist => build::dist(),
        Command::Packages(args) => packages::run(&args),
        Command::Wheel(args) => packages::wheel(&args),
        Command::GpuBundle { out } => gpu_bundle::make(out),
        Command::Kube => kube::test(),
        Command::Nccl => nccl::ensure(),
        Command::Python => python::ensure(),
        Command::Pytorch(args) => pytorch::run_all(&args),
        Command::Web => test::build_web(),
        Command::Dashboards => dashboards::build(),
        Command::Fuzz { targets, seconds } => fuzz::run_all(&targets, seconds),
        Command::Screens { out, docs, stages } => screens::shoot(out, docs, &stages),
        Command::Soak { summation: true, seconds } => python::soak(seconds),
        Command::Soak { summation: false, seconds } => soak::healthy(seconds),
        Command::Tune(tune) => tune.run(),
        Command::Chaos(chaos) => chaos.run(),
        Command::Harm(args) => harm::run(&args),
        Command::Scale(scale) => scale.run(),
        Command::Faults { arguments } => faults::suite(&arguments),
        Command::Simulate { arguments } => bench::example("ringscope-engine", "simulate", &arguments),
        Command::Placement { arguments } => bench::example("ringscope-engine", "placement", &arguments),
        Command::Example { example, arguments } => example::start(example, &arguments),
        Command::Bench { what, arguments } => bench::run(what, &arguments),
        Command::Launch(args) => hosts::run_all(&args),
        Command::Rdma(args) => rdma::run(&args),
        Command::Rig(args) => return rig::run(&args).unwrap_or_else(failed),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of an error's handler")]
fn failed(error: anyhow::Error) -> ExitCode {
    process::say(&format!("error: {error:#}"));
    ExitCode::FAILURE
}
