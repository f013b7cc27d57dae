use ringscope_wire::Primitive;
use ringscope_wire::batch::{
    self, Activity, CollectorState, KernelMessage, KernelReading, Look, OpenCall, PairCalls, Process,
    SequenceMark, Thread,
};

use super::super::limits::{
    KERNEL_KEPT, MAX_KERNEL_MESSAGES, MAX_LOOK_BYTES, MAX_LOOKS, MAX_MARKS, MAX_OPEN_CALLS, MAX_PAIRS,
    MAX_RECALLED, RECALLED_KEPT,
};
use super::super::{Changes, Local, Model, Name};
use ringscope_samples::cluster::{Cluster, at, batch, ended};

fn pair() -> Cluster {
    Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4)
}

fn world(cluster: &Cluster) -> Model {
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    model
}

fn local<'a>(model: &'a Model, cluster: &Cluster, rank: u32) -> &'a Local {
    let process = model.process(&cluster.key(rank)).unwrap();
    process.locals().find(|(local_id, _)| *local_id == cluster.local_id).unwrap().1
}

fn sequence(cluster: &Cluster, calls: u64, hash: u64, marks: &[u64]) -> batch::CallSequence {
    let marks = marks.iter().map(|calls| SequenceMark { calls: *calls, hash: calls * 10 }).collect();
    batch::CallSequence { local_id: cluster.local_id, calls, hash, marks, sampled_log2: 0 }
}

fn open(function: &str, cluster: &Cluster, s: u64) -> OpenCall {
    let local_id = Some(cluster.local_id);
    OpenCall { thread: 1, function: function.to_owned(), local_id, entered_at_ns: at(s).0 }
}

fn activity(state: &str, cpu_ms: u64, s: u64) -> Process {
    let read = Activity { state: state.to_owned(), cpu_ns: cpu_ms * 1_000_000, read_at_ns: at(s).0 };
    Process { activity: Some(read), ..Process::default() }
}

fn look(at_ns: u64) -> Look {
    let thread = Thread { python: vec!["loader.py:3 next".to_owned()], ..Thread::default() };
    Look { at_ns, inquiry: "q".to_owned(), threads: vec![thread], ..Look::default() }
}

fn dropped(model: &Model, reason: &str) -> u64 {
    model.dropped().get(reason).copied().unwrap_or_default()
}

#[test]
fn a_sequence_grows_and_an_older_word_changes_nothing() {
    let cluster = pair();
    let mut model = world(&cluster);
    let told = |sequence| Process { sequences: vec![sequence], ..cluster.word(0) };
    let newer = batch(3, 4, vec![told(sequence(&cluster, 130, 7, &[64, 128]))]);
    let changes = model.apply(&newer, at(4));
    assert_eq!((changes.counters, changes.alarmed.len()), ([cluster.key(0).into()].into(), 0));
    assert_eq!(model.apply(&newer, at(4)), Changes::default(), "a repetition");
    let older = batch(2, 3, vec![told(sequence(&cluster, 70, 5, &[64]))]);
    assert_eq!(model.apply(&older, at(5)), Changes::default());
    let known = local(&model, &cluster, 0).sequence().unwrap();
    assert_eq!((known.calls, known.hash), (130, 7));
    let marks: Vec<u64> = known.marks.iter().map(|mark| mark.calls).collect();
    assert_eq!(marks, [64, 128], "ascending, each once");
}

#[test]
fn marks_are_bounded_and_the_newest_stay() {
    let cluster = pair();
    let mut model = world(&cluster);
    for n in 0..100_u64 {
        let told = sequence(&cluster, n * 64 + 1, n, &[n * 64]);
        model.apply(&batch(2 + n, 3, vec![Process { sequences: vec![told], ..cluster.word(0) }]), at(3));
    }
    let marks = &local(&model, &cluster, 0).sequence().unwrap().marks;
    assert_eq!((marks.len(), marks[0].calls, marks.last().unwrap().calls), (MAX_MARKS, 68 * 64, 99 * 64));
    let late = sequence(&cluster, 1, 0, &[64]);
    model.apply(&batch(200, 3, vec![Process { sequences: vec![late], ..cluster.word(0) }]), at(3));
    assert_eq!(local(&model, &cluster, 0).sequence().unwrap().marks[0].calls, 68 * 64);
}

