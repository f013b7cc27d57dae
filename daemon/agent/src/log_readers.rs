//! Reads logs on threads beside the reader of segments: a file system that does not answer, as NFS whose server is gone,
//! keeps the thread that asks it, and all processes of the host must be watched meanwhile.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::log_file::{LogFile, Read};

/// Threads that wait for file systems at most; then no more logs are read until one comes back.
const MAX_AWAY: usize = 64;
/// Those of them that wait for logs of one user: a file system of his own (FUSE) may never answer.
const MAX_AWAY_PER_USER: usize = 8;

/// The file of a log, and what was read of it.
pub(super) type Answer = (LogFile, io::Result<Read>);

/// A log that no thread reads now.
#[derive(Debug)]
pub(super) struct Unread {
    /// Given back, as it was.
    pub(super) file: LogFile,
    /// Why.
    pub(super) error: io::Error,
}

impl Unread {
    fn new(file: LogFile, error: io::Error) -> Box<Self> {
        Box::new(Self { file, error })
    }
}

/// The threads. One reads as long as it comes back at once; one that does not is left to its log.
#[derive(Debug, Default)]
pub(super) struct LogReaders(RefCell<Vec<Reader>>);

#[derive(Debug)]
struct Reader {
    /// What it is to read. Closed: it ends.
    files: Sender<(LogFile, u64, Sender<Answer>)>,
    /// Something each time that it has come back.
    back: Receiver<()>,
    is_back: bool,
    /// Whose log it has, or had last.
    user: u32,
}

impl LogReaders {
    /// Lets a thread read what was added to a file, at most so many bytes.
    ///
    /// # Errors
    /// All threads wait, or none can be started.
    pub(super) fn read(&self, file: LogFile, max_bytes: u64) -> Result<Receiver<Answer>, Box<Unread>> {
        let mut readers = self.0.borrow_mut();
        for reader in readers.iter_mut() {
            reader.is_back |= reader.back.try_recv().is_ok();
        }
        let user = file.owner();
        let of_user = readers.iter().filter(|reader| !reader.is_back && reader.user == user).count();
        if of_user >= MAX_AWAY_PER_USER {
            let error = format!("the file systems of {of_user} other logs of user {user} do not answer");
            return Err(Unread::new(file, io::Error::other(error)));
        }
        let free = readers.iter().position(|reader| reader.is_back);
        let at = match free {
            Some(at) => at,
            None if readers.len() >= MAX_AWAY => {
                return Err(Unread::new(
                    file,
                    io::Error::other("the file systems of other logs do not answer"),
                ));
            }
            None => match Reader::start() {
                Ok(reader) => {
                    readers.push(reader);
                    readers.len() - 1
                }
                Err(error) => return Err(Unread::new(file, error)),
            },
        };
        let (answer, receiver) = mpsc::channel();
        (readers[at].is_back, readers[at].user) = (false, user);
        match readers[at].files.send((file, max_bytes, answer)) {
            Ok(()) => Ok(receiver),
            Err(mpsc::SendError((file, ..))) => {
                readers.remove(at);
                Err(Unread::new(file, io::Error::other("a thread that reads logs has ended")))
            }
        }
    }
}

impl Reader {
    fn start() -> io::Result<Self> {
        let (files, wanted) = mpsc::channel::<(LogFile, u64, Sender<Answer>)>();
        let (came_back, back) = mpsc::channel();
        thread::Builder::new().name("log reader".to_owned()).spawn(move || {
            for (mut file, max_bytes, answer) in wanted {
                let read = file.read(max_bytes);
                // Before the answer: who has it may ask for the next at once.
                let _ = came_back.send(());
                let _ = answer.send((file, read));
            }
        })?;
        Ok(Self { files, back, is_back: true, user: 0 })
    }
}
