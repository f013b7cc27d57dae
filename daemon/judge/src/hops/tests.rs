use super::*;

/// A name that lives as long as the tests.
fn name(text: &str) -> &'static Name {
    Box::leak(Box::new(text.into()))
}

/// `n_hosts` hosts with two ranks each, one ring a channel in the order of the ranks: inside a host P2P, between hosts
/// IB with GPUDirect on the NIC of the channel.
fn healthy(n_hosts: u32, channels: u32) -> Vec<Hop<'static>> {
    let n_ranks = 2 * n_hosts;
    let hosts: Vec<&'static Name> = (0..n_hosts).map(|host| name(&format!("host-{host}"))).collect();
    let host = |rank: u32| hosts[rank as usize / 2];
    let hop = |(channel, rank): (u32, u32)| {
        let next = (rank + 1) % n_ranks;
        let leaves = host(rank) != host(next);
        let rail = Rail::Index(channel % 4);
        Hop {
            channel,
            rank,
            next,
            host: host(rank),
            next_host: host(next),
            node: rank / 2,
            next_node: next / 2,
            transport: name(if leaves { "NET/IB" } else { "P2P/CUMEM" }),
            gpu_direct: leaves,
            rails: leaves.then_some((rail, rail)),
            goes_on: true,
        }
    };
    (0..channels).flat_map(|channel| (0..n_ranks).map(move |rank| (channel, rank))).map(hop).collect()
}

fn with(mut hops: Vec<Hop<'static>>, change: impl Fn(&mut Hop<'static>)) -> Vec<Hop<'static>> {
    hops.iter_mut().for_each(change);
    hops
}

fn rails(hops: &[Hop<'_>]) -> Rails {
    odd(hops.iter().copied()).1
}

#[track_caller]
fn check(hops: &[Hop<'_>], expected: &[(&str, &str, usize)]) {
    let (odd, _) = odd(hops.iter().copied());
    let found: Vec<(&str, &str, usize)> =
        odd.iter().map(|odd| (odd.cause, &*odd.host, odd.hops.len())).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_all_do_alike_is_no_fault() {
    check(&[], &[]);
    check(&healthy(1, 4), &[]);
    check(&healthy(4, 4), &[]);
    let sockets = with(healthy(4, 4), |hop| {
        hop.transport = name("NET/Socket");
        hop.gpu_direct = false;
    });
    check(&sockets, &[]);
    check(&with(healthy(4, 4), |hop| hop.gpu_direct = false), &[]);
    let shm = |hop: &mut Hop<'_>| {
        if !hop.gpu_direct && hop.channel < 2 {
            hop.transport = name("SHM/direct/direct");
        }
    };
    check(&with(healthy(4, 4), shm), &[]);
    check(&with(healthy(1, 4), shm), &[]);
    // Shared memory inside every host and sockets between them, as ringscope's engine has it.
    let without_gpus = |hop: &mut Hop<'_>| {
        let inside = hop.host == hop.next_host;
        hop.transport = name(if inside { "SHM/direct/direct" } else { "NET/Socket" });
        hop.gpu_direct = false;
    };
    check(&with(healthy(4, 4), without_gpus), &[]);
}

#[test]
fn a_host_on_sockets_among_hosts_on_ib() {
    let sick = with(healthy(4, 4), |hop| {
        if hop.rank == 5 {
            (hop.transport, hop.gpu_direct) = (name("NET/Socket"), false);
        }
    });
    check(&sick, &[("socket", "host-2", 4)]);
}

#[test]
fn a_host_on_shared_memory_among_hosts_on_p2p() {
    let sick = with(healthy(4, 4), |hop| {
        if hop.rank == 2 {
            hop.transport = name("SHM/direct/direct");
        }
    });
    check(&sick, &[("shm", "host-1", 4)]);
    let on_network = with(healthy(4, 4), |hop| {
        if hop.rank == 2 {
            hop.transport = name("NET/IB");
        }
    });
    check(&on_network, &[("network_inside_host", "host-1", 4)]);
}

#[test]
fn a_host_without_gpu_direct_among_hosts_with_it() {
    let sick = with(healthy(3, 4), |hop| hop.gpu_direct &= hop.rank != 1 || hop.channel == 0);
    check(&sick, &[("no_gpu_direct", "host-0", 3)]);
    let mostly_without = with(healthy(3, 4), |hop| hop.gpu_direct &= hop.rank == 1);
    check(&mostly_without, &[]);
}

#[test]
fn a_host_with_its_nics_in_another_order() {
    // Its NIC 0 is where the others have NIC 1, and the other way about.
    let swap = |rail: &Rail<'static>| match rail {
        Rail::Index(index) => Rail::Index(index ^ 1),
        Rail::Name(name) => Rail::Name(name),
    };
    let sick = with(healthy(6, 4), |hop| {
        let Some((send, receive)) = &mut hop.rails else { return };
        if &**hop.host == "host-3" {
            *send = swap(send);
        }
        if &**hop.next_host == "host-3" {
            *receive = swap(receive);
        }
    });
    check(&sick, &[("cross_rail", "host-3", 8)]);
}

