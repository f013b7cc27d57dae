//! Requests that failed for good.

use super::*;

#[test]
fn requests_that_failed_name_their_counter_and_the_other_end() {
    let port = |value| Nic { failures: counter("retry_exceeded_err", value), ..nic("mlx5_0") };
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(7)]);
    let of_pairs =
        |world: &World| world.fires().iter().filter(|line| line.starts_with("rdma_errors")).count();
    assert_eq!(of_pairs(&world), 0, "a counter that stands still");
    world.read(vec![port(8)]);
    let expected = "rdma_errors warning [failed_requests] requests of mlx5_0 of host-0 failed for good: \
                    retry_exceeded_err rose by 1 in ten minutes; the connections that failed led to mlx5_0 of host-1";
    assert!(world.fires().contains(&expected.to_owned()), "{:?}", world.fires());
    // The other end is killed for it: it failed all the same.
    world.end(1, ProcessState::Killed);
    assert!(world.fires().contains(&expected.to_owned()), "{:?}", world.fires());
    // Twin: the other end was gone before, and that is told elsewhere.
    let mut world = World::new(2);
    world.connect(&[vec![to(1)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Exited);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(8)]);
    let found = world.firing();
    let severities: Vec<_> = found.iter().map(|one| (one.severity.label(), one.cause.as_str())).collect();
    assert_eq!(severities, [("info", "peer_ended"); 2], "{:?}", world.fires());
    // Twin: the port there is down, which is told of that one.
    let mut world = World::new(2);
    world.connect(&[vec![to(1)], Vec::new()]);
    world.read(vec![port(7), nic("mlx5_0")]);
    world.read(vec![port(7), Nic { up: false, ..nic("mlx5_0") }]);
    world.connect(&[vec![failed(to(1))]]);
    world.read(vec![port(8), Nic { up: false, ..nic("mlx5_0") }]);
    let found = world.fires();
    let line = found.iter().find(|line| line.starts_with("rdma_errors info [port_down]"));
    assert!(line.is_some_and(|line| line.ends_with("; mlx5_0 of host-1 is down")), "{found:?}");
    // Twin: who ended there was of an earlier life of the job.
    let mut world = World::new(2);
    let before = world.cluster.process(1);
    world.apply(vec![before], Vec::new());
    world.end(1, ProcessState::Exited);
    world.wait(20);
    let mut again = world.cluster.process(0);
    again.identity.as_mut().unwrap().start_time_ns = at(world.s).0;
    again.connections = vec![failed(to(1))];
    world.apply(vec![again], Vec::new());
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Critical, "{:?}", world.fires());
}

#[test]
fn requests_that_failed_after_an_end_in_the_job_are_explained_also_where_nobody_tells_of_connections() {
    let port = |value| Nic { failures: counter("req_transport_retries_exceeded", value), ..nic("mlx5_0") };
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Killed);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    assert_eq!(
        world.fires(),
        ["rdma_errors info [after_a_death] requests of mlx5_0 of host-0 failed for good: \
          req_transport_retries_exceeded rose by 2 in ten minutes; process 1001 of host-1 in job train was killed before, \
          and who sends to a process that is gone counts that"]
    );
    // Twin: they failed first, and it was killed for that.
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    world.end(1, ProcessState::Killed);
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Warning);
    // Twin: the job had ended on this host too, so that nobody of it was there to send.
    let mut world = World::new(2);
    world.connect(&[Vec::new(), Vec::new()]);
    world.read(vec![port(7)]);
    world.end(0, ProcessState::Killed);
    world.end(1, ProcessState::Killed);
    world.read(vec![port(7)]);
    world.read(vec![port(9)]);
    assert_eq!(world.firing()[0].severity, ringscope_api::Severity::Warning);
}
