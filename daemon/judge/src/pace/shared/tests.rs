//! Ways with their speeds, and what they are put down to.

use ringscope_api::CommunicatorId;

use super::*;

/// NICs that say something: what is wrong, and the rate where it is not that of all.
#[derive(Default)]
struct Told {
    ails: Vec<(&'static str, &'static str)>,
    rates: Vec<(&'static str, u64)>,
}

impl Nics for Told {
    fn ail(&self, host: &Name, nic: &str) -> Option<Ail> {
        self.ails.contains(&(host, nic)).then(|| Ail {
            nic: nic.into(),
            cause: "nic_slow",
            words: "its rate fell".to_owned(),
            since: None,
            evidence: Vec::new(),
        })
    }

    fn rate(&self, _: &Name, nic: &str) -> Option<u64> {
        Some(self.rates.iter().find(|(name, _)| *name == nic).map_or(400, |(_, rate)| *rate))
    }
}

/// A ring over hosts of one rank each, all of it by this NIC: nanoseconds for a byte, hop by hop.
fn ring(nic: &str, ns: &[f64]) -> Ways {
    let n = ns.len();
    let busy = ns.iter().enumerate().map(|(at, ns)| {
        let end = |at: usize| End { host: format!("h{at}").into(), nics: vec![nic.into()] };
        let to = (at + 1) % n;
        let rank = |at: usize| u32::try_from(at).unwrap();
        Busy {
            way: Way {
                comm: CommunicatorId::new("train", nic.len() as u64, 4),
                from: rank(at),
                to: rank(to),
            },
            processes: [at, to].map(|at| format!("p{at}").into()),
            from: end(at),
            to: end(to),
            step_ns: *ns,
            wire_ns: *ns,
            load: 1.0,
        }
    });
    Ways { n_ranks: n, busy: busy.collect() }
}

/// What is found, as "nic h1 mlx5_0: 2".
fn found(comms: &[Ways], told: &Told) -> Vec<String> {
    let word = |fault: Fault| {
        let n = fault.ways.len();
        match fault.subject {
            Subject::Link(way) => format!("link {} {}", way.from, way.to),
            Subject::Nic { host, nics } => format!("nic {host} {}: {n}", nics.join("+")),
            Subject::Rail(rail) => format!("rail {rail}: {n}"),
        }
    };
    let mut found: Vec<String> = find(comms, told).into_iter().map(word).collect();
    found.sort();
    found
}

#[track_caller]
fn check(comms: &[Ways], expected: &[&str]) {
    assert_eq!(found(comms, &Told::default()), expected);
}

#[test]
fn one_way_is_a_link_and_both_ways_of_a_nic_are_the_nic() {
    check(&[ring("mlx5_0", &[1.0, 1.0, 4.0, 1.0])], &["link 2 3"]);
    check(&[ring("mlx5_0", &[1.0, 4.0, 3.0, 1.0])], &["nic h2 mlx5_0: 2"]);
    check(
        &[ring("mlx5_0", &[1.0, 4.0, 3.0, 1.0, 1.0, 1.0, 5.0, 4.0])],
        &["nic h2 mlx5_0: 2", "nic h7 mlx5_0: 2"],
    );
}

#[test]
fn a_way_that_is_slower_still_hides_none_but_the_one_behind_it() {
    check(&[ring("mlx5_0", &[1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 10.0])], &["link 3 4", "link 7 0"]);
}

/// As they were measured: the second way has half its rate, and the third one, behind it, its full one.
#[test]
fn a_way_behind_a_slow_one_is_not_slow() {
    check(&[ring("mlx5_0", &[26.7, 224.9, 63.7, 10.1])], &["link 1 2"]);
    check(&[ring("mlx5_0", &[20.8, 203.6, 76.5, 11.5])], &["link 1 2"]);
}

#[test]
fn a_nic_that_says_what_is_wrong_needs_one_way() {
    let told = |host| Told { ails: vec![(host, "mlx5_0")], ..Told::default() };
    let ways = [ring("mlx5_0", &[1.0, 1.0, 4.0, 1.0])];
    assert_eq!(found(&ways, &told("h2")), ["nic h2 mlx5_0: 1"]);
    assert_eq!(found(&ways, &told("h3")), ["nic h3 mlx5_0: 1"]);
    assert_eq!(found(&ways, &told("h0")), ["link 2 3"], "that of a host beside it says nothing of this way");
}

#[test]
fn what_several_ranks_send_through_one_nic_is_one() {
    // Two ranks of h1 send by the same NIC; each is received well by another host.
    let mut ways = ring("mlx5_0", &[1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0]);
    let end = ways.busy[1].from.clone();
    ways.busy[6].from = end;
    check(&[ways.clone()], &["nic h1 mlx5_0: 2"]);
    // One of them is as quick as the others: two links that have nothing to do with each other.
    ways.busy[6].from = End { host: "h1".into(), nics: vec!["mlx5_1".into()] };
    ways.busy[4].from = End { host: "h1".into(), nics: vec!["mlx5_1".into()] };
    check(&[ways], &["link 1 2", "link 6 7"]);
}

#[test]
fn of_two_hosts_with_a_slow_way_each_way_nobody_knows_which() {
    let mut ways = ring("mlx5_0", &[4.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    ways.busy[1].from = ways.busy[0].to.clone();
    ways.busy[1].to = ways.busy[0].from.clone();
    ways.busy.retain(|busy| busy.way.from != 7);
    ways.busy.push(ring("mlx5_0", &[1.0; 8]).busy[5].clone());
    check(std::slice::from_ref(&ways), &["link 0 1", "link 1 2"]);
    let told = Told { ails: vec![("h1", "mlx5_0")], ..Told::default() };
    assert_eq!(found(&[ways], &told), ["nic h1 mlx5_0: 2"]);
}

#[test]
fn a_rail_that_is_slow_on_all_hosts_accuses_none() {
    let (slow, quick) = (ring("mlx5_1", &[4.0, 3.0, 5.0, 4.0]), ring("mlx5_0", &[1.0; 4]));
    check(&[quick.clone(), slow.clone()], &["rail mlx5_1: 4"]);
    // At half its rate a byte takes a little less than twice as long.
    check(&[quick.clone(), ring("mlx5_1", &[1.8; 4])], &["rail mlx5_1: 4"]);
    check(&[quick.clone(), ring("mlx5_1", &[1.5; 4])], &[]);
    // Ways of a rail at half its rate and of one at its full rate as they were measured, look by look.
    let full = ring("mlx5_0", &[95.6, 78.4, 85.1, 122.1]);
    check(&[full.clone(), ring("mlx5_1", &[181.7, 187.7, 141.9, 214.4])], &["rail mlx5_1: 4"]);
    check(&[full.clone(), ring("mlx5_1", &[184.4, 227.9, 180.7, 126.6])], &["rail mlx5_1: 4"]);
    check(&[full, ring("mlx5_1", &[113.6, 97.8, 130.4, 75.0])], &[]);
    // It has so much to do that steps wait for each other; a byte takes no longer on its wires.
    let mut queued = slow.clone();
    queued.busy.iter_mut().for_each(|busy| busy.wire_ns = 1.0);
    check(&[quick.clone(), queued], &[]);
    // One that has little to do is no measure.
    let mut idle = quick.clone();
    idle.busy.iter_mut().for_each(|busy| busy.load = 0.1);
    check(&[idle, slow.clone()], &[]);
    // Its NICs have a quarter of the others' rate: it is built so.
    let told = Told { rates: vec![("mlx5_1", 100)], ..Told::default() };
    assert!(found(&[quick, slow], &told).is_empty());
    // Half of a rail, and no NIC has all of it.
    check(
        &[ring("mlx5_0", &[4.0, 1.0, 4.0, 1.0, 4.0, 1.0, 1.0, 4.0])],
        &["link 2 3", "link 4 5", "nic h0 mlx5_0: 2"],
    );
    check(&[ring("mlx5_0", &[4.0, 1.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0])], &["rail mlx5_0: 4"]);
}

#[test]
fn nothing_is_said_where_nothing_stands_out() {
    check(&[ring("mlx5_0", &[4.0; 8])], &[]);
    check(&[ring("mlx5_0", &[4.0; 4]), ring("mlx5_1", &[4.0; 4])], &[]);
    check(&[ring("mlx5_0", &[1.0, 1.5, 1.2, 1.9])], &[]);
    check(&[ring("mlx5_0", &[1.0, 9.0])], &[]);
    // It has little to send: nobody waits for it.
    let mut ways = ring("mlx5_0", &[1.0, 9.0, 9.0, 1.0]);
    ways.busy.iter_mut().for_each(|busy| busy.load = 0.1);
    check(&[ways], &[]);
}
