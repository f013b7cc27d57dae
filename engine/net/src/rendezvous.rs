//! How two ends meet: who receives listens on a socket, who sends calls there, each says what it has, and each knows that the
//! other is ready before anything is written. No call waits: each goes as far as it can.
//!
//! The caller says hello; who was called makes as many queue pairs, connects them and answers with its hello and that it is ready;
//! the caller connects its own and says that it is ready. Where who was called cannot, it answers why.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nccl_net::MAX_REQUESTS;
use rsnet_connections::{About, Place};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use verbs::{Buffer, CompletionQueue, Gid, LinkLayer, Path, QueuePair, Room};

use crate::area;
use crate::config::settings;
use crate::device::Device;
use crate::failure::{Failure, Result};
use crate::interfaces;
use crate::link::{Link, host, own};
use crate::log;
use crate::wire::{HELLO_BYTES, Handle, Hello, SECRET_BYTES, shows};

/// Work requests of each queue pair: for each request in flight two writes, or a write that tells of room.
const SENDS: u32 = 128;
/// Receives: those of all requests in flight, and as many that are done and not yet looked at.
const RECEIVES: u32 = 64;
const _: () = assert!(MAX_REQUESTS == 32);
/// Completions of flushes, beside those of the queue pairs.
const FLUSHES: u32 = 64;
/// Bytes of what tells of room.
pub(crate) const ROOM_BYTES: usize = 32;
/// The same, as devices are asked for it.
const INLINE_BYTES: u32 = 32;
/// Each tells in a cache line of its own.
pub(crate) const ROOM_STRIDE: usize = 64;
/// Reads in flight that an end answers.
const READS: u8 = 16;
/// What an end says that can go on.
const READY: u8 = 1;
/// What it says before the words of why it cannot.
const CANNOT: u8 = 2;
/// Bytes of such words.
const WORDS_BYTES: usize = 240;

/// What a communicator asks of its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    /// The communicator's hash; 0 where the interface does not tell it.
    pub(crate) comm_hash: u64,
    /// The traffic class that it asks for.
    pub(crate) traffic_class: Option<u8>,
}

/// Who receives, before somebody has called.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
    secret: [u8; SECRET_BYTES],
    device: Arc<Device>,
    wishes: Wishes,
    callers: Vec<Caller>,
}

/// Somebody who has called: a stranger, until it has shown the secret.
#[derive(Debug)]
struct Caller {
    socket: TcpStream,
    hello: Box<[u8; HELLO_BYTES]>,
    read: usize,
    answer: Vec<u8>,
    written: usize,
    link: Option<Link>,
}

/// Who sends, on its way.
#[derive(Debug)]
pub(crate) struct Calling {
    socket: TcpStream,
    device: Arc<Device>,
    wishes: Wishes,
    is_connected: bool,
    ends: Option<Ends>,
    gid: Gid,
    rooms: Option<Buffer>,
    hello: Vec<u8>,
    written: usize,
    answer: Vec<u8>,
    link: Option<Link>,
}

#[derive(Debug)]
struct Ends {
    pairs: Vec<QueuePair>,
    queue: CompletionQueue,
}

/// Callers that are heard at once: one is wanted.
const MAX_CALLERS: usize = 8;

impl Listening {
    /// Listens, and by what it is found.
    pub(crate) fn new(device: &Arc<Device>, wishes: Wishes) -> Result<(Self, Handle)> {
        let interface = interfaces::chosen(&settings().interfaces)?;
        let refused =
            |error| Failure::system(format!("listen on {} ({}): {error}", interface.name, interface.address));
        let listener = TcpListener::bind(SocketAddr::new(interface.address, 0)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret)
            .map_err(|error| Failure::system(format!("no random number: {error}")))?;
        let (device, callers) = (Arc::clone(device), Vec::new());
        Ok((Self { listener, secret, device, wishes, callers }, Handle { address, secret }))
    }

    /// Goes on; the connection once it is there.
    pub(crate) fn accept(&mut self) -> Result<Option<Link>> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => self.callers.extend(Caller::new(socket)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => return Err(Failure::system(format!("take a call: {error}"))),
            }
        }
        let Self { secret, device, wishes, callers, .. } = self;
        let mut met = None;
        let mut failed = None;
        callers.retain_mut(|caller| match caller.go_on(secret, device, *wishes) {
            Ok(Step::Waits) => true,
            Ok(Step::Stranger) => false,
            Ok(Step::Met(link)) => {
                met = Some(*link);
                false
            }
            Err(failure) => {
                failed = Some(failure);
                false
            }
        });
        // Those that were heard first stay: the wanted one has said all at once.
        self.callers.truncate(MAX_CALLERS);
        failed.map_or(Ok(met), Err)
    }
}