#[test]
fn open_calls_are_as_the_newest_word_says() {
    let cluster = pair();
    let mut model = world(&cluster);
    let told = |calls| Process { open_calls: calls, ..cluster.word(0) };
    model.apply(&batch(3, 4, vec![told(vec![open("ncclAllReduce", &cluster, 3)])]), at(4));
    model.apply(&batch(2, 3, vec![told(vec![])]), at(5));
    let process = model.process(&cluster.key(0)).unwrap();
    assert_eq!(&*process.open_calls()[0].function, "ncclAllReduce", "an older word changes nothing");
    let returned = Process { last_returned_at_ns: Some(at(5).0), ..told(vec![]) };
    let changes = model.apply(&batch(4, 5, vec![returned]), at(5));
    assert!(changes.counters.contains(&*cluster.key(0)), "the store shall have it");
    let process = model.process(&cluster.key(0)).unwrap();
    assert!(process.open_calls().is_empty());
    assert_eq!(process.last_returned(), Some(at(5)));
    model.apply(&batch(5, 6, vec![told(vec![open("f", &cluster, 1); MAX_OPEN_CALLS + 3])]), at(6));
    assert_eq!(model.process(&cluster.key(0)).unwrap().open_calls().len(), MAX_OPEN_CALLS);
    assert_eq!(dropped(&model, "open_call_limit"), 3);
}

#[test]
fn pairs_are_absolute_and_bounded() {
    let cluster = pair();
    let mut model = world(&cluster);
    let send = |peer: usize, calls| PairCalls {
        local_id: cluster.local_id,
        primitive: batch::Primitive::Send.into(),
        peer: u32::try_from(peer).unwrap(),
        calls,
        bytes: calls * 8,
        hash: calls,
    };
    let told = |pairs| Process { pairs, ..cluster.word(0) };
    model.apply(&batch(2, 3, vec![told(vec![send(1, 5)])]), at(3));
    model.apply(&batch(3, 4, vec![told(vec![send(1, 4)])]), at(4));
    assert_eq!(
        local(&model, &cluster, 0).pairs()[&(Primitive::Send, 1)].calls,
        5,
        "calls never become fewer"
    );
    model.apply(&batch(4, 5, vec![told((0..MAX_PAIRS + 9).map(|peer| send(peer, 1)).collect())]), at(5));
    assert_eq!(local(&model, &cluster, 0).pairs().len(), MAX_PAIRS);
    assert_eq!(dropped(&model, "pair_limit"), 9);
}

#[test]
fn activity_says_whether_the_processor_time_moves() {
    let cluster = pair();
    let mut model = world(&cluster);
    let tell = |model: &mut Model, seq, told: Process| {
        model.apply(&batch(seq, seq, vec![Process { key: cluster.key(0), ..told }]), at(seq))
    };
    tell(&mut model, 3, activity("S", 1_000, 3));
    let known = |model: &Model| *model.process(&cluster.key(0)).unwrap().activity().unwrap();
    assert_eq!(known(&model).moves(), None, "read once");
    tell(&mut model, 5, activity("S", 2_000, 5));
    assert_eq!((known(&model).load, known(&model).moves()), (Some(0.5), Some(true)));
    tell(&mut model, 4, activity("R", 0, 4));
    assert_eq!(known(&model).state, 'S', "an older reading");
    let changes = tell(&mut model, 7, activity("T", 2_000, 7));
    assert!(changes.alarmed.contains("train"), "a stop does not wait for the tick");
    assert!(known(&model).is_stopped());
    assert_eq!((known(&model).moves(), known(&model).state_since), (Some(false), at(7)));
    tell(&mut model, 8, activity("T", 2_000, 8));
    assert_eq!(known(&model).state_since, at(7));
    tell(&mut model, 9, activity("running", 2_000, 9));
    assert_eq!((known(&model).state, dropped(&model, "unknown_activity")), ('T', 1));
}

