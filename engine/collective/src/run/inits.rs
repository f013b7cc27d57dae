//! The inits of a group. Each waits for the others, so each has a thread.
//!
//! All threads are there before the first init begins: where one cannot be had no init begins, and so none waits for ranks that
//! never come.

use std::sync::mpsc::{self, SyncSender};
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// A communicator's init. It is told whether it may begin, or why not.
pub(crate) type Init = Box<dyn FnOnce(Result<()>) -> Result<()> + Send>;

/// Those of a group.
#[derive(Default)]
pub(crate) struct Inits {
    /// The group's end waits for these.
    pub(super) blocking: Vec<Init>,
    /// And not for these, which deal with their own outcomes.
    pub(super) background: Vec<Init>,
}

/// A thread that waits for the init that it is to run.
struct Idle {
    init: SyncSender<Init>,
    thread: JoinHandle<Result<()>>,
}

impl Inits {
    /// Runs all, the last of those that block on this thread; their first error.
    pub(super) fn run(mut self) -> Result<()> {
        let last = self.blocking.pop();
        let count = self.background.len() + self.blocking.len();
        let mut idle = match (0..count).map(|_| Idle::start()).collect::<std::io::Result<Vec<_>>>() {
            Ok(idle) => idle.into_iter(),
            Err(error) => {
                let error = Error::no_thread(format_args!("{count} threads for a group's inits"), &error);
                self.blocking.extend(last);
                return Err(self.refuse(error));
            }
        };
        self.background.into_iter().zip(&mut idle).for_each(|(init, idle)| drop(idle.begin(init)));
        let threads: Vec<_> =
            self.blocking.into_iter().zip(idle).map(|(init, idle)| idle.begin(init)).collect();
        let result = last.map_or(Ok(()), |init| init(Ok(())));
        let panicked = |_| Err(Error::Internal("an initialisation panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).fold(result, Result::and)
    }

    /// Tells all that they cannot begin; returns why.
    pub(super) fn refuse(self, why: Error) -> Error {
        for init in self.background.into_iter().chain(self.blocking) {
            let _ = init(Err(why.clone()));
        }
        why
    }
}

/// Starts one that does not block, outside of a group.
pub(super) fn start(init: Init) -> Result<()> {
    Inits { background: vec![init], ..Inits::default() }.run()
}

impl Idle {
    fn start() -> std::io::Result<Self> {
        let (init, given) = mpsc::sync_channel::<Init>(1);
        let run = move || given.recv().map_or(Ok(()), |init| init(Ok(())));
        let thread = Builder::new().name("rsccl-init".to_owned()).spawn(run)?;
        Ok(Self { init, thread })
    }

    /// Has room for one init, and lives until it has got it.
    fn begin(self, init: Init) -> JoinHandle<Result<()>> {
        let _ = self.init.send(init);
        self.thread
    }
}
