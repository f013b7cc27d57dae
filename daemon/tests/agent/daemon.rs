//! A daemon that keeps what agents send, and answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use prost::Message as _;
use ringscope_wire::batch::{Batch, Communicator, Counters, IngestReply, Inquiry, Process, Wish};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Long for a machine under load; no test waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Take,
    ResendAll,
    Refuse,
    /// As a daemon has answered, one after the other, the last one for ever: see [`FakeDaemon::replay`].
    Recorded,
    /// It reads batches of another version.
    OtherVersion,
    /// A proxy before the daemon does not let it through.
    Proxy,
    Away,
}

struct Shared {
    answer: Mutex<Answer>,
    recorded: Mutex<VecDeque<IngestReply>>,
    wishes: Mutex<Vec<Wish>>,
    raised: Mutex<Vec<String>>,
    inquiries: Mutex<Vec<Inquiry>>,
    counts_wait_ms: AtomicU32,
    received: mpsc::Sender<(Answer, Batch)>,
}

pub struct FakeDaemon {
    pub url: String,
    shared: Arc<Shared>,
    received: mpsc::Receiver<(Answer, Batch)>,
    /// Every batch seen by the test, in the order of arrival, with the answer it got.
    pub batches: Vec<(Answer, Batch)>,
    /// What the batches taken say, merged.
    pub processes: BTreeMap<String, Process>,
    _server: JoinSet<()>,
}

impl FakeDaemon {
    pub async fn start(answer: Answer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let (sender, received) = mpsc::channel(10_000);
        let shared = Arc::new(Shared {
            answer: Mutex::new(answer),
            recorded: Mutex::default(),
            wishes: Mutex::default(),
            raised: Mutex::default(),
            inquiries: Mutex::default(),
            counts_wait_ms: AtomicU32::new(0),
            received: sender,
        });
        // As the daemon, which takes longer bodies than axum does unless told.
        let routes = axum::Router::new().route("/api/v1/ingest", post(ingest));
        let app = routes.layer(DefaultBodyLimit::disable()).with_state(shared.clone());
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.expect("serve") });
        Self { url, shared, received, batches: Vec::new(), processes: BTreeMap::new(), _server: server }
    }

    pub fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().expect("lock") = answer;
    }

    /// Answers so from now on.
    pub fn replay(&self, recorded: &[IngestReply]) {
        *self.shared.recorded.lock().expect("lock") = recorded.iter().cloned().collect();
        self.answer(Answer::Recorded);
    }

    /// What every answer wishes for from now on.
    pub fn wish(&self, wishes: Vec<Wish>) {
        *self.shared.wishes.lock().expect("lock") = wishes;
    }

    /// The jobs that every answer raises from now on.
    pub fn raise(&self, jobs: &[&str]) {
        *self.shared.raised.lock().expect("lock") = jobs.iter().map(ToString::to_string).collect();
    }

    /// How long every answer lets counts wait from now on.
    pub fn let_counts_wait(&self, wait_ms: u32) {
        self.shared.counts_wait_ms.store(wait_ms, Ordering::Relaxed);
    }

    /// What every answer asks from now on.
    pub fn inquire(&self, inquiries: Vec<Inquiry>) {
        *self.shared.inquiries.lock().expect("lock") = inquiries;
    }

    /// Waits for the next batch.
    pub async fn next(&mut self) -> (Answer, Batch) {
        let next = tokio::time::timeout(PATIENCE, self.received.recv()).await;
        let (answer, batch) = next.expect("no batch came").expect("the server runs");
        if matches!(answer, Answer::Take | Answer::ResendAll | Answer::Recorded) {
            batch.processes.iter().for_each(|process| self.merge(process));
        }
        self.batches.push((answer, batch.clone()));
        (answer, batch)
    }

    /// Waits until what was taken is as wanted.
    pub async fn until(&mut self, wanted: impl Fn(&BTreeMap<String, Process>) -> bool) {
        let patience = tokio::time::Instant::now() + PATIENCE;
        while !wanted(&self.processes) {
            assert!(tokio::time::Instant::now() < patience, "it never came to that: {:#?}", self.processes);
            self.next().await;
        }
    }

    /// Waits for a batch with this answer that is as wanted.
    pub async fn until_batch(&mut self, answer: Answer, wanted: impl Fn(&Batch) -> bool) -> Batch {
        let patience = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < patience, "no such batch came");
            let (answered, batch) = self.next().await;
            if answered == answer && wanted(&batch) {
                return batch;
            }
        }
    }

    pub fn process(&self, pid: u32) -> &Process {
        &self.processes[&key(pid)]
    }

    pub fn communicator(&self, pid: u32, local_id: u64) -> &Communicator {
        let all = &self.process(pid).communicators;
        all.iter().find(|communicator| communicator.local_id == local_id).expect("communicator")
    }

    fn merge(&mut self, new: &Process) {
        let old = self.processes.entry(new.key.clone()).or_default();
        let mut merged = new.clone();
        merged.identity = merged.identity.or(old.identity.take());
        let known = |c: &&Communicator| !new.communicators.iter().any(|n| n.local_id == c.local_id);
        merged.communicators.extend(old.communicators.iter().filter(known).cloned());
        let counted = |c: &&Counters| {
            !new.counters.iter().any(|n| (n.local_id, n.primitive) == (c.local_id, c.primitive))
        };
        merged.counters.extend(old.counters.iter().filter(counted).copied());
        if merged.links.is_empty() {
            merged.links.clone_from(&old.links);
        }
        if merged.last_completed.is_empty() {
            merged.last_completed.clone_from(&old.last_completed);
        }
        *old = merged;
    }
}

