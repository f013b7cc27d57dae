//! What a training step takes on so many hosts, in closed form. All hosts have one NIC of B bytes per second and direction;
//! S is the bytes of a message, m the hosts, k the ranks of a host, n = mk, h the machines that help to sum. A hop costs
//! α and its bytes by B; inside a host they are αᵢ and Bᵢ.
//!
//! | way | a message takes |
//! |---|---|
//! | ring | 2(n−1) steps of S/n. In the middle a step is as long as its hops, of which m in n go between hosts, and not shorter than a NIC takes: max((m(α + S/nB) + (n−m)(αᵢ + S/nBᵢ))/n, S/nB) |
//! | hierarchical | 2(m−1) steps between hosts, in k rings at once, of S/n: max(α + S/nB, k·S/nB); and 2(k−1) inside, of S/k |
//! | summation | 2m(m−1)/(m² + hm − 2h) · S/B while h ≤ m, else S/B; inside a host as hierarchical |
//!
//! With one rank on each host, ring and hierarchical are both 2(n−1)(α + S/nB). Sources: Patarasuk and Yuan, 2009, §3 (ring);
//! `engine/collective/src/collective/hierarchical.rs`; BytePS (OSDI 2020), Equations 1 to 5, where hosts are the
//! workers, for a host sums first what its workers have.
//!
//! Messages of a step go one after the other, each when it is ready; so a step takes
//! max(compute, max over messages i of (ready(i) + what i and all later ones take)).

/// What a message costs on its way from one rank to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// α: whatever its size.
    pub(super) alpha_s: f64,
    /// B
    pub(super) bytes_per_s: f64,
}

/// What the machines cost; each is measured by itself, none by a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Between hosts.
    pub(super) between: Link,
    /// Inside a host.
    pub(super) inside: Link,
    /// A push and a pull of next to nothing.
    pub(super) push_pull_s: f64,
    /// What one more of them adds while others are on their way.
    pub(super) push_pull_more_s: f64,
}

/// How gradients are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// An all-reduce in one ring over all ranks.
    Ring,
    /// An all-reduce inside hosts and between them.
    Hierarchical,
    /// The summation service, with so many machines that only sum.
    Summation {
        /// h
        helpers: usize,
    },
}

/// Who trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// m
    pub(super) hosts: usize,
    /// k
    pub(super) ranks_per_host: usize,
}

/// What is summed at once: a tensor, or several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message {
    /// When its gradients are there, from the beginning of the step on.
    pub(super) ready_s: f64,
    /// S
    pub(super) bytes: u64,
}

impl Link {
    fn hop_s(self, size: f64) -> f64 {
        self.alpha_s + size / self.bytes_per_s
    }
}

impl Shape {
    /// n
    pub(super) fn n_ranks(self) -> usize {
        self.hosts * self.ranks_per_host
    }
}

impl Way {
    /// Seconds of a message among others.
    pub(super) fn message_s(self, shape: Shape, costs: &Costs, bytes: u64) -> f64 {
        let (m, k, n) = (real(shape.hosts), real(shape.ranks_per_host), real(shape.n_ranks()));
        let size = real_bytes(bytes);
        let Costs { between, inside, .. } = costs;
        if shape.n_ranks() == 1 {
            return 0.0;
        }
        match self {
            Self::Ring if shape.hosts == 1 => ring(n, size, *inside),
            Self::Ring => {
                let hops_s = (m * between.hop_s(size / n) + (n - m) * inside.hop_s(size / n)) / n;
                2.0 * (n - 1.0) * hops_s.max(size / n / between.bytes_per_s)
            }
            Self::Hierarchical => {
                let step_s = between.hop_s(size / n).max(k * size / n / between.bytes_per_s);
                2.0 * (m - 1.0) * step_s + ring(k, size, *inside)
            }
            Self::Summation { helpers } => {
                let more_s = if shape.n_ranks() > 1 { costs.push_pull_more_s } else { 0.0 };
                let within_s = 2.0 * (k - 1.0) / k * size / inside.bytes_per_s;
                more_s + push_pull(m, real(helpers)) * size / between.bytes_per_s + within_s
            }
        }
    }

