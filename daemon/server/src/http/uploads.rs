//! Bounds of what clients send: bytes held of all bodies together, how long a body may stand still, and how much is
//! unpacked and decoded at once. Nobody holds all of it: see `shares`. Who finds no room is told to come again; what is held is given back with its [`Held`].

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::ApiError;
use super::shares::{Full, Parties, Shares, Taken};
use super::{BODY_BYTES_MAX, Whole};

/// What all uploads share.
pub(super) struct Uploads {
    /// In bytes.
    held: Arc<Shares>,
    unpacking: Arc<Semaphore>,
    /// In KiB.
    decoded: Arc<Semaphore>,
    decoded_kib_max: u32,
}

/// Bytes that one upload holds.
pub(super) struct Held {
    taken: Taken,
    most: usize,
}

impl Uploads {
    /// Room for batches of up to `body_limit_bytes`.
    pub(super) fn new(body_limit_bytes: usize) -> Self {
        let decoded = batch_bytes_max(body_limit_bytes).max(DECODED_BYTES_MIN);
        let decoded_kib_max = u32::try_from(decoded >> 10).unwrap_or(u32::MAX);
        // One batch, packed to half of it and unpacked, finds room while nobody else sends a large one.
        let most = RESERVE_BYTES.saturating_add(OTHERS_BYTES).saturating_add(body_limit_bytes / 2 * 3);
        let most = HELD_BYTES_MAX.max(most);
        Self {
            held: Shares::new(most, most - OTHERS_BYTES),
            unpacking: Arc::new(Semaphore::new(UNPACKING_MAX)),
            decoded: Arc::new(Semaphore::new(decoded_kib_max as usize)),
            decoded_kib_max,
        }
    }

    /// An upload of these that holds nothing yet.
    pub(super) fn begin(&self, parties: &Parties) -> Held {
        Held { taken: self.held.nothing(parties), most: self.held.all() }
    }

    /// The right to unpack a body; waits for a while.
    pub(super) async fn unpacking(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        within_wait(Arc::clone(&self.unpacking).acquire_owned()).await
    }

    /// The right to decode a batch that may take so much memory; waits for a while.
    pub(super) async fn decoding(&self, weight_bytes: u64) -> Result<OwnedSemaphorePermit, ApiError> {
        let kib = u32::try_from(weight_bytes >> 10).unwrap_or(u32::MAX).clamp(1, self.decoded_kib_max);
        within_wait(Arc::clone(&self.decoded).acquire_many_owned(kib)).await
    }

    /// Whether what is so heavy may ever be decoded.
    pub(super) fn is_too_heavy(&self, weight_bytes: u64) -> bool {
        weight_bytes >> 10 > u64::from(self.decoded_kib_max)
    }

    /// The same at once, or not at all.
    pub(super) fn decoding_now(&self, weight_bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(weight_bytes >> 10).unwrap_or(u32::MAX);
        Arc::clone(&self.decoded).try_acquire_many_owned(kib).ok()
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.held.taken()
    }
}

impl Held {
    /// Holds so many bytes more. A large upload may not take what small ones need: batches of agents are small.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let is_large = self.taken.n().saturating_add(bytes) > SMALL_BYTES;
        let left = if is_large { RESERVE_BYTES + OTHERS_BYTES } else { 0 };
        self.taken.grow(bytes, left).map_err(|full| match full {
            Full::All => self.no_room(),
            Full::One(party) => ApiError::has_share(format!(
                "{party} sends so much at once that {} MiB are held of it, which is the most for one; send this one again \
                 later",
                (self.most - OTHERS_BYTES) >> 20
            )),
        })
    }

    /// That there is none now.
    pub(super) fn no_room(&self) -> ApiError {
        let detail = format!(
            "{} MiB of uploads are held already, which is the most; send this one again later",
            self.most >> 20
        );
        ApiError::unavailable("too-many-uploads", detail)
    }

    /// Makes room for `n` more bytes in `buffer`, as far as it lacks it.
    pub(super) fn reserve(&mut self, buffer: &mut Vec<u8>, n: usize, most: usize) -> Result<(), ApiError> {
        let needed = buffer.len() + n;
        if needed > buffer.capacity() {
            let capacity = needed.max((buffer.capacity() * 2).min(most));
            self.grow(capacity - buffer.capacity())?;
            buffer.reserve_exact(capacity - buffer.len());
        }
        Ok(())
    }
}

/// Waits no longer than a client should for a right that others have.
async fn within_wait<T, E>(right: impl Future<Output = Result<T, E>>) -> Result<T, ApiError> {
    match tokio::time::timeout(WAIT_MAX, right).await {
        Ok(Ok(right)) => Ok(right),
        Ok(Err(_)) | Err(_) => {
            Err(ApiError::unavailable("busy", "too many batches are sent at once; send this one again later"))
        }
    }
}

