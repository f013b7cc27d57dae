use super::*;

pub(super) const PLAIN: Settings = Settings {
    frame_bytes: 10,
    credit_bytes_per_server: 100,
    credit_bytes: 150,
    patience_ns: 1000,
    overtake_bytes: 1000,
    stage_parts: 2,
    max_parts: 1000,
    first_server: 0,
    in_proportion: true,
};

fn part(key: u32, server: usize, bytes: u64) -> Part {
    Part { key, server, bytes, compress: false }
}

pub(super) fn pipeline(n_servers: usize, settings: Settings) -> Pipeline {
    Pipeline::new(&vec![1.0 / n_servers as f64; n_servers], settings)
}

/// Sends the next frame: server and key.
fn send(pipeline: &mut Pipeline, writable: &[bool]) -> Option<(usize, u32)> {
    send_at(pipeline, writable, 0)
}

fn send_at(pipeline: &mut Pipeline, writable: &[bool], now_ns: u64) -> Option<(usize, u32)> {
    let send = pipeline.next_send(writable, now_ns)?;
    pipeline.sent(send.server, send.key, send.len, now_ns).unwrap();
    Some((send.server, send.key))
}

/// The same as [`send_all`], over one server and at some time.
fn send_all_at(pipeline: &mut Pipeline, now_ns: u64) -> Vec<u32> {
    let mut keys: Vec<u32> =
        std::iter::from_fn(|| send_at(pipeline, &[true], now_ns)).map(|sent| sent.1).collect();
    keys.dedup();
    keys
}

/// Sends all that may be sent: the keys in the order in which they began.
fn send_all(pipeline: &mut Pipeline, writable: &[bool]) -> Vec<u32> {
    let mut keys: Vec<u32> = std::iter::from_fn(|| send(pipeline, writable)).map(|sent| sent.1).collect();
    keys.dedup();
    keys
}

/// A part that was sent to its end is summed and comes back.
fn come_back(pipeline: &mut Pipeline, server: usize, key: u32) {
    pipeline.summed(server, key, 0).unwrap();
    let work = pipeline.next_work(Stage::Pull, 0).unwrap();
    assert_eq!(work.key, key);
    pipeline.pulled(server, key, work.bytes, 0).unwrap();
}

#[test]
fn a_part_passes_all_its_stages_and_is_watched_on_its_way() {
    let mut pipeline = pipeline(2, PLAIN);
    let tensor = pipeline.submit("w", 3, &[Part { compress: true, ..part(7, 1, 40) }], 100).unwrap();
    let compress = Work { stage: Stage::Compress, key: 7, tensor, server: 1, bytes: 40 };
    assert_eq!(pipeline.next_work(Stage::Compress, 130), Some(compress));
    assert_eq!(pipeline.next_work(Stage::Compress, 130), None);
    pipeline.compressed(7, (12, 20), 10, 140).unwrap();
    let writable = [true; 2];
    assert_eq!(pipeline.next_send(&writable, 170), Some(Send { server: 1, key: 7, offset: 0, len: 10 }));
    assert_eq!(pipeline.next_send(&writable, 170), None, "one frame at a time");
    pipeline.sent(1, 7, 4, 180).unwrap();
    pipeline.sent(1, 7, 6, 180).unwrap();
    assert_eq!(pipeline.next_send(&writable, 190), Some(Send { server: 1, key: 7, offset: 10, len: 2 }));
    pipeline.sent(1, 7, 2, 200).unwrap();
    let snapshot = pipeline.snapshot(210);
    assert_eq!((snapshot.credits_used_bytes, snapshot.servers[1].credits_used_bytes), (12, 12));
    let oldest = Oldest { key: 7, server: 1, stage: Stage::Sum, age_ns: 110, in_stage_ns: 10 };
    assert_eq!(snapshot.oldest, Some(oldest));
    pipeline.summed(1, 7, 220).unwrap();
    assert_eq!(pipeline.next_work(Stage::Pull, 230).map(|work| work.bytes), Some(20));
    pipeline.pulled(1, 7, 15, 240).unwrap();
    assert_eq!(pipeline.snapshot(240).credits_used_bytes, 12);
    pipeline.pulled(1, 7, 5, 250).unwrap();
    assert_eq!(pipeline.snapshot(250).credits_used_bytes, 0);
    assert!(pipeline.next_work(Stage::Decompress, 260).is_some());
    assert_eq!(pipeline.next_finished(), None);
    pipeline.decompressed(7, 10, 270).unwrap();
    let finished = Finished { tensor, name: "w".to_owned() };
    assert_eq!(pipeline.next_finished(), Some(finished));
    let stages = pipeline.snapshot(300).stages;
    let times = |stage: &StageView| (stage.waited_ns, stage.worked_ns, stage.n_entered, stage.n_left);
    let expected = [(30, 10), (30, 30), (0, 20), (10, 20), (10, 10)];
    assert_eq!(stages.iter().map(times).collect::<Vec<_>>(), expected.map(|(w, d)| (w, d, 1, 1)));
}

