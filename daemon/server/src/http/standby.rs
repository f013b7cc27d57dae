//! What a daemon answers that stands by: it hands everything on to the one that leads, so it does not matter which of them
//! agents, people and load balancers ask. Of itself it says that it lives, and whether the one that leads answers it.

mod handing;
mod known;
mod probe;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router, middleware as axum_middleware};
use reqwest::ClientBuilder;
use ringscope_api::clock;
use ringscope_store::{Holder, Leader, LeaderWatch, TermSecret};
use ringscope_tls::{Http, Own, TlsError, Trust};
use tokio::time::{Interval, MissedTickBehavior};

use self::known::Known;
use super::problem::ApiError;
use super::{Addresses, forwarded, middleware, named, probes};
use crate::metrics::{Metrics, StandbyMetrics};

/// Hands requests on to whoever leads.
#[derive(Debug)]
pub struct Standby {
    /// Address of this daemon.
    url: String,
    watch: LeaderWatch,
    http: Http,
    metrics: StandbyMetrics,
    known: Mutex<Known>,
    /// What the log was told last; empty: all is well.
    said: Mutex<String>,
}

impl Standby {
    /// `url`: this daemon's own address, to which it hands nothing on. `trust`: which certificates the others may show.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(
        url: String,
        watch: LeaderWatch,
        trust: &Trust,
        metrics: StandbyMetrics,
    ) -> Result<Arc<Self>, TlsError> {
        // Another one may speak https already where this one does not yet.
        let http = Http::new(trust, true, client)?;
        Ok(Arc::new(Self { url, watch, http, metrics, known: Mutex::default(), said: Mutex::default() }))
    }

    /// Address of this daemon.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every route.
    pub fn router(self: &Arc<Self>, addresses: &Addresses<'_>, certificate: Option<Arc<Own>>) -> Router {
        let routes = Router::new()
            .route("/healthz", get(probes::healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(own_metrics))
            .fallback(hand_on)
            .layer(axum_middleware::map_response(middleware::problems))
            .with_state(Arc::clone(self));
        named(routes, addresses, certificate)
    }

    /// Looks each second who leads, and whether it answers, for as long as this daemon stands by.
    pub async fn watch(&self) -> Infallible {
        let looks = async {
            let mut ticks = each_second();
            loop {
                ticks.tick().await;
                // What it cannot say it has said to the log.
                let _ = self.leader(Duration::ZERO).await;
            }
        };
        let asks = async {
            let mut ticks = each_second();
            loop {
                ticks.tick().await;
                self.ask().await;
            }
        };
        // Neither waits for the other: a database that is away says nothing of the leader.
        tokio::select! {
            never = looks => never,
            never = asks => never,
        }
    }

    /// Whether the leader answers.
    async fn ask(&self) {
        let leader = self.known().leader.clone().filter(|leader| leader.url != self.url);
        let Some(leader) = leader else { return };
        let said = probe::ask(&self.http, &leader).await;
        match &said {
            Ok(_) => self.said.lock().unwrap_or_else(PoisonError::into_inner).clear(),
            Err(why) => drop(self.away(&leader, why)),
        }
        self.known().heard(leader.term, said, clock::monotonic());
    }

    /// This daemon leads: what waits for another one, and streams of its events, end.
    pub fn leads(&self) {
        self.known().forget();
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Why this daemon, which leads in the term of that secret, is not what answers at its own `--cluster-url`, as it sees it.
    /// `None`: it is.
    pub async fn reaches_itself(&self, secret: &TermSecret) -> Option<String> {
        let leader = Leader { term: 0, url: self.url.clone(), secret: secret.clone(), since: clock::now() };
        probe::ask(&self.http, &leader).await.err()
    }

    /// Who leads, read again if that is longer ago than `age_max`.
    async fn leader(&self, age_max: Duration) -> Result<Leader, ApiError> {
        let known = self.known().read_within(clock::monotonic(), age_max);
        let leader = match known {
            Some(leader) => leader,
            None => self.read().await?,
        };
        match leader.filter(|leader| leader.url != self.url) {
            Some(leader) => {
                self.known().nobody_since = None;
                Ok(leader)
            }
            None => Err(self.nobody().await),
        }
    }

    /// Who leads, as the database says.
    async fn read(&self) -> Result<Option<Leader>, ApiError> {
        let read = self.watch.leader().await;
        let now = clock::monotonic();
        match read {
            Ok(leader) => {
                self.known().read(leader.clone(), now);
                Ok(leader)
            }
            Err(error) => {
                self.say(format!("who leads is not known: {error}"));
                let mut known = self.known();
                if known.read_nothing(now) {
                    return Ok(known.leader.clone());
                }
                let detail =
                    "the database does not answer, and it says which daemon leads; this one's log says why";
                Err(ApiError::unavailable("store-away", detail))
            }
        }
    }

    /// That no daemon leads to which anything could be handed on; where that goes on, who keeps the others from it.
    async fn nobody(&self) -> ApiError {
        let now = clock::monotonic();
        let (since, stored) = {
            let mut known = self.known();
            (*known.nobody_since.get_or_insert(now), known.leader.clone())
        };
        let mut detail = "no daemon leads yet; one does in a few seconds".to_owned();
        if now.saturating_duration_since(since) >= NOBODY_FOR
            && let Ok(Some(holder)) = self.watch.holder().await
        {
            detail = held(&self.url, &holder, stored.as_ref());
            self.say(detail.clone());
        }
        ApiError::unavailable("no-leader", detail)
    }

    /// That the leader does not answer; the log is told too.
    fn away(&self, leader: &Leader, why: &str) -> ApiError {
        let words = format!("the daemon that leads, {}, does not answer this one: {why}", leader.url);
        self.say(words.clone());
        ApiError::unavailable(
            "leader-away",
            format!("{words}. If it has ended, another one takes over within seconds"),
        )
    }

    /// That a leader has not answered for long, or another one leads.
    fn given_up(&self) -> ApiError {
        let leader = self.known().leader.clone();
        let url = leader.map_or_else(String::new, |leader| format!(", {},", leader.url));
        let detail = format!(
            "the daemon that leads{url} has not answered for long, or has just begun to lead: ask again"
        );
        ApiError::unavailable("leader-away", detail)
    }

    /// Tells the log, each reason once until all is well again.
    fn say(&self, reason: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != reason {
            tracing::warn!("{reason}");
            *said = reason;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why nobody leads while somebody holds the database; `stored`: who led last, or does, by this daemon's own address `url`.
fn held(url: &str, holder: &Holder, stored: Option<&Leader>) -> String {
    let who = format!("another daemon ({}) holds the database", holder.words);
    // Whoever leads as one of several says so after it has connected.
    match stored {
        Some(leader) if leader.since >= holder.since => format!(
            "{who}, and the leader has this daemon's own --cluster-url, {url}: give each daemon one of its own, at which the others reach it"
        ),
        _ => format!(
            "{who} and does not lead: it is opening the database, or was started without --cluster-url: give it one of its own"
        ),
    }
}

fn each_second() -> Interval {
    let mut ticks = tokio::time::interval(WATCHED_EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn client() -> ClientBuilder {
    // The leader is near: no proxy is to see what agents send.
    reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).tcp_keepalive(CONNECT_TIMEOUT).no_proxy()
}

/// Batches are taken, by the leader; else 503 and why not.
async fn readyz(
    State(standby): State<Arc<Standby>>,
    headers: HeaderMap,
) -> Result<Json<serde_json::Value>, ApiError> {
    if forwarded::is_forwarded(&headers) {
        return Err(forwarded::not_led_here());
    }
    let leader = standby.leader(READ_AGAIN).await?;
    let is_ready = standby.known().is_ready(clock::monotonic());
    is_ready.map_err(|wrong| {
        ApiError::unavailable("leader-away", format!("the daemon that leads, {}, {wrong}", leader.url))
    })?;
    Ok(Json(serde_json::json!({ "status": "ready", "role": "standby", "leader": leader.url })))
}

/// Of this daemon; the leader is scraped for what it knows.
async fn own_metrics(State(standby): State<Arc<Standby>>) -> Result<Response, ApiError> {
    let reaches_leader = standby.known().answered_lately(clock::monotonic());
    let text = standby.metrics.render(reaches_leader).map_err(|error| ApiError::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text).into_response())
}

async fn hand_on(State(standby): State<Arc<Standby>>, request: Request) -> Response {
    if forwarded::is_forwarded(request.headers()) {
        return forwarded::not_led_here().into_response();
    }
    let handed = async {
        let leader = standby.leader(READ_AGAIN).await?;
        let over = standby.known().over();
        handing::to(&standby, &leader, over, request).await
    };
    match handed.await {
        Ok(response) => response,
        Err(error) => {
            // Another one may have begun; the next request finds it.
            let _ = standby.leader(READ_AGAIN_MIN).await;
            error.into_response()
        }
    }
}

/// How often it is looked who leads, and whether it answers.
const WATCHED_EACH: Duration = Duration::from_secs(1);
/// How old that may be for a request.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// The same while the leader does not answer.
const READ_AGAIN_MIN: Duration = Duration::from_millis(100);
/// A daemon in the same network takes the connection at once, or is gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Whoever has the database leads within that time, unless it brings large tables up to date.
const NOBODY_FOR: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use ringscope_api::clock::Timestamp;

    use super::*;

    #[test]
    fn who_holds_the_database_is_named_and_why_nobody_leads() {
        let url = "http://a:9440";
        let holder = Holder { words: "host h, pid 7, since then".to_owned(), since: Timestamp(5) };
        let led = |at: u64| Leader {
            term: 1,
            url: url.to_owned(),
            secret: TermSecret("x".to_owned()),
            since: Timestamp(at),
        };
        let same = held(url, &holder, Some(&led(6)));
        assert!(same.contains("(host h, pid 7, since then)"), "{same}");
        assert!(same.contains("the leader has this daemon's own --cluster-url, http://a:9440"), "{same}");
        for words in [held(url, &holder, Some(&led(4))), held(url, &holder, None)] {
            assert!(words.contains("(host h, pid 7") && words.contains("without --cluster-url"), "{words}");
        }
    }
}
