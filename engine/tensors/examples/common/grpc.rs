//! gRPC as a device, as programs have it in Rust (tonic): a write is a call that carries the bytes, a read one that answers
//! with them. What one-sided access is measured beside; no part of the library.
//!
//! Messages and service are written by hand, as tonic's generator would write them.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use rtensor::clock::Deadline;
use rtensor::device::{Counts, Device, Event, FlagForm, Role};
use rtensor::error::{Error, Result};
use rtensor::memory::{Address, Part, Region};
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Bytes of a message at most.
const MOST_BYTES: usize = 256 << 20;
/// Bytes that may be on their way without an answer: by default 64 KiB, which would keep large tensors waiting.
const WINDOW_BYTES: u32 = 64 << 20;
/// Between two tries to call a peer, or to hear of it.
const RETRY: Duration = Duration::from_millis(5);

/// One call: what is written where, or what is to be read.
#[derive(Clone, PartialEq, prost::Message)]
struct Access {
    #[prost(uint64, tag = "1")]
    key: u64,
    #[prost(uint64, tag = "2")]
    offset: u64,
    /// Bytes to be read; 0 of a write.
    #[prost(uint64, tag = "3")]
    bytes: u64,
    /// What is written. Empty of a read.
    #[prost(bytes = "bytes", tag = "4")]
    payload: tonic::codegen::Bytes,
    /// Whether it is a control message.
    #[prost(bool, tag = "5")]
    is_control: bool,
}

/// Its answer.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(bytes = "bytes", tag = "1")]
    payload: tonic::codegen::Bytes,
}

/// What the calls of the peer reach.
#[derive(Debug, Default)]
struct Shared {
    own: BTreeMap<u64, Region>,
    controls: VecDeque<Vec<u8>>,
}

/// One end of a connection over gRPC: a server for the peer's calls, a client for one's own.
pub(crate) struct Rpc {
    runtime: Runtime,
    client: tonic::client::Grpc<Channel>,
    shared: Arc<Mutex<Shared>>,
    peer: String,
    next_key: u64,
    writes: u64,
    events: Vec<Event>,
    counts: Counts,
}

/// Connects over gRPC. Each end has a server: who listens at the first of two addresses `host:port`, who calls at the second.
pub(crate) fn connect(role: Role, [listener, caller]: [&str; 2], deadline: Deadline) -> Result<Rpc> {
    let (own, theirs) = if role == Role::Listen { (listener, caller) } else { (caller, listener) };
    let usage = |what: String| Error::Usage(format!("gRPC from {own} to {theirs}: {what}"));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::system("starting gRPC", error))?;
    let shared = Arc::new(Mutex::new(Shared::default()));
    let served = Tensors(Arc::clone(&shared));
    let at = own.parse().map_err(|_bad| usage("needs an IP address and a port".to_owned()))?;
    runtime.spawn(async move {
        Server::builder()
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .add_service(served)
            .serve(at)
            .await
    });
    let endpoint = Endpoint::from_shared(format!("http://{theirs}"));
    let endpoint = endpoint.map_err(|error| usage(error.to_string()))?;
    let endpoint = endpoint
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let channel = runtime.block_on(async {
        loop {
            match endpoint.connect().await {
                Ok(channel) => return Ok(channel),
                Err(error) if deadline.passed() => return Err(usage(error.to_string())),
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    })?;
    let client = tonic::client::Grpc::new(channel)
        .max_decoding_message_size(MOST_BYTES)
        .max_encoding_message_size(MOST_BYTES);
    let peer = format!("peer {theirs}");
    let (counts, events) = (Counts::default(), Vec::new());
    Ok(Rpc { runtime, client, shared, peer, next_key: 1, writes: 0, events, counts })
}

/// The same host at the next port, where both ends are on one host.
pub(crate) fn next_port(address: &str) -> Result<String> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let next = port.parse::<u16>().ok().and_then(|port| port.checked_add(1));
    next.map(|port| format!("{host}:{port}"))
        .ok_or_else(|| Error::Usage(format!("{address} is not host:port")))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Rpc {
    fn call(&mut self, access: Access) -> Result<Answer> {
        let Self { runtime, client, .. } = self;
        let answer = runtime.block_on(async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = http::uri::PathAndQuery::from_static("/rtensor.Tensors/Access");
            client.unary(Request::new(access), path, ProstCodec::<Access, Answer>::default()).await
        });
        self.counts.messages += 1;
        answer.map(Response::into_inner).map_err(|status| Error::PeerLost {
            peer: self.peer.clone(),
            waiting_for: "calling it".to_owned(),
            why: status.to_string(),
        })
    }

    fn put(&mut self, payload: tonic::codegen::Bytes, to: Address) -> Result<u64> {
        self.counts.work_requests += 1;
        self.call(Access { key: to.key, offset: to.offset, bytes: 0, payload, is_control: false })?;
        self.writes += 1;
        Ok(self.writes)
    }
}