#[test]
fn an_answer_may_be_shorter_than_it_was_said_to_be() {
    let mut pipeline = pipeline(1, PLAIN);
    pipeline.submit("w", 0, &[Part { compress: true, ..part(7, 0, 40) }], 0).unwrap();
    assert_eq!(
        pipeline.ends_with(7, 4),
        Err(Misreport::OtherStage { key: 7, reported: Stage::Pull, stage: Stage::Compress })
    );
    pipeline.next_work(Stage::Compress, 0).unwrap();
    pipeline.compressed(7, (5, 40), 0, 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [7]);
    pipeline.summed(0, 7, 0).unwrap();
    assert_eq!(pipeline.next_work(Stage::Pull, 0).map(|work| work.bytes), Some(40));
    pipeline.pulled(0, 7, 10, 0).unwrap();
    pipeline.ends_with(7, 3).unwrap();
    let too_much = Misreport::TooMuch { key: 7, stage: Stage::Pull, bytes: 4, left: 3 };
    assert_eq!(pipeline.pulled(0, 7, 4, 0), Err(too_much));
    pipeline.pulled(0, 7, 3, 0).unwrap();
    assert_eq!(pipeline.snapshot(0).credits_used_bytes, 0);
    assert!(pipeline.next_work(Stage::Decompress, 0).is_some());
}

#[test]
fn the_lowest_priority_goes_first_then_the_lowest_key() {
    let mut pipeline = pipeline(1, PLAIN);
    for (priority, key) in [(2, 0), (1, 9), (2, 1), (0, 5), (1, 8)] {
        pipeline.submit("w", priority, &[part(key, 0, 20)], 0).unwrap();
    }
    assert_eq!(send_all(&mut pipeline, &[true]), [5, 8, 9, 0, 1]);
}

#[test]
fn a_part_that_has_begun_is_sent_to_its_end() {
    let mut pipeline = pipeline(1, PLAIN);
    pipeline.submit("late", 5, &[part(0, 0, 30)], 0).unwrap();
    assert_eq!(send(&mut pipeline, &[true]), Some((0, 0)));
    pipeline.submit("urgent", 1, &[part(1, 0, 30)], 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [0, 1]);
}

#[test]
fn credits_come_back_at_the_end_of_the_pull_and_nobody_slips_past_who_waits_for_them() {
    let mut pipeline = pipeline(1, PLAIN);
    let parts = [part(0, 0, 60), part(1, 0, 60), part(2, 0, 10)];
    pipeline.submit("w", 0, &parts, 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [0]);
    pipeline.summed(0, 0, 0).unwrap();
    pipeline.next_work(Stage::Pull, 0).unwrap();
    pipeline.pulled(0, 0, 59, 0).unwrap();
    assert_eq!(send(&mut pipeline, &[true]), None);
    pipeline.pulled(0, 0, 1, 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [1, 2]);
}

