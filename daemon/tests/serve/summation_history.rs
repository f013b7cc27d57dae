//! History of summation groups: the same on both databases, whether read from samples or from rollups.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_store::{
    Metric, SamplePoint, SeriesQuery, Store, SummationGroupRow, SummationSampleRow, WriteSet,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const SAMPLE_MS: i64 = 5_000;
/// In the second hour, between two marks of any step.
const WORST: (i64, i64) = (70 * MINUTE_MS + 15_000, 9_000_000);

/// Three hours of a group of one server, whose counters begin anew and whose share changes, and of one worker of which
/// nothing was heard.
pub(crate) async fn write(store: &Store, now: Timestamp, start_ms: i64) {
    let group = SummationGroupRow {
        id: "g1".into(),
        job: "j1".into(),
        state: "running".into(),
        updated_ns: now.0.cast_signed(),
        ..SummationGroupRow::default()
    };
    let mut samples = Vec::new();
    let mut pushed_bytes = 70_000;
    for ms in (0..3 * HOUR_MS).step_by(usize::try_from(SAMPLE_MS).unwrap()) {
        pushed_bytes = if ms == 37 * MINUTE_MS + 20_000 { 400 } else { pushed_bytes + 1_000 };
        let usual = (ms % (7 * SAMPLE_MS) != 0).then_some(1_000_000 + ms % 13);
        let server = SummationSampleRow {
            group_id: "g1".into(),
            ts_ms: start_ms + ms + 700,
            host: "sum-a".into(),
            service: "0".into(),
            pushed_bytes,
            pulled_bytes: pushed_bytes / 2,
            summed_bytes: Some(pushed_bytes * 2),
            finished_rounds: Some(pushed_bytes / 100),
            share_ppm: if ms < 2 * HOUR_MS { 700_000 } else { 500_000 },
            optimal_share_ppm: 500_000,
            spread_ns: if ms == WORST.0 { Some(WORST.1) } else { usual },
        };
        let worker = SummationSampleRow {
            host: String::new(),
            service: "1".into(),
            summed_bytes: None,
            finished_rounds: None,
            spread_ns: None,
            ..server.clone()
        };
        samples.extend([server, worker]);
    }
    let set = WriteSet { summation_groups: vec![group], summation_samples: samples, ..WriteSet::default() };
    store.write(&set).await.unwrap();
}

/// That what was written is read in every step.
pub(crate) async fn check(store: &Store, start_ms: i64) {
    let pushed = (3 * HOUR_MS / SAMPLE_MS - 2) * 1_000;
    for step_ms in [1_000, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS] {
        let read = async |metric| series(store, metric, start_ms, step_ms).await;
        let growth = |points: &Points| {
            let grown = |service: &[(i64, i64)]| {
                service.windows(2).map(|pair| (pair[1].1 - pair[0].1).max(0)).sum::<i64>()
            };
            points.iter().map(|((service, _), points)| (service.clone(), grown(points))).collect::<Vec<_>>()
        };
        let both = |growth: i64| [("0".to_owned(), growth), ("1".to_owned(), growth)];
        assert_eq!(growth(&read(Metric::PushedBytes).await), both(pushed), "{step_ms}");
        // Who was not heard of has summed nothing that is known.
        assert_eq!(growth(&read(Metric::SummedBytes).await), both(pushed * 2)[..1], "{step_ms}");
        let spreads = &read(Metric::SpreadNs).await[&("0".to_owned(), "sum-a".to_owned())];
        let worst_in = |from_ms: i64, to_ms: i64| {
            let within = spreads.iter().filter(|(ts_ms, _)| (from_ms..to_ms).contains(&(ts_ms - start_ms)));
            within.map(|(_, spread)| *spread).max().unwrap()
        };
        assert_eq!(worst_in(HOUR_MS, 2 * HOUR_MS), WORST.1, "{step_ms}");
        assert_eq!(worst_in(2 * HOUR_MS, 3 * HOUR_MS), 1_000_012, "{step_ms}");
        let shares = &read(Metric::SharePpm).await[&("1".to_owned(), String::new())];
        let last = |before_ms: i64| shares.iter().rfind(|(ts_ms, _)| ts_ms - start_ms < before_ms).unwrap().1;
        assert_eq!((last(2 * HOUR_MS), last(3 * HOUR_MS)), (700_000, 500_000), "{step_ms}");
    }
}

/// By service and host, by time.
type Points = BTreeMap<(String, String), Vec<(i64, i64)>>;

async fn series(store: &Store, metric: Metric, start_ms: i64, step_ms: i64) -> Points {
    let query = SeriesQuery {
        of_jobs: None,
        metric,
        job: Some("j1".into()),
        id: Some("g1".into()),
        host: None,
        kind: None,
        from_ms: start_ms,
        to_ms: start_ms + 3 * HOUR_MS + 90_000,
        step_ms,
    };
    let mut points = Points::new();
    let take = |point: SamplePoint<'_>| {
        assert_eq!(point.id, "g1");
        let service = (point.kind.to_owned(), point.host.to_owned());
        points.entry(service).or_default().push((point.ts_ms, point.value));
    };
    assert!(store.series(&query, take).await.unwrap());
    points
}
