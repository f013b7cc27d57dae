//! Views that many ask for are computed once: a page with a hundred readers costs what it costs with one.
//!
//! What is kept of a URL is the finished answer, packed, with a strong ETag. It is given again
//! - to who had asked before its computation began (one computes, the others wait);
//! - as long as nothing at all was heard since, which a tick ends every second: durations go on;
//! - in a large model, where something is always heard, for [`KEPT_MAX`], but never after subscribers were told of a change:
//!   who looks again because of an event sees it. Events come at most every 500 ms, so a URL costs two computations a second.
//!
//! History and pictures of it go through here too: they age no faster than the tick. No batch waits here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use ringscope_access::Who;
use ringscope_api::clock;
use sha2::{Digest as _, Sha256};

use super::Whole;
use crate::hub::Version;

/// The finished answers.
#[derive(Default)]
pub(super) struct Views(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_key: HashMap<Key, Place>,
    bytes: usize,
}

/// How it is packed, and path and query.
type Key = (Packing, String);
/// Whoever computes holds the lock, and the others wait for it.
type Slot = Arc<tokio::sync::Mutex<Option<View>>>;

struct Place {
    slot: Slot,
    bytes: usize,
    used: Instant,
}

/// What the client can unpack, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Packing {
    Brotli,
    Gzip,
    None,
}

/// One finished answer.
#[derive(Clone)]
struct View {
    headers: HeaderMap,
    body: Bytes,
    begun: Instant,
    version: Version,
}

/// Answers a GET from what is kept, or keeps the answer. To be laid around what packs it.
pub(super) async fn keep(State(Whole(app)): State<Whole>, mut request: Request, next: Next) -> Response {
    let asked_method = request.method().clone();
    if asked_method != Method::GET && asked_method != Method::HEAD {
        return next.run(request).await;
    }
    // Behind the door: who asks is known, or nobody need be.
    let tenant = request.extensions().get::<Who>().and_then(|who| who.tenant.clone());
    let hub = tenant.as_ref().map_or_else(|| Arc::clone(&app.hub), |tenant| app.hub.of_tenant(tenant));
    let packing = Packing::accepted(request.headers());
    packing.ask(request.headers_mut());
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    // No path begins with a name.
    let path = tenant.map_or_else(String::new, |tenant| tenant.to_string()) + &path;
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    *request.method_mut() = Method::GET;

    let arrived = clock::monotonic();
    let key = (packing, path);
    let slot = app.guard.views.slot(&key, arrived);
    let mut kept = slot.lock().await;
    if let Some(view) = kept.as_ref().filter(|view| view.serves(arrived, hub.version())) {
        return view.answer(&asked_method, known.as_ref());
    }
    *kept = None;
    let (begun, version) = (clock::monotonic(), hub.version());
    let _permit = match app.guard.computing().await {
        Ok(permit) => permit,
        Err(busy) => return busy.into_response(),
    };
    match View::of(next.run(request).await, begun, version).await {
        Ok(view) => {
            let response = view.answer(&asked_method, known.as_ref());
            app.guard.views.note(&key, view.body.len());
            *kept = Some(view);
            response
        }
        Err(response) => response,
    }
}

impl Views {
    /// The place of a URL, made if there is none.
    fn slot(&self, key: &Key, now: Instant) -> Slot {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = kept.by_key.get_mut(key) {
            place.used = now;
            return Arc::clone(&place.slot);
        }
        kept.make_room(VIEWS_MAX - 1, KEPT_BYTES_MAX);
        let slot = Slot::default();
        kept.bytes += key.1.len();
        kept.by_key.insert(key.clone(), Place { slot: Arc::clone(&slot), bytes: key.1.len(), used: now });
        slot
    }

    /// Notes how large an answer is, and lets go of the oldest ones if it is too much in all.
    fn note(&self, key: &Key, body_bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = kept.by_key.get_mut(key) else { return };
        let bytes = key.1.len() + body_bytes;
        let before = std::mem::replace(&mut place.bytes, bytes);
        kept.bytes = kept.bytes + bytes - before;
        kept.make_room(VIEWS_MAX, KEPT_BYTES_MAX);
    }
}

