use ringscope_wire::Primitive;

use super::super::{CommunicatorFilter, communicators, jobs};
use crate::api::Condition;
use crate::diagnose::Diagnosis;
use crate::model::Model;
use crate::model::build::{Cluster, at, batch};

/// Rank 0 has lost events of one of its two communicators, on which a call seems to be in flight.
#[test]
fn only_the_communicator_whose_events_are_lost_is_unknown() {
    let (lossy, other) = {
        let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
        (cluster.clone(), cluster.again(0xdef, 8, 1))
    };
    let processes = (0..2).map(|rank| {
        let mut process = lossy.process(rank);
        process.communicators.extend(other.process(rank).communicators);
        let calls = |cluster: &Cluster, completed| cluster.counters(Primitive::AllReduce, 9, completed, 8);
        process.counters = vec![calls(&lossy, if rank == 0 { 8 } else { 9 }), calls(&other, 9)];
        if rank == 0 {
            process.communicators[0].completion_lost = "events could not be followed".to_owned();
            process.in_flight = vec![lossy.operation(5, 3, None)];
        }
        process
    });
    let mut model = Model::new();
    model.apply(&batch(1, 99, processes.collect()), at(99));
    let (diagnosis, now) = (Diagnosis::new(), at(100));
    let found = communicators(&model, &diagnosis, now, &CommunicatorFilter::default());
    let standing = |cluster: &Cluster| {
        let found = found.iter().find(|one| one.id == cluster.id().as_str()).unwrap();
        (found.standing.condition, found.standing.reason.clone())
    };
    let (condition, reason) = standing(&lossy);
    assert!(
        condition == Condition::Unknown && reason.contains("because events could not be followed"),
        "{reason}"
    );
    assert_eq!(standing(&other).0, Condition::Healthy);
    let job = &jobs(&model, &diagnosis, now)[0].standing;
    assert_eq!(job.condition, Condition::Healthy, "{job:?}");
}
