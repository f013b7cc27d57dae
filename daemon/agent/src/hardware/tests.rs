use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::QueuePairState;

use super::netlink::{QueuePair, Told};
use super::*;

fn nic(name: &str, interface: &str) -> Nic {
    Nic {
        name: name.to_owned(),
        port: 1,
        interface: interface.to_owned(),
        kind: NicKind::Rdma.into(),
        link_layer: "Ethernet".to_owned(),
        ..Nic::default()
    }
}

fn hardware(nics: Vec<Nic>) -> Hardware {
    let mut hardware = Hardware::new(&AgentConfig::new("http://127.0.0.1:1", "host-0"));
    hardware.unsent = vec![HostHardware { nics, ..HostHardware::default() }];
    hardware
}

/// Asks, and waits for the answer.
fn answer<T: Send + 'static>(asked: &mut Asked<T>, now: Instant, work: impl FnOnce() -> T + Send + 'static) {
    let mut work = Some(work);
    asked.poll(now, work.take().unwrap());
    while !asked.poll(now, || unreachable!("it is not due")) {
        std::thread::yield_now();
    }
}

#[test]
fn ports_are_told_with_what_the_kernel_answered_last_and_without_what_it_holds_back() {
    let now = ringscope_api::clock::monotonic();
    let mut hardware = hardware(vec![nic("rxe0", "eth0"), nic("rxe1", "eth1")]);
    let (release, held) = std::sync::mpsc::channel::<()>();
    hardware.pauses.poll(now, move || held.recv().map(|()| BTreeMap::new()).unwrap_or_default());
    let failed = QueuePair {
        device: "rxe1".to_owned(),
        port: 1,
        number: 17,
        remote_number: Some(18),
        state: QueuePairState::Err,
        pid: std::process::id(),
    };
    answer(&mut hardware.queue_pairs, now, move || {
        Answer::of(Timestamp(5), Told { queue_pairs: vec![failed], ..Told::default() }, Some)
    });
    hardware.complete(now);
    let told: Vec<_> = hardware.unsent[0].nics.iter().map(|nic| nic.failed_queue_pairs.len()).collect();
    assert_eq!(
        (told, hardware.interfaces.as_slice()),
        (vec![0, 1], ["eth0", "eth1"].map(str::to_owned).as_slice())
    );
    assert_eq!(hardware.unsent[0].nics[0].congestion, [], "what hangs is not waited for");
    hardware.complete(now + Duration::from_secs(4));
    let pairs = hardware.unsent[0].nics[1].failed_queue_pairs.iter();
    let asked_at: Vec<_> = pairs.map(|pair| pair.asked_at_ns).collect();
    assert_eq!(asked_at, [5], "whenever it is told");
    release.send(()).unwrap();
    while !hardware.pauses.poll(now, || unreachable!("it is not due")) {
        std::thread::yield_now();
    }
    let later = now + Duration::from_secs(60);
    let pause = NicCounter { name: "rx_prio3_pause".to_owned(), value: 5 };
    let counted = pause.clone();
    answer(&mut hardware.pauses, later, move || BTreeMap::from([("eth1".to_owned(), vec![counted])]));
    hardware.complete(later);
    let told: Vec<_> = hardware.unsent[0].nics.iter().map(|nic| nic.congestion.clone()).collect();
    assert_eq!(told, [Vec::new(), vec![pause]]);
}

#[test]
fn queue_pairs_that_are_not_read_are_lacked_where_there_is_rdma() {
    let now = ringscope_api::clock::monotonic();
    let mut hardware = hardware(Vec::new());
    let (release, held) = std::sync::mpsc::channel::<()>();
    hardware.queue_pairs.poll(now, move || {
        let _ = held.recv();
        Answer::of(
            Timestamp(5),
            Told { lack: Some("rxe0: Input/output error".to_owned()), ..Told::default() },
            Some,
        )
    });
    hardware.ask(now);
    assert_eq!(
        (hardware.queue_pairs_lack.clone(), hardware.take_queue_pairs().is_some()),
        (None, false),
        "not yet"
    );
    let late = now + Duration::from_secs(20);
    hardware.ask(late);
    assert_eq!(hardware.lack(), None, "no device");
    hardware.has_rdma = true;
    let words = hardware.lack().unwrap();
    assert!(words.starts_with("queue pairs not read: there is no answer of the kernel"), "{words}");
    assert!(hardware.take_queue_pairs().is_some(), "nothing is known of them");
    release.send(()).unwrap();
    while hardware.queue_pairs.answer(late).is_none() {
        hardware.ask(late);
        std::thread::yield_now();
    }
    let words = &hardware.take()[0].queue_pairs_lack;
    assert!(words.contains("rxe0: Input/output error"), "{words}");
}
