//! What `cargo xtask rig scaling` is told, and the plan that comes of it.

use super::super::network::WIRE_PER_PAYLOAD;
use super::formulas::{Costs, Link, Message, Shape, Way, fused, real_bytes as real, without_overlap};
use super::model;

/// Options of the experiment on scaling.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of scaling")]
pub(crate) struct Options {
    /// Gradients of the model, in MiB; they are shared out as ResNet-18's
    #[arg(long, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=65536))]
    gradients: u64,
    /// What a rank computes in a step, in milliseconds, a third of it before the first gradient
    #[arg(long, value_name = "MS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    compute_ms: u64,
    /// Rate of a host's link in each direction, in 10^6 bits per second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mbit: u32,
    /// With fusion, a message has so many KiB at least
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    fusion: u64,
    /// Hosts that are measured, at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=16))]
    hosts: u64,
    /// Measure nothing, and say what formulas and simulation say: also of links that are too fast to be pretended
    #[arg(long)]
    predict: bool,
    /// What a message costs on its way from one rank to the next, in microseconds [default: measured on one pair; with
    /// --predict 20]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    alpha_us: Option<u32>,
}

/// What is measured, predicted and simulated.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) gradient_bytes: u64,
    pub(super) compute_s: f64,
    pub(super) rate_mbit: u32,
    pub(super) fusion_bytes: u64,
    /// Measured up to there.
    pub(super) most_hosts: usize,
    pub(super) n_rounds: u64,
    /// How often a pair is measured.
    pub(super) n_pair_turns: u64,
    pub(super) measures: bool,
    /// α, where it is given.
    pub(super) alpha_s: Option<f64>,
    /// Each tensor by itself; some together.
    layouts: [Vec<Message>; 2],
}

/// How the messages of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// While gradients are still computed.
    pub(super) overlaps: bool,
    /// Several tensors in one.
    pub(super) fuses: bool,
}

impl Mode {
    /// All, from the plainest on.
    pub(super) const ALL: [Self; 4] = [
        Self { overlaps: false, fuses: false },
        Self { overlaps: false, fuses: true },
        Self { overlaps: true, fuses: false },
        Self { overlaps: true, fuses: true },
    ];

    /// Index of its layout.
    pub(super) fn layout(self) -> usize {
        usize::from(self.fuses)
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match (self.overlaps, self.fuses) {
            (false, false) => "neither",
            (false, true) => "fusion",
            (true, false) => "overlap",
            (true, true) => "both",
        }
    }
}

impl Options {
    /// The plan; a small one tells whether it works.
    pub(super) fn plan(&self, is_small: bool, rounds: Option<u64>) -> Plan {
        let gradients = if is_small { self.gradients.min(1) } else { self.gradients };
        let compute_ms = if is_small { self.compute_ms.min(150) } else { self.compute_ms };
        let (gradient_bytes, fusion_bytes) = (gradients << 20, self.fusion << 10);
        let compute_s = real(compute_ms) / 1e3;
        let tensors = model::gradients(gradient_bytes, compute_s);
        let fused = fused(&tensors, fusion_bytes);
        Plan {
            gradient_bytes,
            compute_s,
            rate_mbit: self.mbit,
            fusion_bytes,
            most_hosts: usize::try_from(self.hosts).unwrap_or(1).min(if is_small { 2 } else { usize::MAX }),
            n_rounds: rounds.unwrap_or(if is_small { 2 } else { 7 }),
            n_pair_turns: if is_small { 3 } else { 9 },
            measures: !self.predict,
            alpha_s: self.alpha_us.map(|us| f64::from(us) / 1e6),
            layouts: [tensors, fused],
        }
    }

    /// The same options for the run inside.
    pub(in crate::rig) fn words(&self) -> Vec<String> {
        let Self { gradients, compute_ms, mbit, fusion, hosts, predict, alpha_us } = self;
        let mut words = vec![
            format!("--gradients={gradients}"),
            format!("--compute-ms={compute_ms}"),
            format!("--mbit={mbit}"),
            format!("--fusion={fusion}"),
            format!("--hosts={hosts}"),
        ];
        words.extend(alpha_us.map(|us| format!("--alpha-us={us}")));
        words.extend(predict.then(|| "--predict".to_owned()));
        words
    }

    /// Whether nothing is measured.
    pub(in crate::rig) fn predicts(&self) -> bool {
        self.predict
    }
}

