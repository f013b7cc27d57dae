//! Who is measured: a library with a transport and its settings, and how its ranks are started.

use std::borrow::Cow;
use std::path::Path;
use std::process::Command;

use super::machine;
use super::options::{Options, Transport};
use super::programs::Programs;

/// A library with a program of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// The engine.
    Rsccl,
    /// What the memory allows.
    Limit,
    /// Open MPI.
    OpenMpi,
    /// Intel MPI.
    IntelMpi,
    /// oneCCL, over Intel MPI.
    OneCcl,
    /// Gloo.
    Gloo,
}

impl Library {
    /// All.
    pub(crate) const ALL: [Self; 6] =
        [Self::Rsccl, Self::Limit, Self::OpenMpi, Self::IntelMpi, Self::OneCcl, Self::Gloo];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsccl => "rsccl",
            Self::Limit => "limit",
            Self::OpenMpi => "Open MPI",
            Self::IntelMpi => "Intel MPI",
            Self::OneCcl => "oneCCL",
            Self::Gloo => "Gloo",
        }
    }

    /// Its program's file name.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Rsccl => "rsccl",
            Self::Limit => "limit",
            Self::OpenMpi => "open-mpi",
            Self::IntelMpi => "intel-mpi",
            Self::OneCcl => "oneccl",
            Self::Gloo => "gloo",
        }
    }

    /// Whether it is somebody else's.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Self::Rsccl | Self::Limit)
    }
}

/// A library with a transport and settings.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// Which.
    pub(crate) library: Library,
    /// How its ranks reach each other.
    pub(crate) transport: Transport,
    /// What tells it from the same library with other settings; empty for the only one.
    pub(crate) variant: Cow<'static, str>,
    /// Arguments of the launcher.
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// More of the environment.
    settings: Vec<(&'static str, String)>,
}

/// The engine's two rows: buffers from malloc and from the library.
pub(crate) const MALLOC: &str = "malloc";
/// See [`MALLOC`].
pub(crate) const MEM_ALLOC: &str = "ncclMemAlloc";

fn contender(
    library: Library,
    transport: Transport,
    variant: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
) -> Contender {
    let variant = Cow::Borrowed(variant);
    Contender { library, transport, variant, arguments, environment, settings: Vec::new() }
}

/// Over TCP every rank of the engine is a host of its own, by name: so it takes the table's rows for several hosts.
const EACH_A_HOST: (&str, &str) = ("BENCH_EACH_A_HOST", "1");
/// Over loopback the engine takes that for its only NIC, as the others are told to.
const LOOPBACK: (&str, &str) = ("RSCCL_NICS", "lo=127.0.0.1");
const NO_SHM: (&str, &str) = ("NCCL_SHM_DISABLE", "1");
/// Intel MPI sends nothing through shared memory only if its collectives are made of messages.
const INTEL_TCP: &[(&str, &str)] = &[
    ("I_MPI_FABRICS", "ofi"),
    ("I_MPI_COLL_INTRANODE", "pt2pt"),
    ("FI_PROVIDER", "tcp"),
    ("FI_TCP_IFACE", "lo"),
    ("CCL_ATL_TRANSPORT", "mpi"),
    ("CCL_LOG_LEVEL", "error"),
];
const INTEL_SHM: &[(&str, &str)] =
    &[("I_MPI_FABRICS", "shm"), ("CCL_ATL_TRANSPORT", "mpi"), ("CCL_LOG_LEVEL", "error")];