impl Device for Rpc {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn form(&self) -> FlagForm {
        FlagForm::Tail
    }

    fn register(&mut self, region: &Region) -> Result<Region> {
        let region = region.with_key(self.next_key);
        self.next_key += 1;
        lock(&self.shared).own.insert(region.key(), region.clone());
        self.counts.registrations += 1;
        Ok(region)
    }

    fn release(&mut self, region: &Region) -> Result<()> {
        lock(&self.shared).own.remove(&region.key());
        Ok(())
    }

    fn write(&mut self, from: &Part, to: Address) -> Result<u64> {
        self.counts.moved_bytes += from.size_bytes();
        self.counts.copied_bytes += from.size_bytes();
        self.put(tonic::codegen::Bytes::copy_from_slice(from.bytes()), to)
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        self.put(tonic::codegen::Bytes::copy_from_slice(&value.to_ne_bytes()), to)
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.counts.work_requests += 1;
        let payload = tonic::codegen::Bytes::new();
        let bytes = into.size_bytes();
        let answer =
            self.call(Access { key: from.key, offset: from.offset, bytes, payload, is_control: false })?;
        into.place(&answer.payload)?;
        self.counts.moved_bytes += bytes;
        self.events.push(Event::Read(work));
        Ok(())
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        events.append(&mut self.events);
        Ok(())
    }

    fn sent(&self) -> u64 {
        self.writes
    }

    fn check_peer(&mut self) -> Result<()> {
        Ok(())
    }

    fn send_control(&mut self, bytes: &[u8]) -> Result<()> {
        let payload = tonic::codegen::Bytes::copy_from_slice(bytes);
        self.call(Access { payload, is_control: true, ..Access::default() }).map(|_| ())
    }

    fn receive_control(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(lock(&self.shared).controls.pop_front())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// The service.
#[derive(Clone)]
struct Tensors(Arc<Mutex<Shared>>);

impl Tensors {
    fn access(&self, access: Access) -> std::result::Result<Answer, Status> {
        let mut shared = lock(&self.0);
        if access.is_control {
            shared.controls.push_back(access.payload.to_vec());
            return Ok(Answer::default());
        }
        let region = shared.own.get(&access.key).cloned();
        drop(shared);
        let refused = |error: Error| Status::out_of_range(error.to_string());
        let region = region.ok_or_else(|| Status::not_found(format!("there is no memory {}", access.key)))?;
        if access.bytes > 0 {
            let part = region.part(access.offset, access.bytes).map_err(refused)?;
            return Ok(Answer { payload: tonic::codegen::Bytes::copy_from_slice(part.bytes()) });
        }
        let part = region.part(access.offset, access.payload.len() as u64).map_err(refused)?;
        part.place(&access.payload).map_err(refused)?;
        Ok(Answer::default())
    }
}

impl NamedService for Tensors {
    const NAME: &'static str = "rtensor.Tensors";
}

impl UnaryService<Access> for Tensors {
    type Response = Answer;
    type Future = Ready<std::result::Result<Response<Answer>, Status>>;

    fn call(&mut self, request: Request<Access>) -> Self::Future {
        ready(self.access(request.into_inner()).map(Response::new))
    }
}

impl Service<http::Request<Body>> for Tensors {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<Answer, Access>::default();
            let grpc = Grpc::new(codec).apply_max_message_size_config(Some(MOST_BYTES), Some(MOST_BYTES));
            let mut grpc = grpc;
            Ok(grpc.unary(method, request).await)
        })
    }
}