    /// Seconds that a step takes longer than its messages, however many they are.
    pub(super) fn once_s(self, shape: Shape, costs: &Costs) -> f64 {
        match self {
            Self::Summation { .. } if shape.n_ranks() > 1 => costs.push_pull_s - costs.push_pull_more_s,
            _ => 0.0,
        }
    }

    /// Seconds of a step.
    pub(super) fn step_s(self, shape: Shape, costs: &Costs, messages: &[Message], compute_s: f64) -> f64 {
        let message_s = |message: &Message| self.message_s(shape, costs, message.bytes);
        let end_s = line_up(messages, message_s);
        compute_s.max(end_s + self.once_s(shape, costs))
    }
}

/// When the last message is through: each goes when it is ready and the one before it is through.
pub(super) fn line_up(messages: &[Message], message_s: impl Fn(&Message) -> f64) -> f64 {
    messages.iter().fold(0.0, |end_s: f64, message| end_s.max(message.ready_s) + message_s(message))
}

/// The same messages, all of them when the compute is over.
pub(super) fn without_overlap(messages: &[Message], compute_s: f64) -> Vec<Message> {
    messages.iter().map(|message| Message { ready_s: compute_s, ..*message }).collect()
}

/// Messages in one until they are `least_bytes`: each is then ready with its last. The rule of PyTorch's buckets
/// (`compute_bucket_assignment_by_size`).
pub(super) fn fused(messages: &[Message], least_bytes: u64) -> Vec<Message> {
    let mut fused: Vec<Message> = Vec::new();
    let mut open: Option<Message> = None;
    for message in messages {
        let bytes = open.map_or(0, |open| open.bytes) + message.bytes;
        open = Some(Message { bytes, ..*message });
        if bytes >= least_bytes {
            fused.extend(open.take());
        }
    }
    fused.extend(open);
    fused
}

fn ring(n: f64, size: f64, link: Link) -> f64 {
    2.0 * (n - 1.0) * link.hop_s(size / n)
}

/// Times that a message's bytes go through the busiest NIC; more helpers than workers help no more.
fn push_pull(n: f64, helpers: f64) -> f64 {
    let k = helpers.min(n);
    if n < 2.0 { 0.0 } else { 2.0 * n * (n - 1.0) / (n * n + k * n - 2.0 * k) }
}

fn real(number: usize) -> f64 {
    real_bytes(number as u64)
}

