//! What not to do, for comparison: a server as BytePS's. It keeps one buffer for a key, copies the first contribution of a
//! round into it, adds the others as they come, and says that it has one before it is summed; it answers a pull with
//! what the buffer holds once all of a round have come. Requests bear no round.
//!
//! Source: bytedance/byteps, server/server.cc.

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Failure;
use crate::delays::Sums;
use crate::values::{Input, write};

const PUSH: u8 = 1;
const PULL: u8 = 2;

/// The one key of the server.
#[derive(Debug, Default)]
struct Key {
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sum: Vec<f32>,
    n_pushed: usize,
    /// Who has pulled since the round was finished.
    has_pulled: Vec<bool>,
    is_finished: bool,
}

/// Listens, and serves in threads of its own until the process ends or all have gone; the port.
pub(crate) fn serve(address: IpAddr, n_workers: usize) -> Result<u16, Failure> {
    let listener = TcpListener::bind((address, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        let key = Key::default();
        key.lock().has_pulled = vec![false; n_workers];
        std::thread::scope(|scope| {
            for stream in listener.incoming().take(n_workers).map_while(Result::ok) {
                let key = &key;
                scope.spawn(move || key.attend(stream));
            }
        });
    });
    Ok(port)
}

impl Key {
    /// Serves one worker until it goes.
    fn attend(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut requests = BufReader::new(stream.try_clone()?);
        let mut head = [0; 8];
        requests.read_exact(&mut head)?;
        let [worker, elements] = words(&head);
        let mut bytes = vec![0; elements * size_of::<f32>()];
        let mut request = [0];
        loop {
            requests.read_exact(&mut request)?;
            if request == [PUSH] {
                requests.read_exact(&mut bytes)?;
                stream.write_all(&[PUSH])?;
                self.push(&floats(&bytes));
            } else {
                write(self.pull(worker).into_iter(), &mut bytes);
                stream.write_all(&bytes)?;
            }
        }
    }

    fn push(&self, contribution: &[f32]) {
        let mut state = self.lock();
        if state.n_pushed == 0 {
            state.sum = contribution.to_vec();
        } else {
            state.sum.iter_mut().zip(contribution).for_each(|(sum, value)| *sum += value);
        }
        state.n_pushed += 1;
        if state.n_pushed == state.has_pulled.len() {
            state.n_pushed = 0;
            state.is_finished = true;
            drop(state);
            self.finished.notify_all();
        }
    }

    fn pull(&self, worker: usize) -> Vec<f32> {
        let may_not = |state: &mut State| !state.is_finished || state.has_pulled[worker];
        let state = self.finished.wait_while(self.lock(), may_not);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.has_pulled[worker] = true;
        if state.has_pulled.iter().all(|has| *has) {
            state.has_pulled.fill(false);
            state.is_finished = false;
        }
        let sum = state.sum.clone();
        drop(state);
        self.finished.notify_all();
        sum
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker of such a server.
#[derive(Debug)]
pub(crate) struct Worker {
    stream: TcpStream,
    worker: usize,
    n_workers: usize,
    elements: usize,
}

impl Worker {
    /// Connects to the server.
    pub(crate) fn connect(
        server: SocketAddr,
        worker: usize,
        n_workers: usize,
        elements: usize,
    ) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let head = [u32::try_from(worker)?, u32::try_from(elements)?];
        stream.write_all(head.map(u32::to_le_bytes).as_flattened())?;
        Ok(Self { stream, worker, n_workers, elements })
    }
}

impl Sums for Worker {
    fn worker(&self) -> usize {
        self.worker
    }

    fn n_workers(&self) -> usize {
        self.n_workers
    }

    fn elements(&self) -> usize {
        self.elements
    }

    fn push(&mut self, input: Input) -> Result<(), Failure> {
        let mut bytes = vec![0; 1 + self.elements * size_of::<f32>()];
        bytes[0] = PUSH;
        write(input.contribution(self.worker, self.elements), &mut bytes[1..]);
        self.stream.write_all(&bytes)?;
        let mut taken = [0];
        Ok(self.stream.read_exact(&mut taken)?)
    }

    fn pull(&mut self) -> Result<Vec<u8>, Failure> {
        self.stream.write_all(&[PULL])?;
        let mut sum = vec![0; self.elements * size_of::<f32>()];
        self.stream.read_exact(&mut sum)?;
        Ok(sum)
    }
}

fn words(head: &[u8; 8]) -> [usize; 2] {
    let [a, b, c, d, rest @ ..] = *head;
    [[a, b, c, d], rest].map(|word| u32::from_le_bytes(word) as usize)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks().0;
    words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
}
