//! Connects the two ends: the receiver listens and tells the sender where, over the socket that the sender has called on.
//!
//! Neither end waits. The first byte says whether a handle follows, or the words of why the receiver has none.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use nccl_net::HANDLE_BYTES;

use crate::error::{Error, Result};
use crate::transport::plugin::network::{Context, End, Handle};
use crate::transport::plugin::staging::Staging;
use crate::transport::{Description, Fault};

/// Bytes of what the receiver tells.
const TOLD_BYTES: usize = 1 + HANDLE_BYTES;
/// A handle follows.
const LISTENS: u8 = 1;
/// Words follow, filled up with zeros.
const FAILED: u8 = 2;

/// Looks without news after which the socket is asked whether the other end is still there: a look costs less than that.
const LOOKS_PER_QUESTION: u32 = 256;

/// What both ends have beside the network's connection: the socket, by which each knows that the other lives.
#[derive(Debug)]
pub(super) struct Companion {
    sockets: Vec<TcpStream>,
    /// Which device of the network.
    device: usize,
    context: Arc<Context>,
    looks: u32,
}

/// The sending end on its way.
#[derive(Debug)]
pub(super) struct Calling {
    told: [u8; TOLD_BYTES],
    read: usize,
    handle: Option<Handle>,
}

/// The receiving end on its way.
#[derive(Debug)]
pub(super) struct Taking {
    told: [u8; TOLD_BYTES],
    written: usize,
    /// Who listens, until somebody has called.
    listening: std::result::Result<Option<End>, Error>,
}

impl Companion {
    pub(super) fn new(sockets: Vec<TcpStream>, device: usize, context: Arc<Context>) -> Self {
        Self { sockets, device, context, looks: 0 }
    }

    /// Now and then, whether the other end is gone. It never writes after the beginning.
    pub(super) fn look(&mut self) -> std::result::Result<(), Fault> {
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS_PER_QUESTION) {
            return Ok(());
        }
        if self.is_alone() { Err(Fault::Closed) } else { Ok(()) }
    }

    /// Whether the other end is gone.
    fn is_alone(&mut self) -> bool {
        match self.sockets.first().map(|socket| socket.peek(&mut [0])) {
            Some(Ok(count)) => count == 0,
            Some(Err(error)) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            None => true,
        }
    }

    /// What an error of the network is: where the other end is gone, that it is gone.
    pub(super) fn fault(&mut self, error: Error) -> Fault {
        if self.is_alone() { Fault::Closed } else { Fault::Broken(error) }
    }

    /// The first of the connection's sockets.
    fn socket(&mut self) -> std::result::Result<&mut TcpStream, Fault> {
        self.sockets.first_mut().ok_or(Fault::Closed)
    }

    pub(super) fn describe(&self) -> Description {
        let network = self.context.network();
        let device = network.devices().get(self.device).map_or("", |device| device.name.as_str());
        Description::Plugin { network: network.name().to_owned(), device: device.to_owned() }
    }
}

impl Calling {
    pub(super) fn new() -> Self {
        Self { told: [0; TOLD_BYTES], read: 0, handle: None }
    }

    /// Goes on; the slots once the connection is there.
    pub(super) fn go_on(&mut self, with: &mut Companion) -> std::result::Result<Option<Staging>, Fault> {
        while self.read < TOLD_BYTES {
            match with.socket()?.read(self.told.get_mut(self.read..).unwrap_or(&mut [])) {
                Ok(0) => return Err(Fault::Closed),
                Ok(count) => self.read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Fault::Closed),
            }
        }
        if self.handle.is_none() {
            self.handle = Some(handle(&self.told).map_err(Fault::Broken)?);
        }
        let Some(handle) = &mut self.handle else { return Ok(None) };
        let end = with.context.connect(with.device, handle).map_err(|error| with.fault(error))?;
        let Some(end) = end else { return with.look().map(|()| None) };
        Staging::new(end).map(Some).map_err(|error| with.fault(error))
    }
}

fn handle(told: &[u8; TOLD_BYTES]) -> Result<Handle> {
    let (first, rest) = told.split_first().unwrap_or((&0, &[]));
    match (*first, <[u8; HANDLE_BYTES]>::try_from(rest)) {
        (LISTENS, Ok(bytes)) => Ok(Handle(bytes)),
        (FAILED, Ok(bytes)) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            let words = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
            Err(Error::Remote(format!("the other end cannot listen: {words}")))
        }
        _ => Err(Error::Internal("the other end does not speak of a network plugin".to_owned())),
    }
}

impl Taking {
    /// Begins to listen. An error is told to the sender, and kept for this end.
    pub(super) fn new(with: &Companion) -> Self {
        let mut told = [0; TOLD_BYTES];
        let listening = match with.context.listen(with.device) {
            Ok((end, handle)) => {
                told[0] = LISTENS;
                told[1..].copy_from_slice(&handle.0);
                Ok(Some(end))
            }
            Err(error) => {
                told[0] = FAILED;
                let text = error.to_string();
                let cut = text.floor_char_boundary(HANDLE_BYTES);
                told[1..=cut].copy_from_slice(&text.as_bytes()[..cut]);
                Err(error)
            }
        };
        Self { told, written: 0, listening }
    }

    /// Goes on; the slots once the connection is there.
    pub(super) fn go_on(&mut self, with: &mut Companion) -> std::result::Result<Option<Staging>, Fault> {
        while self.written < TOLD_BYTES {
            match with.socket()?.write(self.told.get(self.written..).unwrap_or(&[])) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Fault::Closed),
            }
        }
        let listening = self.listening.as_ref().map_err(|error| Fault::Broken(error.clone()))?;
        let accepted = match listening {
            Some(end) => end.accept().map_err(|error| with.fault(error))?,
            None => None,
        };
        let Some(end) = accepted else { return with.look().map(|()| None) };
        // Nobody else is to call.
        self.listening = Ok(None);
        Staging::new(end).map(Some).map_err(|error| with.fault(error))
    }
}