fn all() -> [Contender; 14] {
    use Library::{Gloo, IntelMpi, Limit, OneCcl, OpenMpi, Rsccl};
    use Transport::{Shm, Tcp};
    [
        contender(Rsccl, Shm, MALLOC, &[], &[LOOPBACK]),
        contender(Rsccl, Shm, MEM_ALLOC, &[], &[LOOPBACK, ("BENCH_MEMORY", "ncclMemAlloc")]),
        contender(OpenMpi, Shm, "", &[], &[]),
        contender(
            OpenMpi,
            Shm,
            "vader, no CMA",
            &["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"],
            &[],
        ),
        contender(IntelMpi, Shm, "", &[], INTEL_SHM),
        contender(OneCcl, Shm, "", &[], INTEL_SHM),
        contender(Limit, Shm, PLAIN, &[], &[("BENCH_STORE", "plain")]),
        contender(Limit, Shm, STREAMING, &[], &[("BENCH_STORE", "stream")]),
        contender(Rsccl, Tcp, MALLOC, &[], &[LOOPBACK, NO_SHM, EACH_A_HOST]),
        contender(
            Rsccl,
            Tcp,
            MEM_ALLOC,
            &[],
            &[LOOPBACK, NO_SHM, EACH_A_HOST, ("BENCH_MEMORY", "ncclMemAlloc")],
        ),
        contender(
            OpenMpi,
            Tcp,
            "",
            &["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"],
            &[],
        ),
        contender(IntelMpi, Tcp, "", &[], INTEL_TCP),
        contender(OneCcl, Tcp, "", &[], INTEL_TCP),
        contender(Gloo, Tcp, "", &[], &[("BENCH_ADDRESS", "127.0.0.1")]),
    ]
}
/// The limit's two rows, by kind of store.
pub(crate) const PLAIN: &str = "plain";
/// See [`PLAIN`].
pub(crate) const STREAMING: &str = "streaming";

/// Those whose program is there.
pub(crate) fn wanted(options: &Options, programs: &Programs, transport: Transport) -> Vec<Contender> {
    let before =
        options.before.iter().flat_map(|library| all().into_iter().filter_map(|one| one.before(library)));
    all()
        .into_iter()
        .chain(before)
        .filter(|one| one.transport == transport && programs.has(one.library) && options.wants(&one.name()))
        .collect()
}

impl Contender {
    /// The engine with its own buffers and some settings.
    pub(crate) fn rsccl(transport: Transport, name: String, settings: Vec<(&'static str, String)>) -> Self {
        let environment: &'static [(&str, &str)] = match transport {
            Transport::Shm => &[LOOPBACK],
            Transport::Tcp => &[LOOPBACK, NO_SHM, EACH_A_HOST],
        };
        let variant = Cow::Owned(name);
        Self { library: Library::Rsccl, transport, variant, arguments: &[], environment, settings }
    }

    /// The same with an older engine.
    fn before(self, library: &Path) -> Option<Self> {
        let folder = library.parent().filter(|_| self.library == Library::Rsccl)?;
        let variant = Cow::Owned(format!("{}, before", self.variant));
        Some(Self { variant, settings: vec![("LD_LIBRARY_PATH", folder.display().to_string())], ..self })
    }

    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self.variant.as_ref() {
            "" => self.library.name().to_owned(),
            variant => format!("{} ({variant})", self.library.name()),
        }
    }

    /// The command that starts all its ranks.
    pub(crate) fn command(&self, programs: &Programs, n_ranks: usize, congestion: Option<&str>) -> Command {
        let mut words = self.launcher(programs, n_ranks);
        words.push(programs.path(self.library).display().to_string());
        let isolation = congestion.filter(|_| self.transport == Transport::Tcp);
        let mut command = isolation.map_or_else(|| plain(&words), |name| machine::isolated(name, &words));
        // What runs this sets it, and it would put the engine without optimizations before the one that was linked.
        command.env_remove("LD_LIBRARY_PATH");
        command.envs(self.environment.iter().copied()).envs(self.settings.iter().cloned());
        command.env("BENCH_RANKS", n_ranks.to_string());
        if matches!(self.library, Library::IntelMpi | Library::OneCcl) {
            command.env("I_MPI_ROOT", &programs.intel).env("CCL_ROOT", &programs.intel);
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    fn launcher(&self, programs: &Programs, n_ranks: usize) -> Vec<String> {
        let count = n_ranks.to_string();
        let words: Vec<&str> = match self.library {
            Library::OpenMpi => [&["mpirun", "--oversubscribe", "-np", &count], self.arguments].concat(),
            Library::IntelMpi | Library::OneCcl => vec!["-n", &count],
            Library::Rsccl | Library::Limit | Library::Gloo => vec!["sh", "-c", EACH_RANK],
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if matches!(self.library, Library::IntelMpi | Library::OneCcl) {
            words.insert(0, programs.intel.join("bin/mpiexec.hydra").display().to_string());
        }
        words
    }
}

fn plain(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Starts a program once per rank; it is `$0`.
const EACH_RANK: &str = "rank=0; while [ $rank -lt $BENCH_RANKS ]; do
    if [ \"$BENCH_EACH_A_HOST\" ]; then export RSCCL_HOST=bench-$rank; fi
    BENCH_RANK=$rank \"$0\" &
    rank=$((rank + 1))
done; wait";