impl Kept {
    fn make_room(&mut self, views: usize, bytes: usize) {
        while self.by_key.len() > views || self.bytes > bytes {
            let oldest = self.by_key.iter().min_by_key(|(_, place)| place.used).map(|(key, _)| key.clone());
            let Some(gone) = oldest.and_then(|key| self.by_key.remove(&key)) else { return };
            self.bytes -= gone.bytes;
        }
    }
}

impl View {
    /// The answer, if it is one to keep; else what to send on.
    async fn of(response: Response, begun: Instant, version: Version) -> Result<Self, Response> {
        if response.status() != StatusCode::OK {
            return Err(response);
        }
        let (parts, body) = response.into_parts();
        let body = match gather(body).await {
            Ok(body) => body,
            Err(body) => return Err(Response::from_parts(parts, body)),
        };
        let mut headers = parts.headers;
        let digits: String =
            Sha256::digest(&body).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        if let Ok(tag) = HeaderValue::try_from(format!("\"{digits}\"")) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        Ok(Self { headers, body, begun, version })
    }

    /// Whether it may be given to who arrived then.
    fn serves(&self, arrived: Instant, now: Version) -> bool {
        let is_recent = now.is_large && self.version.told == now.told && self.begun.elapsed() < KEPT_MAX;
        self.begun >= arrived || self.version.model == now.model || is_recent
    }

    fn answer(&self, method: &Method, known: Option<&HeaderValue>) -> Response {
        if known.is_some_and(|known| self.is_known(known)) {
            let mut headers = self.headers.clone();
            for gone in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING] {
                headers.remove(gone);
            }
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let body = if *method == Method::HEAD { Body::empty() } else { Body::from(self.body.clone()) };
        (self.headers.clone(), body).into_response()
    }

    /// Weak comparison, as RFC 9110 §13.1.2 wants it.
    fn is_known(&self, tags: &HeaderValue) -> bool {
        let tag = self.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
        let mut tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.any(|known| known == "*" || tag == Some(known.trim_start_matches("W/")))
    }
}

impl Packing {
    fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let wanted: Vec<&str> = values
            .flat_map(|value| value.split(','))
            .filter_map(|word| {
                let (name, quality) = word.split_once(';').unwrap_or((word, "q=1"));
                let quality = quality.trim().trim_start_matches("q=").parse().unwrap_or(1.0);
                (quality > 0.0_f32).then_some(name.trim())
            })
            .collect();
        let has = |name: &str| wanted.iter().any(|word| word.eq_ignore_ascii_case(name));
        if has("br") {
            Self::Brotli
        } else if has("gzip") {
            Self::Gzip
        } else {
            Self::None
        }
    }

    /// Asks for this one and no other.
    fn ask(self, headers: &mut HeaderMap) {
        let name = match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::None => "identity",
        };
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(name));
    }
}

/// A body as a whole, or, if it is too large or breaks off, as it came.
async fn gather(body: Body) -> Result<Bytes, Body> {
    let mut rest = body.into_data_stream();
    let (mut chunks, mut bytes) = (Vec::new(), 0);
    while let Some(chunk) = rest.next().await {
        bytes += chunk.as_ref().map_or(0, Bytes::len);
        let is_over = chunk.is_err() || bytes > VIEW_BYTES_MAX;
        chunks.push(chunk);
        if is_over {
            return Err(Body::from_stream(stream::iter(chunks).chain(rest)));
        }
    }
    let mut chunks: Vec<Bytes> = chunks.into_iter().flatten().collect();
    Ok(if chunks.len() == 1 { chunks.remove(0) } else { chunks.concat().into() })
}

/// How old an answer may be while the model changes: as often as events tell of changes.
const KEPT_MAX: Duration = Duration::from_millis(500);
/// URLs that are kept at once: all lists and all communicators of a large job in both packings.
const VIEWS_MAX: usize = 1024;
/// Bytes of all of them. The largest answer of a thousand hosts has half a megabyte unpacked.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// A larger answer is sent on as it comes.
const VIEW_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests;
