//! Fence: the collectives that the demo's rank calls; each returns when it is done.

#![expect(unsafe_code, reason = "calls a C library through pointers")]

use std::ffi::c_int;

use super::{Communicator, Element, NcclError, Reduction, Rooted, as_int};

/// The buffers given to the calls below must stay untouched until [`Nccl::synchronize`] has returned; the demo's rank
/// enqueues and waits within one function, with the buffers borrowed throughout.
impl Communicator {
    /// Sum or maximum of `send` over all ranks, into `recv` (both `send.len()` elements).
    ///
    /// # Errors
    /// [`NcclError::Call`], also where the operation itself failed.
    pub fn all_reduce<T: Element>(&self, send: &[T], recv: &mut [T], op: Reduction) -> Result<(), NcclError> {
        assert_eq!(send.len(), recv.len(), "all_reduce: buffers of one size");
        let (to, comm, stream) = (recv.as_mut_ptr().cast(), self.pointer, self.nccl.stream);
        let call = &self.nccl.functions.all_reduce;
        // SAFETY: both buffers hold `len` elements of the type named, and outlive the wait below.
        let code = unsafe {
            call(send.as_ptr().cast(), to, send.len(), T::TYPE as c_int, op as c_int, comm, stream)
        };
        self.finish("ncclAllReduce", code)
    }

    /// Rank r's share of the sum of `send` (`n_ranks * recv.len()` elements).
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn reduce_scatter<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), NcclError> {
        assert_eq!(send.len(), recv.len() * self.n_ranks, "reduce_scatter: n_ranks shares");
        let (to, comm, stream) = (recv.as_mut_ptr().cast(), self.pointer, self.nccl.stream);
        let call = &self.nccl.functions.reduce_scatter;
        // SAFETY: as asserted, the buffers hold what the call reads and writes, and outlive the wait below.
        let code = unsafe {
            call(
                send.as_ptr().cast(),
                to,
                recv.len(),
                T::TYPE as c_int,
                Reduction::Sum as c_int,
                comm,
                stream,
            )
        };
        self.finish("ncclReduceScatter", code)
    }

    /// Every rank's `send`, by rank, into `recv` (`n_ranks * send.len()` elements).
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn all_gather<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), NcclError> {
        assert_eq!(recv.len(), send.len() * self.n_ranks, "all_gather: n_ranks shares");
        let (to, comm, stream) = (recv.as_mut_ptr().cast(), self.pointer, self.nccl.stream);
        let call = &self.nccl.functions.all_gather;
        // SAFETY: as asserted, the buffers hold what the call reads and writes, and outlive the wait below.
        let code = unsafe { call(send.as_ptr().cast(), to, send.len(), T::TYPE as c_int, comm, stream) };
        self.finish("ncclAllGather", code)
    }

    /// Block r of `send` to rank r, and everyone's block for this rank, by rank, into `recv`.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn all_to_all<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), NcclError> {
        assert_eq!(send.len(), recv.len(), "all_to_all: a block for and from everyone");
        assert_eq!(send.len() % self.n_ranks, 0, "all_to_all: blocks of one size");
        let (to, comm, stream) = (recv.as_mut_ptr().cast(), self.pointer, self.nccl.stream);
        let (call, count) = (&self.nccl.functions.all_to_all, send.len() / self.n_ranks);
        // SAFETY: as asserted, the buffers hold what the call reads and writes, and outlive the wait below.
        let code = unsafe { call(send.as_ptr().cast(), to, count, T::TYPE as c_int, comm, stream) };
        self.finish("ncclAlltoAll", code)
    }

    /// The buffer of `root`, into everyone's.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: usize) -> Result<(), NcclError> {
        let (to, count) = (buffer.as_mut_ptr(), buffer.len());
        self.rooted(&self.nccl.functions.broadcast, "ncclBroadcast", (to.cast_const(), to), count, root)
    }

    /// Everyone's `send`, by rank, into `recv` of `root` (`n_ranks * send.len()` elements).
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn gather<T: Element>(&self, send: &[T], recv: &mut [T], root: usize) -> Result<(), NcclError> {
        assert_eq!(recv.len(), send.len() * self.n_ranks, "gather: n_ranks blocks");
        let buffers = (send.as_ptr(), recv.as_mut_ptr());
        self.rooted(&self.nccl.functions.gather, "ncclGather", buffers, send.len(), root)
    }

    /// Block r of `send` of `root` (`n_ranks * recv.len()` elements) into `recv` of rank r.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn scatter<T: Element>(&self, send: &[T], recv: &mut [T], root: usize) -> Result<(), NcclError> {
        assert_eq!(send.len(), recv.len() * self.n_ranks, "scatter: n_ranks blocks");
        let buffers = (send.as_ptr(), recv.as_mut_ptr());
        self.rooted(&self.nccl.functions.scatter, "ncclScatter", buffers, recv.len(), root)
    }

    /// Makes one of the calls that have a root; both buffers hold what it reads and writes of `count`.
    fn rooted<T: Element>(
        &self,
        call: &Rooted,
        name: &'static str,
        (send, recv): (*const T, *mut T),
        count: usize,
        root: usize,
    ) -> Result<(), NcclError> {
        let (comm, stream) = (self.pointer, self.nccl.stream);
        // SAFETY: the callers above hold both buffers borrowed until the wait below is over.
        let code =
            unsafe { call(send.cast(), recv.cast(), count, T::TYPE as c_int, as_int(root), comm, stream) };
        self.finish(name, code)
    }

    /// Sends to one rank while receiving from another, as one group.
    ///
    /// # Errors
    /// [`NcclError::Call`].
    pub fn exchange<T: Element>(
        &self,
        send: (&[T], usize),
        recv: (&mut [T], usize),
    ) -> Result<(), NcclError> {
        let (comm, stream) = (self.pointer, self.nccl.stream);
        let functions = &self.nccl.functions;
        let ((send, to), (recv, from)) = (send, recv);
        self.nccl.group(|| {
            // SAFETY: the buffer holds `len` elements and outlives the wait below.
            let code = unsafe {
                (functions.send)(send.as_ptr().cast(), send.len(), T::TYPE as c_int, as_int(to), comm, stream)
            };
            self.nccl.check("ncclSend", code, comm)?;
            let buffer = recv.as_mut_ptr().cast();
            // SAFETY: the buffer holds `len` elements and outlives the wait below.
            let code =
                unsafe { (functions.recv)(buffer, recv.len(), T::TYPE as c_int, as_int(from), comm, stream) };
            self.nccl.check("ncclRecv", code, comm)
        })?;
        self.nccl.synchronize()
    }
}
