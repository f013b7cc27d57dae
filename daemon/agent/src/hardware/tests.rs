use super::*;

/// Polls until the task has a result.
fn result(task: &mut Task<u32>, now: Instant, value: u32) -> u32 {
    let patience = ringscope_api::clock::monotonic() + Duration::from_secs(30);
    loop {
        if let Some(result) = task.poll(now, move || value) {
            return result;
        }
        assert!(ringscope_api::clock::monotonic() < patience, "the work never ended");
        std::thread::yield_now();
    }
}

#[test]
fn work_is_done_once_an_interval() {
    let start = ringscope_api::clock::monotonic();
    let mut task = Task::new(Duration::from_secs(5));
    assert_eq!(result(&mut task, start, 1), 1);
    assert_eq!(task.poll(start + Duration::from_secs(4), || 2), None);
    assert!(task.running.is_none(), "not due");
    assert_eq!(result(&mut task, start + Duration::from_secs(5), 3), 3);
}

#[test]
fn work_that_hangs_is_not_started_again_and_work_that_panics_is() {
    let start = ringscope_api::clock::monotonic();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let mut task = Task::new(Duration::from_secs(5));
    assert_eq!(task.poll(start, move || held.recv().map_or(0, |()| 1)), None);
    let later = start + Duration::from_secs(60);
    assert_eq!(task.poll(later, || 2), None);
    release.send(()).unwrap();
    assert_eq!(result(&mut task, start, 3), 1, "the first work's");
    assert_eq!(task.poll(later, || panic!("a driver's fault")), None);
    while !task.running.as_ref().is_some_and(JoinHandle::is_finished) {
        std::thread::yield_now();
    }
    assert_eq!(task.poll(later, || 4), None);
    assert_eq!(result(&mut task, later + Duration::from_secs(5), 5), 5);
}

#[test]
fn an_interval_of_zero_is_never() {
    let mut task = Task::new(Duration::ZERO);
    assert_eq!(task.poll(ringscope_api::clock::monotonic(), || 1), None);
    assert!(task.running.is_none());
}