/// A number of an experiment.
#[expect(clippy::cast_precision_loss, reason = "numbers of an experiment are far below 2^53")]
pub(super) fn real_bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A megabyte a second and no α, so that numbers below are megabytes.
    const FREE: Link = Link { alpha_s: 0.0, bytes_per_s: 1e6 };
    const COSTS: Costs = Costs {
        between: FREE,
        inside: Link { alpha_s: 0.0, bytes_per_s: f64::INFINITY },
        push_pull_s: 0.0,
        push_pull_more_s: 0.0,
    };

    fn shape(hosts: usize, ranks_per_host: usize) -> Shape {
        Shape { hosts, ranks_per_host }
    }

    fn check(way: Way, shape: Shape, wanted: f64) {
        let found = way.message_s(shape, &COSTS, 1_000_000);
        assert!((found - wanted).abs() < 1e-9, "{way:?} {shape:?}: {found}, not {wanted}");
    }

    #[test]
    fn the_textbook() {
        check(Way::Ring, shape(1, 1), 0.0);
        check(Way::Ring, shape(2, 1), 1.0);
        check(Way::Ring, shape(4, 1), 1.5);
        check(Way::Ring, shape(8, 1), 1.75);
        check(Way::Ring, shape(2, 2), 1.5);
        check(Way::Hierarchical, shape(2, 2), 1.0);
        check(Way::Hierarchical, shape(4, 2), 1.5);
        check(Way::Ring, shape(4, 2), 1.75);
    }

    #[test]
    fn the_published_table_of_summation() {
        for (hosts, helpers, wanted) in [
            (1, 1, 0.0),
            (2, 0, 1.0),
            (2, 1, 1.0),
            (3, 1, 1.2),
            (4, 0, 1.5),
            (4, 1, 4.0 / 3.0),
            (4, 2, 1.2),
            (4, 4, 1.0),
            (4, 9, 1.0),
            (8, 4, 14.0 / 11.0),
        ] {
            check(Way::Summation { helpers }, shape(hosts, 1), wanted);
            check(Way::Summation { helpers }, shape(hosts, 2), wanted);
        }
    }

    #[test]
    fn alpha_counts_hops_and_what_a_push_pull_costs_once_comes_once() {
        let between = Link { alpha_s: 0.001, bytes_per_s: f64::INFINITY };
        let inside = Link { alpha_s: 0.0001, bytes_per_s: f64::INFINITY };
        let costs = Costs { between, inside, push_pull_s: 0.010, push_pull_more_s: 0.002 };
        let is = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found}, not {wanted}");
        is(Way::Ring.message_s(shape(4, 1), &costs, 4), 0.006);
        is(Way::Ring.message_s(shape(1, 2), &costs, 4), 0.0002);
        is(Way::Ring.message_s(shape(2, 2), &costs, 4), 6.0 * 0.00055);
        is(Way::Hierarchical.message_s(shape(4, 2), &costs, 4), 0.0062);
        let three = [Message { ready_s: 0.0, bytes: 4 }; 3];
        is(Way::Summation { helpers: 2 }.step_s(shape(4, 1), &costs, &three, 0.0), 0.014);
        is(Way::Summation { helpers: 0 }.step_s(shape(1, 1), &costs, &three, 0.5), 0.5);
    }

    #[test]
    fn ranks_of_a_host_wait_for_their_hops_or_for_their_nic_but_not_for_both() {
        let between = Link { alpha_s: 0.1, bytes_per_s: 1e6 };
        let costs = Costs { between, ..COSTS };
        let of = |way: Way, bytes: u64| way.message_s(shape(2, 2), &costs, bytes);
        let is = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
        // A quarter of 40 kB is 0.01 s of a NIC, one of 4 MB 1 s.
        is(of(Way::Ring, 40_000), 6.0 * 0.055);
        is(of(Way::Ring, 4_000_000), 6.0);
        is(of(Way::Hierarchical, 40_000), 2.0 * 0.11);
        is(of(Way::Hierarchical, 4_000_000), 2.0 * 2.0);
    }

    #[test]
    fn what_is_ready_early_hides_behind_what_is_computed() {
        let message = |ready_s, bytes| Message { ready_s, bytes };
        let messages = [message(1.0, 1_000_000), message(1.5, 1_000_000), message(4.0, 500_000)];
        let step_s = |messages: &[Message]| Way::Ring.step_s(shape(2, 1), &COSTS, messages, 4.0);
        assert!((step_s(&messages) - 4.5).abs() < 1e-9);
        assert!((step_s(&without_overlap(&messages, 4.0)) - 6.5).abs() < 1e-9);
        assert!((step_s(&messages[..2]) - 4.0).abs() < 1e-9, "no less than the compute");
        let slow = [message(1.0, 4_000_000), message(4.0, 1_000_000)];
        assert!((step_s(&slow) - 6.0).abs() < 1e-9, "the second waits for the first");
    }

    #[test]
    fn fusion_keeps_the_bytes_and_waits_for_the_last() {
        let message = |ready_s, bytes| Message { ready_s, bytes };
        let messages = [message(1.0, 10), message(2.0, 90), message(3.0, 500), message(4.0, 7)];
        assert_eq!(fused(&messages, 100), [message(2.0, 100), message(3.0, 500), message(4.0, 7)]);
        assert_eq!(fused(&messages, 1_000_000), [message(4.0, 607)]);
        assert_eq!(fused(&messages, 1), messages);
        assert!(fused(&[], 1).is_empty());
    }
}
