//! Accepts connections and serves them, within bounds: who sends or reads too slowly is cut off, so that the others are
//! served. axum's own loop has no such bounds.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ringscope_tls::Own;
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a client may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until the head of a request is there, from the accept or from the answer before: so long a connection may idle. A
    /// TLS handshake has the same time, before that.
    pub head: Duration,
    /// For how long a client that is sent something may take none of it.
    pub stalled: Duration,
    /// Open connections; more wait unaccepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: HEAD_TIMEOUT, stalled: STALLED_TIMEOUT, connections: CONNECTIONS_MAX }
    }
}

/// Serves `router` on `listener` until `stop`, by TLS if there is a certificate; then finishes what is in flight. Dropped,
/// it cuts that off.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Own>>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    // Connections have it from the listener.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&listener, RECEIVE_BYTES_MAX);
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    while let Some((stream, peer, permit)) = stop.run_until_cancelled(accept(&listener, &room)).await {
        while connections.try_join_next().is_some() {}
        prepare(&stream, limits);
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        let line = Line::of(&stream, peer, tls.is_some());
        connections.spawn(async move {
            let _permit = permit;
            match tls {
                None => converse(stream, line, router, limits, stop).await,
                Some(tls) => {
                    // Ten kilobytes while it lasts, which no connection is to keep.
                    let shaking = Box::pin(tls.accept(stream, limits.head));
                    if let Some(Some(stream)) = stop.run_until_cancelled(shaking).await {
                        converse(stream, line, router, limits, stop).await;
                    }
                }
            }
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, permit),
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Whether it is only this client that has gone.
fn is_of_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn prepare(stream: &TcpStream, limits: Limits) {
    // Answers are small and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let stalled_ms = u32::try_from(limits.stalled.as_millis()).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, stalled_ms);
}

/// The connection that a request came by: an extension of the request.
#[derive(Clone)]
pub(super) struct Line {
    /// Who is at the other end.
    pub(super) peer: SocketAddr,
    /// Whether it is one of TLS.
    pub(super) is_tls: bool,
    /// `None`: there was no file descriptor left for it.
    socket: Option<Arc<OwnedFd>>,
}

impl Line {
    fn of(stream: &TcpStream, peer: SocketAddr, is_tls: bool) -> Self {
        Self { peer, is_tls, socket: stream.as_fd().try_clone_to_owned().ok().map(Arc::new) }
    }

    /// Whether the client has closed it, also while what it has sent before waits to be read, which nobody else sees.
    pub(super) fn is_closed(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut sockets = [PollFd::new(socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut sockets, Some(&at_once)).is_ok_and(|n| n > 0)
    }
}

async fn converse<S>(stream: S, line: Line, router: Router, limits: Limits, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(line.clone());
        router.call(request)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = match stop.run_until_cancelled(connection.as_mut()).await {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// A head is one packet; agents, pages and Prometheus open a connection again if they were silent for longer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// As long as a request may take.
const STALLED_TIMEOUT: Duration = Duration::from_secs(30);
/// The agents of some thousands of hosts, each with one, and the pages of everyone on call.
const CONNECTIONS_MAX: usize = 16_384;
/// What the kernel keeps of what a client has sent and nobody has read: else it would be six MiB for each that sends more
/// than is taken. A network of 1 ms still carries 128 MB/s.
const RECEIVE_BYTES_MAX: usize = 128 << 10;
/// What a connection may hold of a request that nobody has asked for yet: the largest head that is answered with words.
const BUFFER_BYTES_MAX: usize = 40 << 10;
/// The process has no file descriptor left, for example: others close theirs.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures::stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SHORT: Limits =
        Limits { head: Duration::from_millis(200), stalled: Duration::from_millis(200), connections: 4 };
    /// Far more than any of it takes.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Serves while `test` runs, and tells whether it ended by itself after that.
    async fn serving(router: Router, limits: Limits, test: impl AsyncFnOnce(SocketAddr)) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let test = async {
            test(address).await;
            stop.cancel();
        };
        let both = async { tokio::join!(serve(listener, None, router, limits, stop.clone()), test) };
        tokio::time::timeout(PATIENCE, both).await.expect("it ends");
    }

    fn hello() -> Router {
        Router::new().route("/", get(async || "hello"))
    }

    async fn connect(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// What comes until the daemon closes.
    async fn rest(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        String::from_utf8(text).unwrap()
    }

    const WHOLE: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    const HALF: &str = "GET / HTTP/1.1\r\nho";

    #[tokio::test]
    async fn half_a_head_is_cut_off_and_others_are_served_meanwhile() {
        let long = Limits { head: PATIENCE, ..SHORT };
        serving(hello(), long, async |address| {
            let slow = connect(address, HALF).await;
            for _ in 0..10 {
                assert!(rest(connect(address, WHOLE).await).await.ends_with("hello"));
            }
            drop(slow);
        })
        .await;
        serving(hello(), SHORT, async |address| {
            let slow = connect(address, HALF).await;
            let silent = connect(address, "").await;
            let idle = connect(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
            assert!(!rest(slow).await.contains("hello"));
            assert_eq!(rest(silent).await, "");
            assert!(rest(idle).await.ends_with("hello"), "answered, and closed when nothing more came");
        })
        .await;
    }

    #[tokio::test]
    async fn more_connections_than_allowed_wait_for_room() {
        serving(hello(), SHORT, async |address| {
            let mut slow = Vec::new();
            for _ in 0..SHORT.connections {
                slow.push(connect(address, HALF).await);
            }
            assert!(
                rest(connect(address, WHOLE).await).await.ends_with("hello"),
                "when the slow ones are gone"
            );
        })
        .await;
    }

    #[tokio::test]
    async fn who_takes_nothing_of_the_answer_is_cut_off() {
        /// Counts the answers that are being sent.
        struct Sending(Arc<AtomicUsize>);
        impl Drop for Sending {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let sending = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sending);
        let endless = get(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let one = Sending(Arc::clone(&counted));
            let chunks = stream::repeat_with(move || {
                let _one = &one;
                Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'x'; 1 << 16]))
            });
            std::future::ready(Body::from_stream(chunks))
        });
        let n_sending = || sending.load(Ordering::SeqCst);
        let pause = || tokio::time::sleep(Duration::from_millis(5));
        serving(Router::new().route("/", endless), SHORT, async |address| {
            let deaf = connect(address, WHOLE).await;
            while n_sending() == 0 {
                pause().await;
            }
            while n_sending() > 0 {
                pause().await;
            }
            drop(deaf);
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_in_flight_is_finished() {
        let (arrived, go) = (CancellationToken::new(), CancellationToken::new());
        let (tell, wait) = (arrived.clone(), go.clone());
        let slow = get(move || {
            tell.cancel();
            wait.clone().cancelled_owned()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = serve(listener, None, Router::new().route("/", slow), SHORT, stop.clone());
        let client = async {
            let asked = connect(address, WHOLE).await;
            arrived.cancelled().await;
            stop.cancel();
            while TcpStream::connect(address).await.is_ok() {
                tokio::task::yield_now().await;
            }
            go.cancel();
            rest(asked).await
        };
        let both = async { tokio::join!(serving, client).1 };
        let answer = tokio::time::timeout(PATIENCE, both).await.expect("it ends");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