#[test]
fn a_look_is_kept_bounded_and_the_oldest_make_room() {
    let cluster = pair();
    let mut model = world(&cluster);
    let told = |look| Process { look: Some(look), ..cluster.word(0) };
    let changes = model.apply(&batch(2, 3, vec![told(look(9))]), at(3));
    assert!(changes.alarmed.contains("train"));
    model.apply(&batch(3, 4, vec![cluster.word(0)]), at(4));
    assert_eq!(model.process(&cluster.key(0)).unwrap().look().unwrap().at_ns, 9, "nothing new, nothing lost");
    let mut large = look(10);
    large.threads = vec![Thread { python: vec!["x".repeat(500); 70], ..Thread::default() }; 40];
    model.apply(&batch(4, 5, vec![told(large)]), at(5));
    let kept = model.process(&cluster.key(0)).unwrap().look().unwrap();
    let bytes: usize = kept.threads.iter().flat_map(|thread| &thread.python).map(String::len).sum();
    assert!(kept.threads.len() == 32 && bytes <= MAX_LOOK_BYTES, "{bytes}");
    assert!(dropped(&model, "look_limit") > 0);

    for n in 0..MAX_LOOKS as u64 {
        let process = Process { key: format!("h/{n}/1"), look: Some(look(n)), ..Process::default() };
        model.apply(&batch(5 + n, 6, vec![process]), at(6));
    }
    assert!(model.process(&cluster.key(0)).unwrap().look().is_none(), "the oldest");
    assert!(model.process("h/0/1").unwrap().look().is_some());
}

#[test]
fn what_was_asked_for_is_kept_for_a_while() {
    let cluster = pair();
    let mut model = world(&cluster);
    let numbered = |number: u64, completed| batch::Operation {
        call_number: Some(number),
        ..cluster.operation(number, 3, completed)
    };
    let told = |recalled| Process { recalled, ..cluster.word(0) };
    model.apply(&batch(2, 3, vec![told(vec![numbered(8, None), numbered(7, Some(4))])]), at(3));
    model.apply(&batch(3, 4, vec![told(vec![numbered(8, Some(4))])]), at(4));
    let known: Vec<_> =
        local(&model, &cluster, 0).recalled().iter().map(|one| (one.call_number, one.state())).collect();
    let done = batch::OperationState::Completed;
    assert_eq!(known, [(Some(7), done), (Some(8), done)]);
    model.apply(&batch(4, 5, vec![told((0..200).map(|n| numbered(n, None)).collect())]), at(5));
    assert_eq!(local(&model, &cluster, 0).recalled().len(), MAX_RECALLED);
    let later = at(6 + RECALLED_KEPT.as_secs());
    model.tick(later);
    assert!(local(&model, &cluster, 0).recalled().is_empty());
}

#[test]
fn what_the_kernel_says_is_known_once_and_bounded() {
    let message = |number: u64, s: u64| KernelMessage {
        boot_id: "b".to_owned(),
        number,
        at_ns: at(s).0,
        text: "NVRM: Xid 79".to_owned(),
        ..KernelMessage::default()
    };
    let mut model = Model::new();
    let mut told = batch(1, 2, vec![]);
    told.kernel = vec![message(1, 1), message(2, 1)];
    told.kernel_reading = Some(KernelReading { readable: true, how: "/dev/kmsg".to_owned(), lost: 0 });
    let changes = model.apply(&told, at(2));
    assert_eq!(changes.kernels, [Name::from("host-0")].into());
    told.seq_number = 2;
    assert_eq!(model.apply(&told, at(3)), Changes::default(), "said again");
    let kernel = model.kernel("host-0").unwrap();
    assert_eq!((kernel.messages().count(), &*kernel.reading().unwrap().how), (2, "/dev/kmsg"));
    for number in 0..300 {
        told.seq_number += 1;
        told.kernel = vec![message(100 + number, 3)];
        model.apply(&told, at(3));
    }
    let kernel = model.kernel("host-0").unwrap();
    assert_eq!(kernel.messages().count(), MAX_KERNEL_MESSAGES);
    assert_eq!(kernel.messages().next_back().unwrap().told.number, 399);
    model.tick(at(4 + KERNEL_KEPT.as_secs()));
    assert!(model.kernel("host-0").is_none());
}

