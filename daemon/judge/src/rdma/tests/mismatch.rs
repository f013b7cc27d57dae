//! Ends whose GIDs or packets do not fit each other.

use super::*;

fn with_kinds(one: Connection, local: GidKind, remote: GidKind) -> Connection {
    let mut one = one;
    one.local.as_mut().unwrap().gid_kind = local.into();
    one.remote.as_mut().unwrap().gid_kind = remote.into();
    one
}

#[test]
fn ends_with_gids_of_two_kinds() {
    let mut world = World::new(3);
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let odd = with_kinds(at_place(1, to(2)), v2, v1);
    world.connect(&[vec![to(1), odd.clone()], vec![to(0), odd], vec![with_kinds(to(0), v1, v2)]]);
    let expected = "gid_mismatch critical [other_gid_kind] mlx5_0 of host-2 uses a GID of RoCE v1, mlx5_0 of host-0 at the \
                    other end of its connection one of RoCE v2: these do not reach each other";
    assert_eq!(world.fires(), [expected]);
    // Twin: other indices of one kind, and a kind that nobody told.
    let mut other = to(1);
    other.local.as_mut().unwrap().gid_index = 3;
    let unknown = with_kinds(at_place(1, to(2)), v2, GidKind::Unspecified);
    let mut world = World::new(3);
    world.connect(&[vec![other, unknown], vec![to(0)]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_host_whose_rail_has_another_kind_of_gid_than_most() {
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let mut world = World::new(4);
    let pair = |rank, kind| vec![with_kinds(to(rank), kind, GidKind::Unspecified)];
    world.connect(&[pair(1, v2), pair(2, v2), pair(3, v2), pair(0, v1)]);
    let found = world.fires();
    let start = "gid_mismatch warning [other_gid_kind] mlx5_0 of host-3 uses a GID of RoCE v1, mlx5_0 of most hosts of the \
                 job one of RoCE v2";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    // Twin: another rail may be of another kind.
    let mut world = World::new(4);
    let mut rail = with_kinds(to(0), v1, v1);
    rail.local.as_mut().unwrap().device = "mlx5_1".to_owned();
    rail.remote.as_mut().unwrap().device = "mlx5_1".to_owned();
    world.connect(&[pair(1, v2), pair(2, v2), pair(3, v2), vec![rail]]);
    assert_eq!(world.fires(), [""; 0]);
}

fn with_sizes(one: Connection, local: u32, remote: u32, path: u32) -> Connection {
    let mut one = one;
    one.local.as_mut().unwrap().mtu_bytes = local;
    one.remote.as_mut().unwrap().mtu_bytes = remote;
    Connection { path_mtu_bytes: path, ..one }
}

#[test]
fn ends_that_take_packets_of_two_sizes() {
    let check = |(local, remote, path): (u32, u32, u32), expected: &[&str]| {
        let mut world = World::new(2);
        let back = received(with_sizes(to(0), remote, local, path));
        world.connect(&[vec![with_sizes(to(1), local, remote, path)], vec![back]]);
        assert_eq!(world.fires(), expected);
    };
    check(
        (4096, 1024, 1024),
        &[
            "mtu_mismatch warning [smaller_mtu] mlx5_0 of host-1 takes packets of up to 1024 bytes, mlx5_0 of host-0 at the \
           other end of its connection of up to 4096: their connection uses 1024",
        ],
    );
    check(
        (1024, 4096, 4096),
        &[
            "mtu_mismatch critical [mtu_too_large] mlx5_0 of host-0 takes packets of up to 1024 bytes, mlx5_0 of host-1 at \
           the other end of its connection of up to 4096: their connection uses 4096, which cannot arrive",
        ],
    );
    // Twins: a connection that uses less than both ends take, and ends that nobody told of.
    check((4096, 4096, 1024), &[]);
    check((0, 4096, 1024), &[]);
    check((4096, 0, 4096), &[]);
}

#[test]
fn who_takes_packets_of_another_size_than_most_is_named_also_where_those_are_larger() {
    let of = |rank: u32, local, remote| vec![with_sizes(to(rank), local, remote, 1024)];
    let mut world = World::new(4);
    world.connect(&[of(1, 1024, 1024), of(2, 1024, 1024), of(3, 1024, 4096), of(0, 4096, 1024)]);
    let found = world.fires();
    let start = "mtu_mismatch warning [smaller_mtu] mlx5_0 of host-3 takes packets of up to 4096 bytes, ";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    // Half of them each: one finding of the job.
    let mut world = World::new(4);
    world.connect(&[of(1, 1024, 4096), of(2, 4096, 1024), of(3, 1024, 4096), of(0, 4096, 1024)]);
    let found = world.fires();
    assert!(found.len() == 1 && found[0].ends_with("; and 1 more ports of the job differ so"), "{found:?}");
}

#[test]
fn what_a_process_says_of_hosts_and_ports_that_nobody_knows_accuses_none() {
    // Of a host that there is and says nothing of the kind, the one who says so is named.
    let mut world = World::new(2);
    let (v1, v2) = (GidKind::RoceV1, GidKind::RoceV2);
    let odd = with_sizes(with_kinds(to(1), v2, v1), 4096, 1024, 1024);
    world.connect(&[vec![odd.clone()], vec![received(to(0))]]);
    assert!(world.firing().len() == 2 && world.firing().iter().all(|one| one.host == "host-0"));
    // Hosts and processes that are not there, and ports that the hardware does not have.
    let mut world = World::new(2);
    let invented = failed(Connection { remote: to(77).remote, ..to(1) });
    world.connect(&[vec![invented.clone()], vec![invented.clone()]]);
    assert_eq!(world.firing().iter().map(|one| one.host.as_str()).collect::<Vec<_>>(), ["host-0", "host-1"]);
    assert!(world.firing().iter().all(|one| one.culprits.is_empty()), "{:?}", world.firing());
    let mut world = World::new(1);
    let of_port = |n: u32| {
        let mut one = at_place(n, failed(to(1)));
        one.local.as_mut().unwrap().device = format!("no_{n}");
        one
    };
    world.connect(&[(0..100).map(of_port).collect()]);
    assert_eq!(world.firing().len(), 16, "one process makes few");
    world.read(vec![nic("mlx5_0")]);
    assert_eq!(world.fires(), [""; 0]);
}