#[test]
fn more_is_on_its_way_to_relays_and_as_much_as_before_to_owners() {
    let begun = |pipeline: Pipeline, server: usize| {
        let parts: Vec<Part> = (0..50).map(|key| part(key, server, 10)).collect();
        let mut pipeline = pipeline;
        pipeline.submit("w", 0, &parts, 0).unwrap();
        send_all(&mut pipeline, &[true, true]).len()
    };
    let owned = [0.9, 0.1];
    let direct = || Pipeline::new(&owned, PLAIN);
    assert_eq!([begun(direct(), 0), begun(direct(), 1)], [10, 1]);
    let relayed = || Pipeline::new(&owned, PLAIN.over_relays()).with_credits(&[0.9, 3.6]);
    assert_eq!([begun(relayed(), 0), begun(relayed(), 1)], [10, 40]);
}

#[test]
fn a_large_part_gets_credits_though_others_want_them_all_the_time() {
    let mut pipeline = pipeline(3, Settings { credit_bytes: 100, ..PLAIN });
    pipeline.submit("large", 0, &[part(0, 0, 100)], 0).unwrap();
    let server_of = |key: u32| 1 + key as usize % 2;
    let mut in_flight = std::collections::VecDeque::new();
    for round in 0..100 {
        for key in 4 * round + 1..4 * round + 5 {
            pipeline.submit("small", 0, &[part(key, server_of(key), 20)], 0).unwrap();
        }
        in_flight.extend(send_all(&mut pipeline, &[round > 1, true, true]));
        if in_flight.back() == Some(&0) {
            assert!(round > 1, "its server was not writable before");
            return;
        }
        let mut keys: Vec<u32> = in_flight.drain(..).collect();
        keys.sort_unstable();
        keys.dedup();
        let first = keys.remove(0);
        come_back(&mut pipeline, server_of(first), first);
        in_flight.extend(keys);
    }
    panic!("the large part never began");
}

#[test]
fn servers_get_frames_in_proportion_to_what_is_left_for_them() {
    let mut pipeline = pipeline(2, Settings { credit_bytes_per_server: 4000, credit_bytes: 8000, ..PLAIN });
    pipeline.submit("w", 0, &[part(0, 0, 3000), part(1, 1, 1000)], 0).unwrap();
    let servers: Vec<usize> = (0..400).map(|_| send(&mut pipeline, &[true; 2]).unwrap().0).collect();
    for part in servers.chunks(40) {
        let to_first = part.iter().filter(|server| **server == 0).count();
        assert!((28..=32).contains(&to_first), "{to_first} of 40");
    }
}

#[test]
fn a_stage_takes_no_more_parts_than_the_next_one_has_places_for() {
    let mut pipeline = pipeline(2, PLAIN);
    let compressed = |key| Part { compress: true, ..part(key, usize::from(key >= 5), 90) };
    let parts: Vec<Part> = (0..10).map(compressed).collect();
    pipeline.submit("w", 0, &parts, 0).unwrap();
    let begun: Vec<u32> =
        std::iter::from_fn(|| pipeline.next_work(Stage::Compress, 0)).map(|work| work.key).collect();
    assert_eq!(begun, [0, 1, 5, 6], "two for each server");
    pipeline.compressed(5, (90, 90), 0, 0).unwrap();
    assert_eq!(pipeline.next_work(Stage::Compress, 0), None);
    assert_eq!(send_all(&mut pipeline, &[true; 2]), [5]);
    assert_eq!(pipeline.next_work(Stage::Compress, 0).map(|work| work.key), Some(7));
}

