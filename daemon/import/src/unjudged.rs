//! What the files tell of and is not judged, with the reason: silence would read as health.

use std::collections::BTreeMap;

use ringscope_api::words::plural;
use ringscope_judge::Diagnosis;
use ringscope_judge::hops::Rails;
use ringscope_judge::version::{Family, Version};
use ringscope_model::Model;

use super::gathered::Gathered;
use super::gloo;

/// One sentence for each kind of thing that is not judged.
pub(super) fn unjudged(model: &Model, diagnosis: &Diagnosis) -> Vec<String> {
    let mut foreign: BTreeMap<Version, usize> = BTreeMap::new();
    let mut rails: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for communicator in model.communicators() {
        let channels = diagnosis.channels(communicator, model);
        let mut versions = channels.ranks.iter().filter_map(|rank| rank.version);
        if let Some(version) = versions.find(|version| version.family == Family::Rccl) {
            *foreign.entry(version).or_default() += 1;
        }
        // Where nothing is known of them, nobody thinks that they were judged.
        if channels.rails.known > 0 && !channels.rails.are_known() {
            let Rails { known, hops, .. } = channels.rails;
            *rails.entry((known, hops)).or_default() += 1;
        }
    }
    let foreign = foreign.into_iter().map(|(version, n)| {
        format!(
            "not judged: {version} chooses the number of channels by rules of its own, which are not NCCL's; hosts are \
             only compared with each other ({})",
            of(n)
        )
    });
    let rails = (rails.into_iter().take(RAILS_TOLD)).map(|((known, hops), n)| {
        format!(
            "rails are not judged: the NICs of both ends are known of {known} of {hops} hops over the network, in whole \
             rings only: give the logs of all hosts, with NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV ({})",
            of(n)
        )
    });
    foreign.chain(rails).collect()
}

/// One sentence for each thing that the dumps cannot show, whatever is found in them.
pub(super) fn of_dumps(gathered: &Gathered) -> Vec<String> {
    let mut told = Vec::new();
    if !gathered.ras.is_empty() {
        told.push(
            "whether calls end is not judged by RAS: it counts calls that were made, and a job in which all ranks have made \
             the same ones may hang all the same: the dumps of the Flight Recorder, or `ringscope run`, would show it"
                .to_owned(),
        );
    }
    if !gathered.inspector.ranks.is_empty() {
        told.push(
            "whether calls hang is not judged by Inspector: it tells of calls that have ended, not of those that are open: \
             the dumps of the Flight Recorder, or `ringscope run`, would show it"
                .to_owned(),
        );
    }
    if !gathered.flight.is_empty() {
        told.push(
            "reductions, roots, and sizes where ranks may give different ones are not compared: the Flight Recorder does \
             not tell them"
                .to_owned(),
        );
    }
    let cut = gathered.flight.iter().filter(|(_, _, dump)| dump.is_cut).count();
    if cut > 0 {
        told.push(format!(
            "calls before the oldest one of {} are not judged: older entries were dropped from the ring buffer \
             (TORCH_FR_BUFFER_SIZE makes it larger)",
            plural(cut, "dump")
        ));
    }
    let unknown = gloo::unknown(gathered.flight.iter().map(|(_, _, dump)| dump));
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().take(GROUPS_NAMED).copied().collect();
        told.push(format!(
            "{} not judged ({}): which ranks Gloo's groups have is not told, and these files do not show it",
            plural(unknown.len(), "process group"),
            names.join(", ")
        ));
    }
    told
}

/// What may hang and not be in the dumps at all, so that dumps in which nothing hangs prove nothing.
pub(super) fn hidden(gathered: &Gathered) -> Option<&'static str> {
    let has_gloo = gathered.flight.iter().any(|(_, _, dump)| dump.has_gloo);
    has_gloo
        .then_some("Gloo's sends and receives are not recorded, and what has failed looks as what has ended")
}

fn of(n: usize) -> String {
    if n == 1 { "1 communicator".to_owned() } else { format!("{n} communicators") }
}

/// Process groups of a sentence that are named.
const GROUPS_NAMED: usize = 4;
/// Sentences about rails.
const RAILS_TOLD: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::{Cluster, at};

    fn told(cluster: &Cluster, log_version: &str, channels: u32) -> Vec<String> {
        let mut batch = cluster.batch(1, 2);
        for communicator in batch.processes.iter_mut().flat_map(|process| &mut process.communicators) {
            // Only the log of one rank was found.
            if communicator.rank == 1 {
                log_version.clone_into(&mut communicator.log_version);
            }
            for ring in communicator.rings.iter_mut().filter(|ring| ring.channel < channels) {
                if ring.transport == "NET/IB" {
                    ring.recv_nic = ring.nic.clone();
                }
            }
        }
        let mut model = Model::new();
        model.apply(&batch, at(2));
        let mut diagnosis = Diagnosis::new();
        let findings = diagnosis.update(&model, None, at(3));
        assert!(findings.is_empty(), "{findings:?}");
        unjudged(&model, &diagnosis)
    }

    #[test]
    fn rccl_is_not_judged_by_the_rules_of_nccl() {
        // By NCCL's rules 3 of 1 is neither doubled nor explained.
        let odd = Cluster::new(&[("host-0", 2, 1)], 3);
        let told = told(&odd, "RCCL 2.22.3-HEAD:abc", 4);
        assert!(told[0].starts_with("not judged: RCCL 2.22.3 chooses"), "{told:?}");
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn rails_that_are_known_in_part_are_said_not_to_be_judged() {
        let healthy = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
        let part = told(&healthy, "2.27.3", 1);
        assert!(part[0].contains("are known of 2 of 8 hops"), "{part:?}");
        assert_eq!(told(&healthy, "2.27.3", 4), [""; 0]);
    }
}