enum Step {
    Waits,
    /// It has not shown the secret, or left.
    Stranger,
    Met(Box<Link>),
}

impl Caller {
    fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        let _ = socket.set_nodelay(true);
        let _ = stay_alive(&SockRef::from(&socket));
        let (hello, answer) = (Box::new([0; HELLO_BYTES]), Vec::new());
        Some(Self { socket, hello, read: 0, answer, written: 0, link: None })
    }

    fn go_on(&mut self, secret: &[u8; SECRET_BYTES], device: &Arc<Device>, wishes: Wishes) -> Result<Step> {
        if self.link.is_none() {
            match fill(&mut self.socket, &mut self.hello[..], &mut self.read) {
                Ok(true) => {}
                Ok(false) => return Ok(Step::Waits),
                Err(_) => return Ok(Step::Stranger),
            }
            if !shows(&self.hello, secret) {
                return Ok(Step::Stranger);
            }
            let peer = Hello::from_bytes(&self.hello).map_err(Failure::usage)?;
            match self.answer_to(peer, device, wishes) {
                Ok(link) => self.link = Some(link),
                Err(failure) => {
                    self.refuse(&failure);
                    return Err(failure);
                }
            }
            self.read = 0;
        }
        let gone = || Failure::remote("who called is gone before it was ready").at(&own(device));
        if !drain(&mut self.socket, &self.answer, &mut self.written).map_err(|_| gone())? {
            return Ok(Step::Waits);
        }
        let mut ready = [0];
        if !fill(&mut self.socket, &mut ready, &mut self.read).map_err(|_| gone())? {
            return Ok(Step::Waits);
        }
        Ok(self.link.take().map_or(Step::Waits, |link| Step::Met(Box::new(link))))
    }

    fn answer_to(&mut self, peer: Hello, device: &Arc<Device>, wishes: Wishes) -> Result<Link> {
        let shown = |failure: &Failure| area::show_refused(device, false, Some(&peer), failure);
        let gid = device.gid(settings()).inspect_err(shown)?;
        let mut ends = Ends::new(device, peer.queue_pairs.len().max(1)).inspect_err(shown)?;
        let splits = peer.splits;
        let (traffic_class, service_level) = (peer.traffic_class, peer.service_level);
        let hello = hello(device, &gid, &ends.pairs, splits, wishes)?;
        let hello = Hello { traffic_class, service_level, ..hello };
        let place = ends.connect(device, &gid, (&hello, &peer), wishes, false)?;
        self.answer = vec![READY];
        self.answer.extend(hello.to_bytes());
        let socket =
            self.socket.try_clone().map_err(|error| Failure::system(format!("keep the socket: {error}")))?;
        Ok(Link::new(Arc::clone(device), (ends.pairs, ends.queue), (socket, peer), splits, place))
    }

    /// Tells the caller why not, as far as it can be told at once.
    fn refuse(&mut self, failure: &Failure) {
        let mut words = vec![CANNOT];
        words.extend(failure.text.bytes().take(WORDS_BYTES));
        words.resize(1 + WORDS_BYTES, 0);
        let _ = self.socket.write(&words);
    }
}

impl Calling {
    /// Calls who listens.
    pub(crate) fn new(device: &Arc<Device>, handle: Handle, wishes: Wishes) -> Result<Self> {
        let shown = |failure: &Failure| area::show_refused(device, true, None, failure);
        let gid = device.gid(settings()).inspect_err(shown)?;
        let ends = Ends::new(device, settings().queue_pairs).inspect_err(shown)?;
        let rooms = device.buffer(MAX_REQUESTS * ROOM_STRIDE).inspect_err(shown)?;
        let mut hello = hello(device, &gid, &ends.pairs, settings().splits, wishes)?;
        hello.secret = handle.secret;
        hello.room = rooms.region().remote(0);
        let socket = call(handle.address)
            .map_err(|error| Failure::remote(format!("call {}: {error}", handle.address)).at(&own(device)))?;
        Ok(Self {
            socket,
            device: Arc::clone(device),
            wishes,
            is_connected: false,
            ends: Some(ends),
            gid,
            rooms: Some(rooms),
            hello: hello.to_bytes().to_vec(),
            written: 0,
            answer: Vec::new(),
            link: None,
        })
    }

    /// Goes on; the connection and where its rooms are told, once it is there.
    pub(crate) fn go_on(&mut self) -> Result<Option<(Link, Buffer)>> {
        let lost = |device: &Device, error: &std::io::Error| {
            Failure::remote(format!("who listens does not answer: {error}")).at(&own(device))
        };
        if !self.is_connected {
            if let Ok(Some(error)) = self.socket.take_error() {
                return Err(lost(&self.device, &error));
            }
            match self.socket.peer_addr() {
                Ok(_) => self.is_connected = true,
                Err(_) => return Ok(None),
            }
        }
        if self.link.is_none() {
            let sent = drain(&mut self.socket, &self.hello, &mut self.written);
            if !sent.map_err(|error| lost(&self.device, &error))? || !self.hear()? {
                return Ok(None);
            }
            self.link = Some(self.connect()?);
            self.hello = vec![READY];
            self.written = 0;
        }
        let sent = drain(&mut self.socket, &self.hello, &mut self.written);
        if !sent.map_err(|error| lost(&self.device, &error))? {
            return Ok(None);
        }
        Ok(self.link.take().zip(self.rooms.take()))
    }