#[test]
fn what_cannot_be_taken_is_refused_and_changes_nothing() {
    let mut pipeline = pipeline(1, Settings { max_parts: 2, ..PLAIN });
    let mut refused = |parts: &[Part]| pipeline.submit("w", 0, parts, 0).unwrap_err().to_string();
    assert_eq!(refused(&[part(0, 1, 1)]), "part 0 of \"w\" belongs to server 1, of 1");
    assert_eq!(refused(&[part(0, 0, 0)]), "part 0 of \"w\" has no bytes; leave it out");
    assert_eq!(refused(&[part(0, 0, 1); 2]), "part 0 of \"w\" is in the pipeline already");
    let full = "\"w\" has 3 parts, where there is room for 2; the limit is max_parts 2";
    assert_eq!(refused(&[part(0, 0, 1); 3]), full);
    let empty = pipeline.submit("nothing", 0, &[], 0).unwrap();
    pipeline.submit("w", 0, &[part(0, 0, 1)], 0).unwrap();
    assert!(matches!(pipeline.submit("w", 0, &[part(0, 0, 1)], 0), Err(Refusal::Full { .. })));
    assert_eq!(pipeline.next_finished().map(|finished| finished.tensor), Some(empty));
    let busy = Refusal::Busy { key: 0, name: "w".to_owned() };
    assert_eq!(pipeline.submit("w", 0, &[part(0, 0, 1)], 0), Err(busy));
}

#[test]
fn reports_that_do_not_fit_change_nothing() {
    let mut pipeline = pipeline(2, PLAIN);
    pipeline.submit("w", 0, &[part(0, 0, 20)], 0).unwrap();
    let push = Stage::Push;
    let elsewhere = |reported| Err(Misreport::OtherStage { key: 0, reported, stage: push });
    assert_eq!(pipeline.decompressed(0, 0, 0), elsewhere(Stage::Decompress));
    assert_eq!(pipeline.sent(0, 0, 1, 0), elsewhere(push), "it has not begun");
    assert_eq!(pipeline.pulled(0, 0, 1, 0), elsewhere(Stage::Pull));
    pipeline.next_send(&[true], 0).unwrap();
    assert_eq!(pipeline.sent(1, 0, 1, 0), Err(Misreport::OtherServer { key: 0, reported: 1, server: 0 }));
    let too_much = Misreport::TooMuch { key: 0, stage: push, bytes: 11, left: 10 };
    assert_eq!(pipeline.sent(0, 0, 11, 0), Err(too_much));
    assert_eq!(pipeline.sent(0, 0, 10, 0), Ok(()));
}

#[test]
fn an_urgent_part_waits_for_no_credits_of_less_urgent_ones() {
    let mut pipeline = pipeline(1, PLAIN);
    pipeline.submit("late", 5, &[part(0, 0, 100), part(1, 0, 100)], 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [0]);
    pipeline.submit("urgent", 1, &[part(2, 0, 100), part(3, 0, 100)], 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [2]);
    come_back(&mut pipeline, 0, 2);
    assert_eq!(send_all(&mut pipeline, &[true]), [3]);
}

#[test]
fn parts_that_wait_for_each_others_workers_go_out_after_a_while() {
    let mut pipeline = pipeline(1, PLAIN);
    let parts: Vec<Part> = (0..5).map(|key| part(key, 0, 100)).collect();
    pipeline.submit("w", 0, &parts, 0).unwrap();
    assert_eq!(send_all(&mut pipeline, &[true]), [0]);
    assert_eq!(pipeline.stuck_at_ns(), Some(PLAIN.patience_ns));
    assert_eq!(send_all_at(&mut pipeline, PLAIN.patience_ns - 1), [0; 0]);
    let mut now_ns = PLAIN.patience_ns;
    assert_eq!(send_all_at(&mut pipeline, now_ns), [1], "one bound more");
    now_ns += PLAIN.patience_ns;
    assert_eq!(send_all_at(&mut pipeline, now_ns), [2], "twice that");
    come_back(&mut pipeline, 0, 0);
    assert_eq!(send_all_at(&mut pipeline, now_ns), [0; 0], "bounds hold again");
    [1, 2].into_iter().for_each(|key| come_back(&mut pipeline, 0, key));
    assert_eq!(send_all_at(&mut pipeline, now_ns), [3]);
    come_back(&mut pipeline, 0, 3);
    assert_eq!(send_all_at(&mut pipeline, now_ns), [4]);
    assert_eq!(pipeline.stuck_at_ns(), None, "nobody waits");
}
