//! Which counters of errors mean trouble with a NIC, and from which rate on. A counter is judged by how far it rose over
//! ten minutes, and by how far it rose on its like: what all ports count belongs to the fabric and to how it is used.

use std::collections::{BTreeMap, HashMap};

use ringscope_model::{ErrorCount, Model, Name, Nic, Port};

/// A rise over ten minutes that is trouble on a link; infiniband-diags' ibqueryerrors takes as many. Fewer come from links
/// that are as good as the standard asks.
const LINK_ERRORS: u64 = 10;
/// The same for what is lost or late: one in six seconds. Each holds up a transfer for a while.
pub(in super::super) const LOSSES_RISEN: u64 = 100;
/// How many times as many as its like a port counts that is worse than they are.
const WORSE: u64 = 10;
/// Bytes a second below which a port is idle: it says nothing of what busy ones count.
const IDLE_BYTES_PER_S: f64 = 1e6;

/// What comes of congestion, reordering and slow receivers as well as of a bad link (NVIDIA, "Understanding mlx5 ethtool
/// counters" and the drivers' own lists): trouble only where the like ports do not count it. Of those that say that something
/// was sent again only agents of older releases tell as errors: see `rdma`.
const LOSSES: [&str; 12] = [
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans_to",
    "retrans_timeout_events",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "missing_resp",
    "tcpRetransSegs",
    "port_xmit_discards",
    "tx_roce_discards",
    "rx_roce_discards",
];
/// What a healthy fabric with adaptive routing counts by the thousand, or what a slow program makes: packets that overtake
/// one another, retransmission that adapts, receivers that are not ready yet.
const BENIGN: [&str; 4] =
    ["out_of_sequence", "roce_adp_retrans", "roce_slow_restart_trans", "rnr_nak_retry_err"];

/// NICs of one model are alike.
type Kind<'a> = (bool, &'a Name, &'a Name);

/// How far each counter rose on ports that are alike.
pub(in super::super) struct Usual<'a>(HashMap<Kind<'a>, Rises>);

#[derive(Default)]
struct Rises {
    /// Ports that are up and not idle.
    n: usize,
    /// Of these, those on which a counter rose.
    by_counter: BTreeMap<Name, Vec<u64>>,
}

/// A counter that means trouble.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) error: ErrorCount,
    /// How far it rose on most ports that are alike. Absent: there are none.
    pub(super) usual: Option<u64>,
}

impl<'a> Usual<'a> {
    /// Of all ports of all hosts.
    pub(super) fn of(model: &'a Model) -> Self {
        let mut usual: HashMap<Kind<'a>, Rises> = HashMap::new();
        for (port, nic) in model.hardware().flat_map(|(_, hardware)| &hardware.nics) {
            if !is_busy(nic) {
                continue;
            }
            let rises = usual.entry(kind(port, nic)).or_default();
            rises.n += 1;
            for error in nic.errors().chain(nic.retransmits()).filter(|error| error.risen > 0) {
                rises.by_counter.entry(error.name).or_default().push(error.risen);
            }
        }
        for risen in usual.values_mut().flat_map(|rises| rises.by_counter.values_mut()) {
            risen.sort_unstable();
        }
        Self(usual)
    }

    /// The counters of a port that mean trouble.
    pub(super) fn bad(&self, port: &Port, nic: &Nic) -> Vec<Bad> {
        let judged = nic.errors().filter(|error| error.risen >= LINK_ERRORS.min(LOSSES_RISEN));
        judged
            .filter_map(|error| {
                let usual = self.rise(port, nic, &error.name);
                let is_worse = error.risen > usual.unwrap_or(0).saturating_mul(WORSE);
                let is_bad = match &*error.name {
                    name if BENIGN.contains(&name) => false,
                    name if LOSSES.contains(&name) => usual.is_some() && error.risen >= LOSSES_RISEN,
                    _ => error.risen >= LINK_ERRORS,
                };
                (is_bad && is_worse).then_some(Bad { error, usual })
            })
            .collect()
    }

    /// How far a counter rose on most ports that are alike, and whether it rose much further on this one. Absent: there are none.
    pub(in super::super) fn compare(
        &self,
        port: &Port,
        nic: &Nic,
        counted: &ErrorCount,
    ) -> (Option<u64>, bool) {
        let usual = self.rise(port, nic, &counted.name);
        (usual, usual.is_some_and(|usual| counted.risen > usual.saturating_mul(WORSE)))
    }

    /// What at least half of the like ports have at most. Of two, what the better one has.
    fn rise(&self, port: &Port, nic: &Nic, counter: &Name) -> Option<u64> {
        let rises = self.0.get(&kind(port, nic))?;
        if rises.n <= usize::from(is_busy(nic)) {
            return None;
        }
        let risen = rises.by_counter.get(counter).map(Vec::as_slice).unwrap_or_default();
        let middle = (rises.n - 1) / 2;
        let n_without = rises.n.saturating_sub(risen.len());
        Some(middle.checked_sub(n_without).and_then(|at| risen.get(at)).copied().unwrap_or(0))
    }
}

fn kind<'a>(port: &Port, nic: &'a Nic) -> Kind<'a> {
    (port.is_interface, &nic.model, &nic.link_layer)
}

/// Whether it is up and carries something, as far as is known.
fn is_busy(nic: &Nic) -> bool {
    let carried = match nic.bytes_per_s() {
        (None, None) => return nic.up,
        (sent, received) => sent.unwrap_or(0.0) + received.unwrap_or(0.0),
    };
    nic.up && carried >= IDLE_BYTES_PER_S
}