    /// Reads the answer; whether all of it is there.
    fn hear(&mut self) -> Result<bool> {
        loop {
            let wanted = match self.answer.first() {
                None => 1,
                Some(&READY) => 1 + HELLO_BYTES,
                Some(_) => 1 + WORDS_BYTES,
            };
            if self.answer.len() >= wanted {
                break;
            }
            let mut bytes = [0; 1 + HELLO_BYTES];
            match self.socket.read(&mut bytes[..wanted - self.answer.len()]) {
                Ok(count @ 1..) => self.answer.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                _ => {
                    return Err(Failure::remote("who listens has closed the socket").at(&own(&self.device)));
                }
            }
        }
        if self.answer.first() == Some(&READY) {
            return Ok(true);
        }
        let words = String::from_utf8_lossy(&self.answer[1..]);
        let words = words.trim_end_matches('\0');
        Err(Failure::remote(format!("the other end cannot connect: {words}")).at(&own(&self.device)))
    }

    fn connect(&mut self) -> Result<Link> {
        let bytes: &[u8; HELLO_BYTES] =
            self.answer[1..].first_chunk().ok_or_else(|| Failure::internal("an answer without a hello"))?;
        let peer = Hello::from_bytes(bytes).map_err(Failure::usage)?;
        let mut ends = self.ends.take().ok_or_else(|| Failure::internal("connected twice"))?;
        let hello = hello(&self.device, &self.gid, &ends.pairs, settings().splits, self.wishes)?;
        let place = ends.connect(&self.device, &self.gid, (&hello, &peer), self.wishes, true)?;
        let socket =
            self.socket.try_clone().map_err(|error| Failure::system(format!("keep the socket: {error}")))?;
        let ends = (ends.pairs, ends.queue);
        Ok(Link::new(Arc::clone(&self.device), ends, (socket, peer), settings().splits, place))
    }
}

impl Ends {
    fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        let limit = |error: verbs::Error| {
            Failure::system(format!("{error} (queue pairs of a connection: {count})")).at(&own(device))
        };
        let completions = u32::try_from(count).unwrap_or(1) * (SENDS + RECEIVES) + FLUSHES;
        let queue = device.context.completion_queue(completions).map_err(limit)?;
        let pairs: verbs::Result<Vec<QueuePair>> = (0..count).map(|_| pair(device, &queue)).collect();
        Ok(Self { pairs: pairs.map_err(limit)?, queue })
    }

    /// Connects the queue pairs to the other end's, and shows them.
    fn connect(
        &mut self,
        device: &Device,
        gid: &Gid,
        (own_hello, peer): (&Hello, &Hello),
        wishes: Wishes,
        is_send: bool,
    ) -> Result<Option<Place>> {
        let mtu_bytes = own_hello.mtu_bytes.min(peer.mtu_bytes);
        let numbers = area::queue_pairs(&own_hello.queue_pairs, &peer.queue_pairs);
        let place = area::place(&About {
            is_send,
            device: device.context.name(),
            port: u32::from(device.port),
            gid_index: gid.index,
            gids: [gid.bytes, peer.gid],
            gid_kinds: [gid.kind.number(), peer.gid_kind],
            mtus_bytes: [own_hello.mtu_bytes, peer.mtu_bytes, mtu_bytes],
            traffic_class: u32::from(own_hello.traffic_class),
            service_level: u32::from(own_hello.service_level),
            comm_hash: wishes.comm_hash,
            remote_rank: peer.rank,
            remote_pid: peer.pid,
            remote_device: &peer.device,
            remote_port: u32::from(peer.port),
            remote_host: &peer.host,
            queue_pairs: &numbers,
        });
        let connected = check(device, gid, peer)
            .and_then(|()| self.connect_pairs(device, gid, (peer, mtu_bytes), own_hello))
            .inspect_err(|failure| place.iter().for_each(|place| place.fail(failure.words())));
        connected?;
        if own_hello.mtu_bytes != peer.mtu_bytes {
            log::info(&format!(
                "NET/ringscope : {} can {} bytes in a packet, {} can {}: {mtu_bytes} are used",
                own(device),
                own_hello.mtu_bytes,
                peer.shown(),
                peer.mtu_bytes
            ));
        }
        Ok(place)
    }

    fn connect_pairs(
        &mut self,
        device: &Device,
        gid: &Gid,
        (peer, mtu_bytes): (&Hello, u32),
        own_hello: &Hello,
    ) -> Result<()> {
        let is_ethernet = device.link_layer == LinkLayer::Ethernet;
        // Between InfiniBand subnets packets need the identifiers too.
        let is_global = is_ethernet || own_hello.needs_gid || gid.bytes[..8] != peer.gid[..8];
        let reads = device.reads.min(READS);
        for (pair, remote_number) in self.pairs.iter_mut().zip(&peer.queue_pairs) {
            pair.connect(&Path {
                port: device.port,
                gid: *gid,
                remote_gid: peer.gid,
                remote_lid: peer.lid,
                is_global,
                remote_number: *remote_number,
                mtu_bytes,
                traffic_class: own_hello.traffic_class,
                service_level: own_hello.service_level,
                timeout: settings().timeout,
                retries: settings().retries,
                reads,
            })
            .map_err(|error| {
                Failure::system(format!("connect to {}: {error}", peer.shown())).at(&own(device))
            })?;
        }
        Ok(())
    }
}

