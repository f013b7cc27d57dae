use ringscope_wire::Primitive;
use ringscope_wire::batch::{FailedQueuePair, Gpu, HostHardware, Level, Nic, NicCounter};

use crate::limits::{HARDWARE_KEPT, MAX_GPUS, MAX_NIC_ERRORS, MAX_NIC_PHASES, MAX_NICS};
use crate::{Changes, Model, Port};
use ringscope_samples::cluster::{Cluster, at, batch, hardware, nic, reading};

fn port(name: &str) -> Port {
    Port { is_interface: false, nic: name.into(), number: 1 }
}

/// A model that heard the readings of one host, five seconds apart.
fn heard(nics: impl IntoIterator<Item = Nic>) -> Model {
    let mut model = Model::new();
    for (i, nic) in (1_u64..).zip(nics) {
        model.apply(&reading(i, i * 5, vec![hardware("host-0", i * 5, vec![nic])]), at(i * 5));
    }
    model
}

fn told(model: &Model) -> &super::Nic {
    &model.hardware_of("host-0").unwrap().nics[&port("mlx5_0")]
}

#[test]
fn a_host_that_has_only_hardware_is_a_host_until_it_is_silent() {
    let mut model = heard([nic("mlx5_0")]);
    assert_eq!(model.hosts().count(), 1);
    model.tick(at(6));
    assert!(model.host("host-0").is_some());
    model.tick(at(5 + HARDWARE_KEPT.as_secs()));
    assert_eq!((model.hosts().count(), model.hardware().count()), (0, 0));
}

#[test]
fn memory_errors_of_gpus_are_counted_from_when_they_were_first_told_of() {
    let mut model = Model::new();
    let mut risen = |i: u64, errors| {
        let gpu = Gpu { pci: "0000:3b:00.0".to_owned(), uncorrected_errors: errors, ..Gpu::default() };
        let told =
            HostHardware { gpus: vec![gpu], gpus_known: true, ..hardware("host-0", i * 5, Vec::new()) };
        model.apply(&reading(i, i * 5, vec![told]), at(i * 5));
        model.hardware_of("host-0").unwrap().gpus.as_ref().unwrap()[0].uncorrected_risen
    };
    assert_eq!(risen(1, Some(7)), Some(0), "it had them before");
    assert_eq!((risen(2, Some(9)), risen(3, Some(9))), (Some(2), Some(2)));
    assert_eq!(risen(4, Some(1)), Some(3), "its driver was loaded anew");
    assert_eq!(risen(5, None), None, "its driver does not say it");
}

#[test]
fn a_host_with_processes_stays_when_its_hardware_is_forgotten() {
    let mut model = heard([nic("mlx5_0")]);
    model.apply(&Cluster::new(&[("host-0", 1, 2)], 4).batch(2, 6), at(6));
    model.tick(at(6 + HARDWARE_KEPT.as_secs()));
    assert!(model.host("host-0").is_some() && model.hardware_of("host-0").is_none());
}

#[test]
fn only_what_is_told_newer_and_other_is_a_change() {
    let mut model = Model::new();
    let first = reading(2, 10, vec![hardware("host-0", 10, vec![nic("mlx5_0")])]);
    assert!(model.apply(&first, at(10)).hardware);
    assert_eq!(model.apply(&first, at(11)), Changes::default(), "a repeat");
    let down = Nic { up: false, state: "DOWN".to_owned(), ..nic("mlx5_0") };
    let older = reading(1, 5, vec![hardware("host-0", 5, vec![down.clone()])]);
    assert_eq!(model.apply(&older, at(12)), Changes::default(), "an older word");
    let counted = Nic { sent_bytes: Some(7), ..nic("mlx5_0") };
    assert!(!model.apply(&reading(3, 15, vec![hardware("host-0", 15, vec![counted])]), at(15)).hardware);
    assert!(model.apply(&reading(4, 20, vec![hardware("host-0", 20, vec![down])]), at(20)).hardware);
    assert!(!told(&model).up);
    assert!(model.apply(&reading(5, 25, vec![hardware("host-0", 25, vec![])]), at(25)).hardware);
}

#[test]
fn bytes_have_rates_once_they_were_read_twice() {
    let sent = |bytes| Nic { sent_bytes: Some(bytes), ..nic("mlx5_0") };
    assert_eq!(told(&heard([sent(100)])).bytes_per_s(), (None, None));
    let model = heard([sent(100), sent(600), sent(1_100), sent(1_100)]);
    assert_eq!(told(&model).bytes(), (Some(1_100), None));
    assert_eq!(told(&model).bytes_per_s(), (Some(50.0), None));
    assert_eq!(told(&heard([sent(100), sent(600), nic("mlx5_0")])).bytes_per_s(), (None, None));
}

#[test]
fn errors_rise_from_what_they_were_when_the_agent_first_spoke() {
    let errors =
        |value| Nic { errors: vec![NicCounter { name: "symbol_error".to_owned(), value }], ..nic("mlx5_0") };
    let risen = |model: &Model| told(model).errors().map(|error| (error.value, error.risen)).next();
    assert_eq!(risen(&heard([errors(40)])), Some((40, 0)));
    assert_eq!(risen(&heard([errors(40), errors(52)])), Some((52, 12)));
    assert_eq!(risen(&heard([errors(0), errors(9)])), Some((9, 9)));
    assert_eq!(risen(&heard([errors(0)])), None, "0 is not shown");
    let mut model = heard([nic("mlx5_0")]);
    let mut other = reading(1, 10, vec![hardware("host-0", 10, vec![errors(70)])]);
    other.agent_id = "another".to_owned();
    model.apply(&other, at(10));
    assert_eq!(risen(&model), Some((70, 0)), "a new agent may list more");
}

