//! What a daemon answers that stands by: it hands everything on to the one that leads, so it does not matter which of them
//! agents, people and load balancers ask. Of itself it says that it lives, and whether it knows who leads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router, middleware as axum_middleware};
use reqwest::ClientBuilder;
use ringscope_api::clock;
use ringscope_store::{Leader, LeaderWatch};
use ringscope_tls::{Http, Own, TlsError, Trust, innermost};

use super::connections::Line;
use super::problem::ApiError;
use super::{Addresses, forwarded, middleware, named, probes};
use crate::metrics::{self, Metrics};

/// Hands requests on to whoever leads.
#[derive(Debug)]
pub struct Standby {
    /// Address of this daemon.
    url: String,
    watch: LeaderWatch,
    http: Http,
    known: Mutex<Known>,
    /// What the log was told last; empty: all is well.
    said: Mutex<String>,
}

/// Who leads, as it was last read.
#[derive(Debug, Default)]
struct Known {
    leader: Option<Leader>,
    read_at: Option<Instant>,
}

impl Standby {
    /// `url`: this daemon's own address, to which it hands nothing on. `trust`: which certificates the others may show.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(url: String, watch: LeaderWatch, trust: &Trust) -> Result<Arc<Self>, TlsError> {
        let http = Http::new(trust, url.starts_with("https:"), client)?;
        Ok(Arc::new(Self { url, watch, http, known: Mutex::default(), said: Mutex::default() }))
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

    /// Who leads, read again after a second, or at once where the last answer was of no use.
    async fn leader(&self, is_fresh: bool) -> Result<Leader, ApiError> {
        let now = clock::monotonic();
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let age = known.read_at.map(|at| now.saturating_duration_since(at));
            let enough = if is_fresh { READ_AGAIN_MIN } else { READ_AGAIN };
            age.filter(|age| *age < enough).and(Some(known.leader.clone()))
        };
        let leader = match known {
            Some(leader) => leader,
            None => {
                let leader = self.watch.leader().await.map_err(|error| {
                    self.say(format!("who leads is not known: {error}"));
                    let detail = "the database does not answer, and it says which daemon leads; this one's log says why";
                    ApiError::unavailable("store-away", detail)
                })?;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                *known = Known { leader: leader.clone(), read_at: Some(now) };
                leader
            }
        };
        leader.filter(|leader| leader.url != self.url).ok_or_else(|| {
            let detail = "no daemon leads yet; one does in a few seconds. If this goes on, see that each daemon has a --cluster-url of \
                          its own, and what their logs say";
            ApiError::unavailable("no-leader", detail)
        })
    }

    /// Tells the log, each reason once until all is well again.
    fn say(&self, reason: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != reason {
            tracing::warn!("{reason}");
            *said = reason;
        }
    }
}

fn client() -> ClientBuilder {
    // The leader is near: no proxy is to see what agents send.
    reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).tcp_keepalive(CONNECT_TIMEOUT).no_proxy()
}

/// Batches are taken, by the leader; else 503 and why not.
async fn readyz(State(standby): State<Arc<Standby>>) -> Result<Json<serde_json::Value>, ApiError> {
    let leader = standby.leader(false).await?;
    Ok(Json(serde_json::json!({ "status": "ready", "role": "standby", "leader": leader.url })))
}

/// Of this daemon; the leader is scraped for what it knows.
async fn own_metrics() -> Response {
    ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics::STANDBY).into_response()
}

async fn hand_on(State(standby): State<Arc<Standby>>, request: Request) -> Response {
    if forwarded::is_forwarded(request.headers()) {
        return forwarded::not_led_here().into_response();
    }
    match standby.leader(false).await {
        Ok(leader) => match to(&standby, &leader, request).await {
            Ok(response) => response,
            Err(error) => {
                // Another one may have begun; the next request finds it.
                let _ = standby.leader(true).await;
                error.into_response()
            }
        },
        Err(error) => error.into_response(),
    }
}

/// The leader's answer.
async fn to(standby: &Standby, leader: &Leader, request: Request) -> Result<Response, ApiError> {
    let Some(line) = request.extensions().get::<Line>().cloned() else {
        return Err(ApiError::internal(&"a request without a connection"));
    };
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let url = format!("{}{path}", leader.url);
    if url.parse::<Uri>().is_err() {
        return Err(ApiError::bad_request("the path or the query cannot be read: percent-encode UTF-8"));
    }
    let mut headers = head.headers;
    let has_body =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].iter().any(|name| headers.contains_key(name));
    remove_of_the_connection(&mut headers);
    if let Some(value) = forwarded::value(&leader.secret, &line) {
        headers.insert(forwarded::HEADER, value);
    }
    let mut asked = standby.http.client().request(head.method, url).headers(headers);
    // Streams of events have no end, and a file takes as long as it takes.
    if !ENDLESS.iter().any(|endless| head.uri.path() == *endless) {
        asked = asked.timeout(ANSWER_TIMEOUT);
    }
    if has_body {
        asked = asked.body(reqwest::Body::wrap_stream(body.into_data_stream()));
    }
    let answer = asked.send().await.map_err(|error| {
        standby.say(format!(
            "the daemon that leads, {}, does not answer: {}",
            leader.url,
            innermost(&error.without_url())
        ));
        let detail =
            "the daemon that leads does not answer; if it has ended, another one takes over within seconds";
        ApiError::unavailable("leader-away", detail)
    })?;
    standby.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = answer.headers().clone();
    remove_of_the_connection(response.headers_mut());
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    Ok(response)
}

/// Removes what is said of one connection, and not of the request (RFC 9110, 7.6.1).
fn remove_of_the_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// How often it is read who leads, while all goes well.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The same while the leader does not answer.
const READ_AGAIN_MIN: Duration = Duration::from_millis(100);
/// The leader itself gives up after thirty seconds, of all but these.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
const ENDLESS: [&str; 2] = ["/api/v1/events", "/api/v1/import"];
/// A daemon in the same network takes the connection at once, or is gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