/// Two ends that can never understand each other: else they would find out by a time-out.
fn check(device: &Device, gid: &Gid, peer: &Hello) -> Result<()> {
    let is_ethernet = device.link_layer == LinkLayer::Ethernet;
    if is_ethernet != peer.is_ethernet {
        let kinds = if is_ethernet { "Ethernet here and InfiniBand" } else { "InfiniBand here and Ethernet" };
        return Err(Failure::usage(format!(
            "{kinds} at {}: name devices of one kind in NCCL_IB_HCA",
            peer.shown()
        ))
        .at(&own(device)));
    }
    let (here, there) = (gid.kind.number(), peer.gid_kind);
    if here != 0 && there != 0 && here != there {
        let name = |kind| {
            if kind == 2 {
                "RoCE v1"
            } else if kind == 3 {
                "RoCE v2"
            } else {
                "InfiniBand"
            }
        };
        return Err(Failure::usage(format!(
            "GID {} is of {}, that of {} of {}: set NCCL_IB_GID_INDEX or NCCL_IB_ROCE_VERSION_NUM so that both are alike",
            gid.index,
            name(here),
            peer.shown(),
            name(there)
        ))
        .at(&own(device)));
    }
    Ok(())
}

/// With room for what tells of room in the request itself, where the device has that.
fn pair(device: &Device, queue: &CompletionQueue) -> verbs::Result<QueuePair> {
    let with = |inline_bytes| {
        let room = Room { sends: SENDS, receives: RECEIVES, inline_bytes };
        device.domain.queue_pair(queue, queue, room)
    };
    let mut pair = with(INLINE_BYTES).or_else(|_| with(0))?;
    pair.prepare(device.port, settings().pkey_index)?;
    Ok(pair)
}

/// What this end says of itself. The traffic class is the environment's, as in NCCL, else the communicator's; who was called takes
/// the caller's.
fn hello(device: &Device, gid: &Gid, pairs: &[QueuePair], splits: bool, wishes: Wishes) -> Result<Hello> {
    let port = device.context.port(device.port)?;
    Ok(Hello {
        queue_pairs: pairs.iter().map(QueuePair::number).collect(),
        splits,
        traffic_class: settings().traffic_class.or(wishes.traffic_class).unwrap_or(0),
        service_level: settings().service_level.or(wishes.traffic_class).unwrap_or(0) & 0xf,
        needs_gid: port.needs_gid,
        gid: gid.bytes,
        gid_kind: gid.kind.number(),
        lid: port.lid,
        mtu_bytes: port.mtu_bytes,
        is_ethernet: device.link_layer == LinkLayer::Ethernet,
        pid: std::process::id(),
        rank: settings().global_rank,
        port: device.port,
        device: device.context.name().to_owned(),
        host: host(),
        ..Hello::default()
    })
}

/// A host that loses its power says nothing: within a minute the socket does.
fn stay_alive(socket: &Socket) -> std::io::Result<()> {
    let often = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    socket.set_tcp_keepalive(&often.with_retries(3))
}

/// Begins to connect.
fn call(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    stay_alive(&socket)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    Ok(socket.into())
}

/// Reads until `bytes` is full; whether it is.
fn fill(socket: &mut impl Read, bytes: &mut [u8], read: &mut usize) -> std::io::Result<bool> {
    while *read < bytes.len() {
        match socket.read(&mut bytes[*read..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => *read += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Writes until all is out; whether it is.
fn drain(socket: &mut impl Write, bytes: &[u8], written: &mut usize) -> std::io::Result<bool> {
    while *written < bytes.len() {
        match socket.write(&bytes[*written..]) {
            Ok(count) => *written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