#[test]
fn links_that_went_down_are_counted_as_told_or_as_seen() {
    let downs = |link_downs| Nic { link_downs: Some(link_downs), ..nic("mlx5_0") };
    assert_eq!(told(&heard([downs(4), downs(7)])).link_downs_lately(at(10)), 3);
    let down = Nic { up: false, ..nic("mlx5_0") };
    let up = || nic("mlx5_0");
    let model = heard([up(), down.clone(), up(), down.clone(), up()]);
    assert_eq!(told(&model).link_downs_lately(at(25)), 2);
    assert_eq!(told(&model).link_downs_lately(at(5_000)), 0, "long ago");
    let many = (0..200).map(|i| if i % 2 == 0 { up() } else { down.clone() });
    assert_eq!(told(&heard(many)).phases.len(), MAX_NIC_PHASES);
}

#[test]
fn failed_queue_pairs_stay_while_nobody_knows_them_and_go_when_all_are_known() {
    let failed = |number, asked: u64| FailedQueuePair {
        number,
        pid: 7,
        asked_at_ns: at(asked).0,
        ..Default::default()
    };
    let tell = |failed: Vec<FailedQueuePair>, queue_pairs_known| Nic {
        failed_queue_pairs: failed,
        queue_pairs_known,
        ..nic("mlx5_0")
    };
    let shown = |readings: Vec<Nic>| -> Vec<_> {
        let model = heard(readings);
        told(&model)
            .failed_queue_pairs
            .iter()
            .map(|(number, pair)| (*number, pair.stands_for().as_secs()))
            .collect()
    };
    let first = || {
        vec![tell(vec![failed(17, 5), failed(18, 5)], true), tell(vec![failed(17, 10), failed(18, 10)], true)]
    };
    let then = |next: Nic| first().into_iter().chain([next]).collect::<Vec<_>>();
    assert_eq!(shown(then(tell(Vec::new(), false))), [(17, 5), (18, 5)], "the driver hangs");
    assert_eq!(shown(then(tell(vec![failed(18, 15), failed(19, 15)], false))), [(17, 5), (18, 10), (19, 0)]);
    assert_eq!(shown(then(tell(vec![failed(18, 15)], true))), [(18, 10)]);
    assert_eq!(shown(then(tell(Vec::new(), true))), []);
    let long = std::iter::repeat_n(tell(Vec::new(), false), 125);
    assert_eq!(shown(first().into_iter().chain(long).collect()), [], "not for ever");
}

#[test]
fn names_of_nics_in_rings() {
    let model = heard([Nic { interface: "ib0".to_owned(), ..nic("mlx5_0") }]);
    let is_named = |name| told(&model).is_named(&port("mlx5_0"), name);
    for name in ["mlx5_0", "mlx5_0:1", "ib0", "mlx5_1+mlx5_0"] {
        assert!(is_named(name), "{name}");
    }
    for name in ["", "mlx5_00", "mlx5_0:2", "mlx5_1", "mlx5_0x"] {
        assert!(!is_named(name), "{name}");
    }
}

#[test]
fn payload_goes_through_the_nics_of_the_rings() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 2);
    let observe = |nics: [&str; 2], level: Level| {
        let mut model = Model::new();
        for i in 1..=2 {
            let mut process = cluster.process(0);
            process.level = level.into();
            for (ring, nic) in process.communicators[0].rings.iter_mut().zip(nics) {
                ring.nic = nic.to_owned();
            }
            if level == Level::Steps {
                process.links = vec![cluster.link(Primitive::AllReduce, 1, i * 1_000)];
            }
            model.apply(&batch(2 * i, i * 5, vec![process]), at(i * 5));
            let nics = ["mlx5_0", "mlx5_1", "mlx5_2"].map(nic).to_vec();
            model.apply(&reading(2 * i + 1, i * 5, vec![hardware("host-0", i * 5, nics)]), at(i * 5));
        }
        let hardware = model.hardware_of("host-0").unwrap();
        hardware.nics.values().map(super::Nic::payload_bytes_per_s).collect::<Vec<_>>()
    };
    assert_eq!(observe(["mlx5_0", "mlx5_0"], Level::Steps), [Some((200.0, false)), None, None]);
    assert_eq!(
        observe(["mlx5_0", "mlx5_1"], Level::Steps),
        [Some((100.0, true)), Some((100.0, true)), None],
        "only their sum is known"
    );
    assert_eq!(observe(["mlx5_0", "mlx5_0"], Level::Counters), [None, None, None], "nobody counted");
}

#[test]
fn what_is_too_much_is_counted_and_left_out() {
    let errors = (0..70).map(|i| NicCounter { name: format!("e{i}"), value: 1 }).collect();
    let mut nics: Vec<Nic> = (0..MAX_NICS + 3).map(|i| nic(&format!("mlx5_{i}"))).collect();
    nics[0].errors = errors;
    let mut told = hardware("host-0", 1, nics);
    told.gpus = (0..70).map(|index| Gpu { index, ..Gpu::default() }).collect();
    told.gpus_known = true;
    let mut model = Model::new();
    model.apply(&reading(1, 1, vec![told, HostHardware::default()]), at(1));
    let known = model.hardware_of("host-0").unwrap();
    assert_eq!(known.nics.len(), MAX_NICS);
    assert_eq!(known.nics[&port("mlx5_0")].errors().count(), MAX_NIC_ERRORS);
    assert_eq!(known.gpus.as_ref().map(Vec::len), Some(MAX_GPUS));
    let dropped = model.dropped();
    let count = |reason: &str| dropped.get(reason).copied();
    assert_eq!((count("nic_limit"), count("nic_error_limit")), (Some(3), Some(6)));
    assert_eq!((count("gpu_limit"), count("bad_host_name")), (Some(6), Some(1)));
}