#[test]
fn one_hop_to_the_wrong_nic() {
    let sick = with(healthy(4, 4), |hop| {
        if hop.rank == 3 && hop.channel == 2 {
            hop.rails = Some((Rail::Name(name("mlx5_2")), Rail::Name(name("mlx5_7"))));
        }
    });
    check(&sick, &[("cross_rail", "host-1", 1)]);
}

#[test]
fn rails_are_not_judged_where_some_are_not_known() {
    let wrong = |hop: &mut Hop<'_>| {
        if hop.rank == 3 && hop.channel == 2 {
            hop.rails = Some((Rail::Index(2), Rail::Index(7)));
        }
    };
    let sick = with(healthy(4, 4), wrong);
    assert_eq!(rails(&sick), Rails { hops: 16, known: 16, is_whole: true });
    // As without GRAPH lines: the receiver's NIC is known for the hops into rank 0 alone.
    let of_rank_0 = with(sick.clone(), |hop| hop.rails = hop.rails.take().filter(|_| hop.next == 0));
    assert_eq!(rails(&of_rank_0), Rails { hops: 16, known: 4, is_whole: true });
    check(&of_rank_0, &[]);
    let all_but_one = with(sick.clone(), |hop| {
        hop.rails = hop.rails.take().filter(|_| (hop.rank, hop.channel) != (1, 0));
    });
    check(&all_but_one, &[]);
    // A rank of which nothing is known.
    let torn = sick.into_iter().filter(|hop| hop.rank != 5);
    let torn = with(torn.collect(), |hop| hop.goes_on = hop.next != 5);
    assert!(!rails(&torn).are_known());
    check(&torn, &[]);
}

#[test]
fn rails_that_are_crossed_on_purpose() {
    // All odd nodes swap the rings of each pair of channels.
    let swapped = |hop: &mut Hop<'_>| {
        let Some((Rail::Index(send), Rail::Index(receive))) = &mut hop.rails else { return };
        *send ^= hop.node & 1;
        *receive ^= hop.next_node & 1;
    };
    check(&with(healthy(4, 4), swapped), &[]);
    check(&with(healthy(5, 4), swapped), &[]);
    // Rings that enter a node on one NIC and leave it on another; with odd nodes swapped only the last hop crosses.
    let crossing = |hop: &mut Hop<'_>| {
        let Some((Rail::Index(send), Rail::Index(receive))) = &mut hop.rails else { return };
        *send ^= 1 ^ (hop.node & 1);
        *receive ^= hop.next_node & 1;
    };
    let rings = with(healthy(5, 4), crossing);
    assert!(rings.iter().any(Hop::crosses));
    check(&rings, &[]);
}