impl Default for Options {
    fn default() -> Self {
        let (gradients, compute_ms, mbit, fusion, hosts) = (4, 600, 100, 256, 8);
        Self { gradients, compute_ms, mbit, fusion, hosts, predict: false, alpha_us: None }
    }
}

impl Plan {
    /// The layouts of messages, by [`Mode::layout`].
    pub(super) fn layouts(&self) -> &[Vec<Message>] {
        &self.layouts
    }

    /// The messages of a step.
    pub(super) fn messages(&self, mode: Mode) -> Vec<Message> {
        let messages = &self.layouts[mode.layout()];
        if mode.overlaps { messages.clone() } else { without_overlap(messages, self.compute_s) }
    }

    /// What a link carries of payload, in bytes per second: whole packets of 1448 bytes in 1514, both as they are paid for.
    pub(super) fn link_bytes_per_s(&self) -> f64 {
        f64::from(self.rate_mbit) * 1e6 / 8.0 / WIRE_PER_PAYLOAD
    }

    /// What machines cost where none is measured: links as told; shared memory and services as on a machine of some years.
    pub(super) fn assumed(&self) -> Costs {
        let alpha_s = self.alpha_s.unwrap_or(20e-6);
        Costs {
            between: Link { alpha_s, bytes_per_s: self.link_bytes_per_s() },
            inside: Link { alpha_s: 5e-6, bytes_per_s: 5e9 },
            push_pull_s: 4.0 * alpha_s,
            push_pull_more_s: alpha_s,
        }
    }

    /// Hosts that are measured.
    pub(super) fn measured_hosts(&self) -> Vec<usize> {
        powers_of_two(self.most_hosts)
    }

    /// Who sums in which way on so many hosts.
    pub(super) fn ways(n_hosts: usize) -> Vec<(Way, Shape)> {
        let alone = Shape { hosts: n_hosts, ranks_per_host: 1 };
        let paired = Shape { hosts: n_hosts, ranks_per_host: 2 };
        let half = Way::Summation { helpers: n_hosts.div_ceil(2) };
        let as_many = Way::Summation { helpers: n_hosts };
        if n_hosts == 1 {
            return vec![(Way::Ring, alone), (Way::Ring, paired)];
        }
        vec![
            (Way::Ring, alone),
            (half, alone),
            (as_many, alone),
            (Way::Ring, paired),
            (Way::Hierarchical, paired),
            (half, paired),
        ]
    }
}

/// 1, 2, 4 and so on.
pub(super) fn powers_of_two(most: usize) -> Vec<usize> {
    std::iter::successors(Some(1_usize), |n| n.checked_mul(2)).take_while(|n| *n <= most).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(words: &[&str]) -> Options {
        Parsed::try_parse_from([&["rig"], words].concat()).unwrap().options
    }

    #[test]
    fn the_run_inside_has_the_same_options() {
        for words in [&[][..], &["--gradients=9", "--mbit=50", "--predict", "--alpha-us=7", "--hosts=2"]] {
            let options = parsed(words);
            let inside = options.words();
            let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
            assert_eq!(format!("{:?}", parsed(&inside)), format!("{options:?}"));
        }
        assert_eq!(format!("{:?}", parsed(&[])), format!("{:?}", Options::default()));
    }

    #[test]
    fn both_layouts_have_the_same_bytes_and_a_small_plan_is_short() {
        let plan = parsed(&["--gradients=8"]).plan(false, None);
        let bytes = |layout: &Vec<Message>| layout.iter().map(|message| message.bytes).sum::<u64>();
        assert_eq!(bytes(&plan.layouts()[0]), bytes(&plan.layouts()[1]));
        assert!(plan.layouts()[1].len() < 30 && plan.layouts()[0].len() == 62);
        let small = parsed(&[]).plan(true, None);
        assert!(small.compute_s < 0.2 && small.measured_hosts() == [1, 2] && small.n_rounds == 2);
        assert_eq!(parsed(&["--hosts=7"]).plan(false, Some(3)).measured_hosts(), [1, 2, 4]);
    }

    #[test]
    fn without_overlap_all_is_sent_at_the_end() {
        let plan = parsed(&[]).plan(false, None);
        let at = |mode: Mode| {
            plan.messages(mode).iter().map(|message| message.ready_s).fold(f64::INFINITY, f64::min)
        };
        assert!((at(Mode { overlaps: false, fuses: true }) - 0.6).abs() < 1e-9);
        assert!(at(Mode { overlaps: true, fuses: false }) < 0.21);
    }
}
