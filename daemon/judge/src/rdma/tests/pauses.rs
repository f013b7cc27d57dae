//! Pause frames.

use super::*;

/// A port with pause frames and bytes a second, at so many readings as the window has.
fn paused(counter_name: &str, per_s: u64, sent_per_s: u64, received_per_s: u64) -> Vec<Nic> {
    let at = |reading| Nic {
        congestion: counter(counter_name, 1_000_000 + 5 * per_s * reading),
        sent_bytes: Some(5 * sent_per_s * reading),
        received_bytes: Some(5 * received_per_s * reading),
        ..nic("mlx5_0")
    };
    (0..7).map(at).collect()
}

fn pausing(ports: &[Vec<Nic>], ranks: &[Vec<Connection>], readings: usize) -> World {
    let mut world = World::new(ports.len());
    world.connect(ranks);
    for reading in 0..readings {
        world.read(ports.iter().map(|port| port[reading].clone()).collect());
    }
    world
}

#[track_caller]
fn check_paused(ports: &[Vec<Nic>], expected: &[&str]) {
    assert_eq!(pausing(ports, &[], 7).fires(), expected);
}

#[test]
fn who_sends_pause_frames_is_to_blame_only_for_ports_that_it_has_to_do_with() {
    let stopped = || paused("rx_prio3_pause_duration", 900_000, 1_000, 1_000);
    let sender: Vec<Nic> = paused("tx_prio3_pause", 20_000, 1_000, 1_000)
        .into_iter()
        .map(|nic| Nic { name: "mlx5_1".to_owned(), ..nic })
        .collect();
    let causes = |ranks: &[Vec<Connection>]| -> Vec<String> {
        let world = pausing(&[stopped(), sender.clone()], ranks, 7);
        world.firing().iter().map(|one| one.cause.clone()).collect()
    };
    assert_eq!(causes(&[]), ["pauses_received"], "another rail");
    let mut across = to(1);
    across.remote.as_mut().unwrap().device = "mlx5_1".to_owned();
    assert_eq!(causes(&[vec![across], Vec::new()]), ["pauses_sent"]);
    // Not the whole of the window yet.
    let severities: Vec<_> =
        pausing(&[stopped()], &[], 3).firing().iter().map(|one| one.severity.label()).collect();
    assert_eq!(severities, ["warning"]);
    // The time is measured, so how many frames there were says nothing.
    let mut measured = paused("rx_prio3_pause_duration", 100_000, 1_000, 1_000);
    for (nic, frames) in measured.iter_mut().zip(paused("rx_prio3_pause", 20_000, 0, 0)) {
        nic.congestion.extend(frames.congestion);
    }
    check_paused(&[measured], &[]);
}

#[test]
fn pause_frames_that_stop_a_port_and_who_sends_them() {
    const GIGABYTES_40: u64 = 40 * GIGABYTE;
    let stopped = || paused("rx_prio3_pause_duration", 900_000, 1_000, 1_000);
    let busy = || paused("rx_prio3_pause_duration", 900_000, GIGABYTES_40, 1_000);
    let alone = "pfc_storm critical [pauses_received] mlx5_0 of host-0 stands still: it is told to pause 90 % of the time \
                 (rx_prio3_pause_duration), and sends nearly nothing; who sends the pause frames is not seen";
    check_paused(&[stopped()], &[alone]);
    let sender = paused("tx_prio3_pause", 20_000, 1_000, 1_000);
    let found = "pfc_storm critical [pauses_sent] mlx5_0 of host-2 stops others: it sends pause frames 100 % of the time \
                 (tx_prio3_pause) and takes nearly nothing; mlx5_0 of host-0 and mlx5_0 of host-1 stand still";
    check_paused(&[stopped(), stopped(), sender.clone()], &[found]);
    // Twins: a port that moves all the same, few pause frames, who sends them and stops nobody, and words on transitions.
    check_paused(&[busy()], &[]);
    check_paused(&[paused("rx_prio3_pause", 500, 1_000, 1_000)], &[]);
    check_paused(&[busy(), sender], &[]);
    check_paused(&[paused("rx_prio3_pause_transition", 20_000, 1_000, 1_000)], &[]);
    check_paused(&[paused("rx_pause_storm_error_events", 20_000, 1_000, 1_000)], &[]);
    check_paused(&[paused("np_cnp_sent", 20_000, 1_000, 1_000)], &[]);
}