/// The body as it comes; ends with an error if nothing comes for a while.
pub(super) struct Chunks {
    stream: axum::body::BodyDataStream,
    stalled: Duration,
}

impl Chunks {
    pub(super) fn of(body: Body) -> Self {
        Self { stream: body.into_data_stream(), stalled: STALLED_MAX }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        match tokio::time::timeout(self.stalled, self.stream.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(error))) => {
                Err(ApiError::bad_request(format!("the body could not be read: {error}")))
            }
            Err(_) => Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "stalled",
                format!("nothing of the body came for {} s", self.stalled.as_secs()),
            )),
        }
    }
}

/// Reads a body as it is into memory that is held for it. `None`: it is longer than `most`.
pub(super) async fn receive(
    chunks: &mut Chunks,
    most: usize,
    held: &mut Held,
) -> Result<Option<Vec<u8>>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await? {
        if bytes.len() + chunk.len() > most {
            return Ok(None);
        }
        held.reserve(&mut bytes, chunk.len(), most)?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Holds room for a body that a handler takes whole, which is a small one.
pub(super) async fn hold_small(State(Whole(app)): State<Whole>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(BODY_BYTES_MAX);
    let mut held = app.guard.uploads.begin(&Parties::noted(request.extensions()));
    match held.grow(length.min(BODY_BYTES_MAX)) {
        Ok(()) => next.run(request).await,
        Err(full) => full.into_response(),
    }
}

/// Bytes of memory that a decoded batch may take, and all that are decoded at once: large ones take some ten times their
/// bytes.
pub(super) const fn batch_bytes_max(body_limit_bytes: usize) -> u64 {
    body_limit_bytes as u64 * 16
}

/// That a batch is too long.
pub(super) fn too_large(limit_bytes: usize) -> ApiError {
    let detail =
        format!("a batch has at most {limit_bytes} bytes, unpacked; raise --body-limit or send less at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

/// Bytes of bodies in memory, of all clients together, packed and unpacked: one of the largest batches, or hundreds of
/// ordinary ones. What a thousand connections take by themselves comes on top (`tests/bounds.rs` measures it).
const HELD_BYTES_MAX: usize = 32 << 20;
/// Of that, for small ones only.
const RESERVE_BYTES: usize = 4 << 20;
/// Of that, for others than any one token, person, address or tenant.
const OTHERS_BYTES: usize = 4 << 20;
/// An upload that holds more is a large one: an agent of eight ranks sends less.
const SMALL_BYTES: usize = 2 << 20;
/// Batches unpacked at once: each has a window of its own, and a core to itself.
const UNPACKING_MAX: usize = 4;
/// What all that is decoded at once may take, at least: two of the largest dumps.
const DECODED_BYTES_MIN: u64 = 256 << 20;
/// An agent gives up after ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Packets that were lost come again within two or three.
const STALLED_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn uploads() -> Arc<Uploads> {
        Arc::new(Uploads::new(16 << 20))
    }

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let uploads = uploads();
        let mut all: Vec<Held> = Vec::new();
        loop {
            let mut held = uploads.begin(&Parties::default());
            if held.grow(4 << 20).is_err() {
                break;
            }
            all.push(held);
        }
        assert_eq!(uploads.held(), HELD_BYTES_MAX - RESERVE_BYTES - OTHERS_BYTES, "large ones leave room");
        let mut small = uploads.begin(&Parties::default());
        small.grow(SMALL_BYTES).unwrap();
        small.grow(1).unwrap_err();
        drop((all, small));
        assert_eq!(uploads.held(), 0);
    }

    #[test]
    fn the_largest_batch_finds_room_packed_and_not() {
        for limit in [16 << 20, 1 << 30] {
            let uploads = Arc::new(Uploads::new(limit));
            let mut held = uploads.begin(&Parties::default());
            held.grow(limit / 2 * 3).unwrap();
        }
    }

    #[test]
    fn a_buffer_never_has_more_room_than_is_held() {
        let uploads = uploads();
        let (mut held, mut buffer) = (uploads.begin(&Parties::default()), Vec::new());
        for n in [1, 1000, 3, 70_000, 1 << 20] {
            held.reserve(&mut buffer, n, 2 << 20).unwrap();
            buffer.extend(vec![0; n]);
            assert!(buffer.capacity() <= held.taken.n(), "{n}");
        }
    }

    #[tokio::test]
    async fn a_body_that_stands_still_ends_and_holds_nothing() {
        let uploads = uploads();
        let body = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"half")) });
        let body = Body::from_stream(body.chain(futures::stream::pending()));
        {
            let mut held = uploads.begin(&Parties::default());
            let mut chunks = Chunks { stalled: Duration::from_millis(20), ..Chunks::of(body) };
            let error = receive(&mut chunks, 100, &mut held).await.unwrap_err();
            assert_eq!(error.into_response().status(), StatusCode::REQUEST_TIMEOUT);
            assert!(uploads.held() > 0);
        }
        assert_eq!(uploads.held(), 0);
    }
}