#[test]
fn errors_and_switches_are_facts() {
    let cluster = pair();
    let mut model = world(&cluster);
    let mut process = cluster.process(0);
    process.communicators[0].error = Some(6);
    process.communicators[0].error_function = "ncclCommGetAsyncError".to_owned();
    process.communicators[0].warnings =
        vec![batch::Evidence { text: "WARN".to_owned(), ..Default::default() }; 20];
    process.collector_state = CollectorState::Off.into();
    process.collector_off_since_ns = Some(at(3).0);
    let changes = model.apply(&batch(2, 4, vec![process]), at(4));
    assert!(changes.facts.contains(&cluster.key(0)) && changes.alarmed.contains("train"));
    let facts = local(&model, &cluster, 0).facts().unwrap();
    assert_eq!((facts.error.as_ref().unwrap().code, facts.warnings.len()), (6, 8));
    assert_eq!(dropped(&model, "warning_limit"), 12);
    assert_eq!(model.process(&cluster.key(0)).unwrap().collector().off_since, Some(at(3)));
    let mut on = cluster.process(0);
    on.collector_state = CollectorState::On.into();
    model.apply(&batch(3, 5, vec![on]), at(5));
    assert_eq!(model.process(&cluster.key(0)).unwrap().collector().off_since, None);
    let facts = local(&model, &cluster, 0).facts().unwrap();
    assert!(facts.error.is_some(), "what went wrong once is known");
}

#[test]
fn in_progress_is_no_error() {
    let cluster = pair();
    let mut process = cluster.process(0);
    process.communicators[0].error = Some(7);
    let mut model = Model::new();
    model.apply(&batch(1, 2, vec![process]), at(2));
    assert!(local(&model, &cluster, 0).facts().unwrap().error.is_none());
}

#[test]
fn a_reading_covers_the_processes_that_it_does_not_name() {
    let cluster = pair();
    let mut model = world(&cluster);
    model.apply(&batch(2, 9, vec![]), at(9));
    let process = model.process(&cluster.key(0)).unwrap();
    assert_eq!(model.reading(process).unwrap().read_at, at(9));
    assert_eq!(model.agent_of(process), model.agent("agent"));
    let mut again = Model::new();
    let keys = [cluster.key(0), cluster.key(1)];
    let kept = keys.iter().flat_map(|key| [model.process_facts(key), model.process_counters(key)]).flatten();
    again.restore(kept.collect(), at(20));
    let process = again.process(&cluster.key(0)).unwrap();
    assert!(again.reading(process).is_none(), "nobody has looked since");
    assert_eq!(again.n_unheard("train"), 2);
    again.apply(&batch(3, 21, vec![cluster.word(0)]), at(21));
    assert_eq!(again.n_unheard("train"), 1);
}

#[test]
fn what_a_dead_process_was_in_survives_the_daemon() {
    let cluster = pair();
    let mut model = world(&cluster);
    let told = Process {
        open_calls: vec![open("ncclCommDestroy", &cluster, 3)],
        sequences: vec![sequence(&cluster, 65, 7, &[64])],
        last_returned_at_ns: Some(at(2).0),
        segment_version: 5,
        launched: true,
        ..cluster.process(0)
    };
    model.apply(&batch(2, 4, vec![ended(told, batch::ProcessState::Killed, 4)]), at(4));
    let mut again = Model::new();
    let key = cluster.key(0);
    let kept = [model.process_counters(&key), model.process_facts(&key)];
    again.restore(kept.into_iter().flatten().collect(), at(9));
    let process = again.process(&key).unwrap();
    assert_eq!(&*process.open_calls()[0].function, "ncclCommDestroy");
    assert_eq!(process.last_returned(), Some(at(2)));
    assert_eq!((process.collector().segment_version, process.collector().launched), (5, true));
    assert_eq!(local(&again, &cluster, 0).sequence(), local(&model, &cluster, 0).sequence());
}

#[test]
fn deaths_alarm_and_lost_calls_are_remembered() {
    let cluster = pair();
    let mut model = world(&cluster);
    let lost = batch::Dropped { reason: "communicator_table_full".to_owned(), events: 1 };
    model.apply(&batch(2, 3, vec![Process { dropped: vec![lost], ..cluster.word(0) }]), at(3));
    assert_eq!(model.process(&cluster.key(0)).unwrap().lost_calls(), Some(at(3)));
    let harmless = batch::Dropped { reason: "link_table_full".to_owned(), events: 1 };
    model.apply(&batch(3, 4, vec![Process { dropped: vec![harmless], ..cluster.word(1) }]), at(4));
    assert_eq!(model.process(&cluster.key(1)).unwrap().lost_calls(), None);
    let killed = ended(cluster.word(0), batch::ProcessState::Killed, 5);
    let changes = model.apply(&batch(4, 5, vec![killed]), at(5));
    assert_eq!(changes.alarmed, [Name::from("train")].into());
}
