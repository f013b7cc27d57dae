//! Settings that ranks must have alike, by what they have told of themselves: else each rank refuses, with the ranks that differ.

use crate::error::{Error, Result};
use crate::hash;
use crate::topology::PeerInfo;
use crate::topology::machine::files;

/// Runs of ranks that a message lists for a value.
const MAX_RUNS: usize = 8;

/// Whether the ranks reduce in one order and show as one version, and those of a host as one machine. All ranks know the same of each other here, so
/// nobody waits for a rank that has refused.
///
/// # Errors
/// They do not.
pub(super) fn check(peers: &[PeerInfo]) -> Result<()> {
    let all: Vec<&PeerInfo> = peers.iter().collect();
    let or = |value: &str, none: &str| if value.is_empty() { none } else { value }.to_owned();
    let order = |peer: &PeerInfo| or(&peer.rank_order, "not set");
    differ("RSCCL_DETERMINISTIC", "", &all, (order, order))?;
    let network = |peer: &PeerInfo| or(&peer.network, "Socket");
    differ("The network (RSCCL_NET, NCCL_NET_PLUGIN)", "", &all, (network, network))?;
    let version = |peer: &PeerInfo| or(&peer.faithful, "off");
    differ("RSCCL_FAITHFUL", "", &all, (version, version))?;
    // Without the faithful mode nobody has a machine.
    if peers.first().is_none_or(|peer| peer.faithful.is_empty()) {
        return Ok(());
    }
    let has = |peer: &PeerInfo| peer.placement.machine.is_some();
    let set = |peer: &PeerInfo| if has(peer) { "set" } else { "not set" }.to_owned();
    differ("RSCCL_MACHINE", "", &all, (has, set))?;
    let mut hosts: Vec<&PeerInfo> = peers.iter().collect();
    hosts.sort_by_key(|peer| (peer.host_hash, peer.rank));
    for host in hosts.chunk_by(|one, next| one.host_hash == next.host_hash) {
        let on = format!(" on the ranks of host {}", host[0].host);
        differ("RSCCL_MACHINE", &on, host, (text, machine))?;
    }
    Ok(())
}

/// What a rank has told of its machine.
fn text(peer: &PeerInfo) -> Option<String> {
    peer.placement.machine.as_ref().map(|told| told.machine.clone())
}

/// The same for a message.
fn machine(peer: &PeerInfo) -> String {
    let text = text(peer).unwrap_or_default();
    let hashed = || format!("a file with the hash {:x}", hash::hash(text.as_bytes()));
    files::known(&text).map_or_else(hashed, |_| text.clone())
}

/// An error if the ranks do not all have the same value; `shown` is the value's name.
fn differ<T: PartialEq>(
    setting: &str,
    on: &str,
    ranks: &[&PeerInfo],
    (value, shown): (impl Fn(&PeerInfo) -> T, impl Fn(&PeerInfo) -> String),
) -> Result<()> {
    let Some(first) = ranks.first().map(|peer| value(peer)) else { return Ok(()) };
    if ranks.iter().all(|peer| value(peer) == first) {
        return Ok(());
    }
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for peer in ranks {
        let name = shown(peer);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push(peer.rank),
            None => groups.push((name, vec![peer.rank])),
        }
    }
    let told: Vec<String> = groups.iter().map(|(name, of)| format!("{name} on {}", list(of))).collect();
    Err(Error::InvalidUsage(format!("{setting} is not the same{on}: {}", told.join("; "))))
}

/// `rank 3`, `ranks 0-3, 8`; the first of many runs.
fn list(ranks: &[usize]) -> String {
    let runs: Vec<&[usize]> = ranks.chunk_by(|one, next| next - one == 1).collect();
    let shown = |run: &&[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    let more = if runs.len() > MAX_RUNS { " and others" } else { "" };
    let shown: Vec<String> = runs.iter().take(MAX_RUNS).map(shown).collect();
    format!("rank{} {}{more}", if ranks.len() > 1 { "s" } else { "" }, shown.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::topology::HostFacts;
    use crate::topology::machine::view::MachineSpec;
    use crate::topology::peers::Placement;

    /// Ranks, each by its host, its version and its machine.
    fn said(ranks: &[(u64, &str, Option<&str>)]) -> String {
        let peer = |(rank, (host, version, machine)): (usize, &(u64, &str, Option<&str>))| PeerInfo {
            rank,
            shm: None,
            ports: Vec::new(),
            device: None,
            process: 0,
            facts: Arc::new(HostFacts {
                host: format!("host-{host}"),
                host_hash: *host,
                faithful: (*version).to_owned(),
                placement: Placement {
                    machine: machine
                        .map(|text| MachineSpec { machine: text.to_owned(), ..MachineSpec::default() }),
                    ..Placement::default()
                },
                ..HostFacts::default()
            }),
        };
        let peers: Vec<PeerInfo> = ranks.iter().enumerate().map(peer).collect();
        check(&peers).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn who_has_which_version_is_said() {
        let (off, new) = ((1, "", None), (1, "2.30", None));
        assert_eq!(said(&[off, off]), "");
        assert_eq!(said(&[new, new]), "");
        let text = said(&[off, off, new, off, (1, "2.28", None)]);
        assert_eq!(
            text,
            "RSCCL_FAITHFUL is not the same: off on ranks 0-1, 3; 2.30 on rank 2; 2.28 on rank 4"
        );
    }

    #[test]
    fn who_reduces_in_which_order_is_said() {
        let rank = |rank, order: &str| PeerInfo {
            rank,
            shm: None,
            ports: Vec::new(),
            device: None,
            process: 0,
            facts: Arc::new(HostFacts { rank_order: order.to_owned(), ..HostFacts::default() }),
        };
        let alike = [rank(0, "rank-order:owner-sum"), rank(1, "rank-order:owner-sum")];
        assert!(check(&alike).is_ok());
        let text = check(&[rank(0, ""), rank(1, "rank-order:owner-sum")]).unwrap_err().to_string();
        assert_eq!(
            text,
            "RSCCL_DETERMINISTIC is not the same: not set on rank 0; rank-order:owner-sum on rank 1"
        );
    }

    #[test]
    fn a_host_has_one_machine_and_another_host_another() {
        let (one, other) = ((1, "2.28", Some("dgx-h100")), (2, "2.28", Some("pcie")));
        assert_eq!(said(&[one, one, other, other]), "");
        let text = said(&[one, other, (1, "2.28", Some("pcie")), other]);
        assert_eq!(
            text,
            "RSCCL_MACHINE is not the same on the ranks of host host-1: dgx-h100 on rank 0; pcie on rank 2"
        );
        let text = said(&[(1, "2.28", Some("<system/>")), (1, "2.28", Some("<system />"))]);
        assert!(text.contains(" a file with the hash ") && text.ends_with(" on rank 1"), "{text}");
        let text = said(&[one, other, (3, "2.28", None)]);
        assert_eq!(text, "RSCCL_MACHINE is not the same: set on ranks 0-1; not set on rank 2");
    }
}
