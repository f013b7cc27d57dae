use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::get;
use axum::{Json, Router, middleware};
use futures::future::join_all;
use ringscope_access::{Doors, Proxies, Secret};
use ringscope_samples::cluster::Cluster;
use ringscope_store::Keep;
use ringscope_view as view;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::gate::{Gate, GateConfig};
use crate::http::{App, Guard, Limits, serve};
use crate::hub::Hub;
use crate::ingest::{Ingest, Keeper, KeeperConfig};
use crate::metrics::{Metrics, MetricsLimits, OwnMetrics};

#[test]
fn what_the_client_can_unpack() {
    for (accept, packing) in [
        ("", Packing::None),
        ("identity", Packing::None),
        ("gzip, deflate", Packing::Gzip),
        ("gzip;q=0.5, br", Packing::Brotli),
        ("GZIP, br;q=0", Packing::Gzip),
        ("br;q=0.0,gzip; q=0", Packing::None),
    ] {
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accept))]);
        assert_eq!(Packing::accepted(&headers), packing, "{accept}");
    }
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
    let views = Views::default();
    let start = clock::monotonic();
    let key = |index: usize| (Packing::Gzip, format!("/{index}"));
    for index in 0..VIEWS_MAX + 10 {
        views.slot(&key(index), start + Duration::from_secs(index as u64));
    }
    let n_kept = || views.0.lock().unwrap().by_key.len();
    assert_eq!(n_kept(), VIEWS_MAX);
    assert!(!views.0.lock().unwrap().by_key.contains_key(&key(9)));
    for index in 100..120 {
        views.note(&key(index), VIEW_BYTES_MAX);
    }
    let kept = views.0.lock().unwrap();
    assert!(kept.bytes <= KEPT_BYTES_MAX, "{}", kept.bytes);
    assert_eq!(kept.bytes, kept.by_key.values().map(|place| place.bytes).sum::<usize>());
    assert!(kept.by_key.contains_key(&key(119)));
}

#[test]
fn an_answer_is_given_again_while_it_is_true_enough() {
    let begun = clock::monotonic();
    let version = Version { model: 7, told: 3, is_large: true };
    let view = View { headers: HeaderMap::new(), body: Bytes::new(), begun, version };
    let later = begun + Duration::from_millis(1);
    assert!(view.serves(later, version), "nothing happened");
    let heard = Version { model: 8, ..version };
    assert!(view.serves(later, heard), "a large model may lag a little");
    assert!(!view.serves(later, Version { told: 4, ..heard }), "subscribers look again");
    assert!(!view.serves(later, Version { is_large: false, ..heard }), "a small one is looked at again");
    assert!(view.serves(begun, Version { is_large: false, ..heard }), "who waited for it");
}

/// Rooms without a database, and nobody who ticks.
fn app(guard: Guard) -> App {
    let stop = CancellationToken::new();
    let (hub, own) = (Arc::new(Hub::new(Duration::from_secs(1))), Arc::new(OwnMetrics::new().unwrap()));
    let kept = Duration::from_secs(60);
    let keeping = KeeperConfig {
        url: "none".parse().unwrap(),
        keep: Keep { samples: kept, all: kept },
        claim: None,
        lead: None,
    };
    let keeper =
        Keeper::spawn(Arc::clone(&hub), keeping, Arc::clone(&own), &TaskTracker::new(), stop.clone());
    let limits = MetricsLimits { series: 1000, communicators: None };
    let metrics = Metrics::new(Arc::clone(&hub), |_| None, Arc::clone(&own), limits).unwrap();
    let gate = GateConfig {
        doors: Doors::Open,
        proxies: Proxies::default(),
        has_oidc: false,
        database: String::new(),
        own: Secret::session([0; 32]).hash,
    };
    App {
        gate: Arc::new(Gate::new(gate, keeper.clone())),
        of_tenant: None,
        ingest: Ingest::new(Arc::clone(&hub), keeper.clone(), own),
        hub,
        keeper,
        metrics: Arc::new(metrics),
        guard,
        body_limit_bytes: 1 << 20,
        tls: None,
        oidc: None,
        injection: None,
        stop,
        term_secret: None,
        unreached: Arc::default(),
    }
}

/// Serves all hosts at every path while `test` asks; returns how often they were computed.
async fn serving(app: App, test: impl AsyncFnOnce(String)) -> usize {
    let computed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&computed);
    let hosts = async move |State(Whole(app)): State<Whole>| {
        counter.fetch_add(1, Ordering::SeqCst);
        let hosts = app.read(|model, diagnosis, now| view::hosts(model, diagnosis, now, |_, _| true));
        hosts.await.map(Json)
    };
    let app = Arc::new(app);
    let router = Router::new().fallback(get(hosts));
    let router =
        router.layer(middleware::from_fn_with_state(Whole(Arc::clone(&app)), keep)).with_state(Whole(app));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::select! {
        () = serve(listener, None, router, Limits::default(), CancellationToken::new()) => panic!("it serves"),
        () = test(url) => {}
    }
    computed.load(Ordering::SeqCst)
}

#[tokio::test]
async fn what_many_ask_for_at_once_is_computed_once() {
    let app = app(Guard::new(1 << 20));
    let names: Vec<String> = (0..1000).map(|host| format!("host-{host:04}")).collect();
    let hosts: Vec<(&str, u32, u32)> = names.iter().map(|name| (&**name, 8, 2)).collect();
    app.hub.ingest(&Cluster::new(&hosts, 2).batch(1, 2), clock::now());
    app.hub.tick(clock::now());
    assert!(app.hub.version().is_large);
    let n_computed = serving(app, async |url| {
        let client = reqwest::Client::new();
        let ask = async |_| client.get(&url).send().await.unwrap().bytes().await.unwrap();
        let answers = join_all((0..200).map(ask)).await;
        let hosts: Vec<ringscope_api::HostSummary> = serde_json::from_slice(&answers[0]).unwrap();
        assert_eq!(hosts.len(), 1000);
        assert!(answers.iter().all(|answer| *answer == answers[0]));
    });
    assert_eq!(n_computed.await, 1);
}

#[tokio::test]
async fn who_waits_too_long_for_a_turn_is_told_when_to_come_again() {
    let mut guard = Guard::new(1 << 20);
    guard.computing_wait = Duration::from_millis(1);
    let mut turns = Vec::new();
    while let Ok(turn) = guard.computing().await {
        turns.push(turn);
    }
    let n_computed = serving(app(guard), async |url| {
        let refused = reqwest::get(format!("{url}/one")).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "2");
        let problem: ringscope_api::Problem = refused.json().await.unwrap();
        assert_eq!(problem.kind, "about:blank#busy");
        drop(turns);
        assert_eq!(reqwest::get(format!("{url}/one")).await.unwrap().status(), StatusCode::OK);
    });
    assert_eq!(n_computed.await, 1, "what is refused is not computed");
}
