//! How a communicator ends: destroyed, aborted, revoked, or with its process.

use std::sync::atomic::Ordering;

use crate::comm::Comm;
use crate::faithful::Version;
use crate::lock::lock;
use crate::log::{lines, machine, subsystem};
use crate::net::control::Failure;
use crate::run::engine::Engine;
use crate::transport::shm::host::Host;

impl Comm {
    /// `ncclCommDestroy`: all issued work first, then farewell. With silent faults it waits for the ranks of the host, as
    /// NCCL's thread of the proxy service does for its local peers (`ncclProxyService`).
    pub fn destroy(&self) {
        self.flush();
        if let Some(host) = self.host.as_ref().filter(|_| self.is_silent()) {
            host.hang_up();
            host.wait_for_all();
        }
        self.close("Destroy");
    }

    /// `ncclCommAbort`: what is in flight ends with an error, here and, through rank 0, on the peers; with silent faults
    /// here alone.
    pub(crate) fn abort(&self) {
        self.note_ending("Abort");
        self.health.abort_children();
        if self.is_silent() || !self.turns.is_idle() {
            let what = format!("{} aborted the communicator", self.names[self.rank]);
            self.health.fail(Failure::new(6, what));
        }
        self.profiler().iter().for_each(|profiler| profiler.abort());
        // Whoever drives it lets go of it at once. What has not begun begins no more, and is not waited for: it may be
        // behind another communicator's operation that hangs.
        drop(lock(&self.engine));
        self.host.iter().for_each(Host::take_back);
        self.close("Abort");
    }

    /// `ncclCommRevoke`: what is in flight ends with an error, here and on the peers; no more can be issued.
    pub(crate) fn revoke(&self) {
        self.note_ending("Revoke");
        self.revoked.store(true, Ordering::Release);
        self.profiler().iter().for_each(|profiler| profiler.abort());
        let what = format!("{} revoked the communicator", self.names[self.rank]);
        self.health.fail(Failure::new(6, what));
        // As NCCL's does (`commRevokeAsync` in `src/init.cc`).
        self.profiler().iter().for_each(|profiler| profiler.stop_progress());
        if self.is_silent() && self.identity.version >= Version::V2_28 {
            let place = (self.topology.n_nodes(), self.topology.local_rank(self.rank));
            machine::revoking(&self.identity, place).iter().for_each(|line| self.info(self.of_ends(), line));
        }
    }

    /// At the process's exit: leaves, and tells of a failure, unless something is still in flight or the peers wait for more.
    pub(crate) fn farewell(&self) {
        let is_awaited = self.awaited.load(Ordering::Acquire) && !self.health.has_failed();
        if self.turns.is_idle() && !is_awaited {
            self.dismiss_watcher();
        }
    }

    fn dismiss_watcher(&self) {
        if let Some(host) = self.host.as_ref().filter(|_| !self.health.has_failed()) {
            host.leave();
        }
        self.health.leave();
        if let Some(watcher) = lock(&self.watcher).take() {
            let _ = watcher.join();
        }
    }

    fn close(&self, how: &str) {
        self.dismiss_watcher();
        self.host.iter().for_each(Host::end);
        if let Some(host) = self.host.as_ref().filter(|_| self.is_silent()) {
            host.hang_up();
        }
        let profiler = lock(&self.profiler).take();
        profiler.iter().for_each(|profiler| profiler.end());
        // NCCL has no such line.
        for traffic in self.traffic().iter().filter(|_| !self.is_silent()) {
            self.info(subsystem::NET, &lines::traffic(self.rank, traffic));
        }
        *lock(&self.engine) = Engine::default();
        self.info(self.of_ends(), &lines::gone(&self.identity, how));
    }

    /// The subsystem of the lines on a communicator's end.
    fn of_ends(&self) -> u64 {
        if self.identity.version >= Version::V2_30 { subsystem::DESTROY } else { subsystem::INIT }
    }

    /// What 2.28 and later write before a communicator ends early.
    fn note_ending(&self, how: &str) {
        if self.is_silent() && self.identity.version >= Version::V2_28 {
            self.info(self.of_ends(), &lines::ending(&self.identity, how));
        }
    }
}