pub fn key(pid: u32) -> String {
    format!("node1/{pid}/77")
}

async fn ingest(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = match headers.get(header::CONTENT_ENCODING) {
        Some(packing) => {
            assert_eq!(packing, "zstd");
            zstd::decode_all(&*body).expect("agents pack well")
        }
        None => body.to_vec(),
    };
    let batch = Batch::decode_checked(&body).expect("agents send good batches");
    let answer = *shared.answer.lock().expect("lock");
    let seq_number = batch.seq_number;
    let wishes = shared.wishes.lock().expect("lock").clone();
    let inquiries = shared.inquiries.lock().expect("lock").clone();
    let raised = shared.raised.lock().expect("lock").clone();
    shared.received.send((answer, batch)).await.expect("the test runs");
    match answer {
        Answer::Take | Answer::ResendAll => {
            let resend_all = answer == Answer::ResendAll;
            let counts_wait_ms = shared.counts_wait_ms.load(Ordering::Relaxed);
            taken(&IngestReply { seq_number, resend_all, wishes, inquiries, raised, counts_wait_ms })
        }
        Answer::Recorded => {
            let mut recorded = shared.recorded.lock().expect("lock");
            let reply = recorded.pop_front().expect("an answer");
            if recorded.is_empty() {
                recorded.push_back(reply.clone());
            }
            taken(&reply)
        }
        Answer::Refuse => {
            let kind = [(header::CONTENT_TYPE, "application/problem+json")];
            (StatusCode::BAD_REQUEST, kind, "{}").into_response()
        }
        Answer::OtherVersion => {
            let kind = [(header::CONTENT_TYPE, "application/problem+json")];
            (StatusCode::UNPROCESSABLE_ENTITY, kind, REFUSAL).into_response()
        }
        Answer::Proxy => (StatusCode::PAYLOAD_TOO_LARGE, "<html>").into_response(),
        Answer::Away => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn taken(reply: &IngestReply) -> Response {
    ([(header::CONTENT_TYPE, "application/x-protobuf")], reply.encode_to_vec()).into_response()
}

/// What a daemon of the first release says to a batch of a version that it does not read.
const REFUSAL: &str = include_str!("../../../fixtures/upgrade/first-release.refusal.json");
