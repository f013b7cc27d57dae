"""A communicator and the stream of its calls: they run one after the other, in the order in which they were made.

The communicator is made at the first call, by a thread of its own: nobody waits here for ranks that come later, so ranks may
use groups and peers in different orders. Calls that come before it is there are kept, and made once it is.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from ctypes import byref, c_uint64, c_void_p
from typing import Any, Callable, Optional

from .._errors import IN_PROGRESS, Error, error_of
from .._interrupts import LOOK_MS
from .._library import UNIQUE_ID_BYTES, Config, UniqueId, collective_call, function
from ..collective import unique_id

# Between two looks for an id that another rank makes.
FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.1

# How long the end of a lane waits for its threads.
JOIN_S = 1.0

# Calls the library's functions with a communicator and a stream.
Call = Callable[[c_void_p, c_void_p], None]


class Meeting:
    """Where a communicator's ranks get its id: a key of torch.distributed's store."""

    def __init__(self, store: Any, key: str) -> None:
        self._store, self._key = store, key

    def give(self) -> bytes:
        """Makes the id, and gives it to the others."""
        made = unique_id()
        self._store.set(self._key, made)
        self._store.add(f"{self._key}/made", 1)
        return made

    def look(self) -> Optional[bytes]:
        """The id, if it is there."""
        # A `get` would wait, and PyTorch 1.13 has no `check`.
        if self._store.add(f"{self._key}/made", 0) == 0:
            return None
        return bytes(self._store.get(self._key))[:UNIQUE_ID_BYTES]


class Ticket:
    """One call on a lane, and what it holds until it is over."""

    __slots__ = ("lane", "number", "held", "error", "__weakref__")

    def __init__(self, lane: "Lane", held: Any) -> None:
        self.lane = lane
        # Of the stream's operations, the last one of this call; None until it was made.
        self.number: Optional[int] = None
        self.held = held
        self.error: Optional[Error] = None

    def is_over(self) -> bool:
        """Whether it is done or has failed."""
        return self.error is not None or (self.number is not None and self.lane.has_done(self))

    def wait(self, timeout_s: Optional[float]) -> bool:
        """Waits until it is over, for so long at most (None: without limit): whether it is. Raises what it failed with."""
        return self.lane.wait(self, timeout_s)


class Lane:
    """One communicator of this process."""

    def __init__(self, name: str, size: int, rank: int, meeting: Meeting) -> None:
        self.name = name
        self._size, self._rank = size, rank
        self._meeting: Optional[Meeting] = meeting
        self._comm: Optional[c_void_p] = None
        self._stream = c_void_p()
        # Guards all below, and the order of calls.
        self._changed = threading.Condition()
        self._kept: "deque[tuple[Ticket, Call]]" = deque()
        # Calls that were made and may not be over: their memory must live.
        self._open: "deque[Ticket]" = deque()
        self._error: Optional[Error] = None
        self._is_given_up = False
        self._done = 0
        # Works whose results are in copies that have not been put back, in the order of the calls.
        self.unput: "deque[Any]" = deque()
        self._putting = threading.Lock()
        self._followed: "Optional[queue.SimpleQueue[Optional[Callable[[], None]]]]" = None
        self._follower: Optional[threading.Thread] = None
        self._maker: Optional[threading.Thread] = None
        # Of the stream's operations, the last that was enqueued.
        self._last = 0
        self._count, self._wait = function("rscclStreamCount"), function("rscclStreamWait")

    def submit(self, call: Call, held: Any) -> Ticket:
        """Makes a call, now or once the communicator is there. `held` lives until it is over."""
        ticket = Ticket(self, held)
        with self._changed:
            if self._error is not None:
                raise self._error.again()
            if self._comm is not None and not self._kept:
                self._make(ticket, call)
            else:
                self._kept.append((ticket, call))
                self._begin()
        return ticket

    def finished(self) -> "list[Ticket]":
        """A call that is over."""
        ticket = Ticket(self, None)
        ticket.number = 0
        return [ticket]

    def under_way(self) -> "list[Ticket]":
        """Calls that may not be over, the last one first."""
        with self._changed:
            return [*reversed([ticket for ticket, _ in self._kept]), *reversed(self._open)]

    def put_back(self) -> None:
        """Puts the results of calls that are over where they belong, in the order of the calls, whoever is waited for."""
        with self._putting:
            while self.unput and self.unput[0].is_over():
                self.unput.popleft().put()

    def has_done(self, ticket: Ticket) -> bool:
        """Whether a call that was made is over."""
        if ticket.number is None:
            return False
        if ticket.number > self._done:
            code = self._wait(self._stream, ticket.number, 0)
            if code == IN_PROGRESS:
                return False
            self._note(ticket, code)
        ticket.held = None
        return True

    def wait(self, ticket: Ticket, timeout_s: Optional[float]) -> bool:
        """See `Ticket.wait`."""
        left_ms = None if timeout_s is None else max(int(timeout_s * 1000), 0)
        while ticket.number is None and ticket.error is None:
            if left_ms == 0:
                return False
            slice_ms = LOOK_MS if left_ms is None else min(LOOK_MS, left_ms)
            with self._changed:
                if ticket.number is None and ticket.error is None:
                    self._changed.wait(slice_ms / 1000)
            left_ms = None if left_ms is None else left_ms - slice_ms
        while ticket.error is None and (ticket.number or 0) > self._done:
            slice_ms = LOOK_MS if left_ms is None else min(LOOK_MS, left_ms)
            code = self._wait(self._stream, ticket.number, slice_ms)
            if code != IN_PROGRESS:
                self._note(ticket, code)
                break
            if left_ms is not None:
                left_ms -= slice_ms
                if left_ms <= 0:
                    return False
        ticket.held = None
        if ticket.error is not None:
            raise ticket.error.again()
        return True

    def follow(self, call: Callable[[], None]) -> None:
        """Makes a call of Python's on a thread of the lane's own, after those before it; at once where that thread asks, or
        nothing is waited for any more."""
        with self._changed:
            is_at_once = self._is_given_up or self._follower is threading.current_thread()
            if not is_at_once:
                if self._followed is None:
                    self._followed = queue.SimpleQueue()
                    self._follower = threading.Thread(target=_follow, args=(self._followed,), daemon=True)
                    self._follower.start()
                self._followed.put(call)
        if is_at_once:
            # What is done when a future is fulfilled may wait for another one.
            call()

    def abort(self, error: Error) -> None:
        """Ends what is under way: it and all later calls fail with this error."""
        with self._changed:
            comm, self._comm = self._comm, None
            self._give_up(error)
        if comm is not None:
            function("ncclCommAbort")(comm)
            self._end(error)

    def close(self) -> None:
        """Destroys the communicator; calls that are under way fail."""
        with self._changed:
            comm, self._comm = self._comm, None
            is_idle = all(self.has_done(ticket) for ticket in self._open)
            destroyed = Error(f"{self.name} was destroyed")
            self._give_up(destroyed)
        if comm is not None:
            function("ncclCommDestroy" if is_idle else "ncclCommAbort")(comm)
            self._end(destroyed)
        # A thread that is inside PyTorch's C++ when the interpreter ends takes the process down with it.
        for thread in (self._maker, self._follower):
            if thread is not None and thread is not threading.current_thread():
                thread.join(JOIN_S)

    def _end(self, error: Error) -> None:
        """What was under way is over; its memory is free, and nobody asks the stream again."""
        for ticket in list(self._open):
            if not self.has_done(ticket):
                ticket.error = ticket.error or error
        self._open.clear()
        self.unput.clear()
        function("rscclStreamDestroy")(self._stream)

    def _make(self, ticket: Ticket, call: Call) -> None:
        while self._open and self.has_done(self._open[0]):
            self._open.popleft()
        # Before the call: whatever ends it, what was enqueued keeps its memory.
        self._open.append(ticket)
        try:
            call(self._comm, self._stream)  # type: ignore[arg-type]
        finally:
            number, before = c_uint64(), self._last
            self._count(self._stream, byref(number))
            ticket.number = self._last = number.value
        if ticket.number == before:
            # Nothing was enqueued: of a call that moves nothing.
            self._open.remove(ticket)

    def _note(self, ticket: Ticket, code: int) -> None:
        """One more call is over; after the first that failed, all fail."""
        if code == 0:
            self._done = max(self._done, ticket.number or 0)
        else:
            text = function("ncclGetLastError")(None) or b""
            self._error = self._error or error_of(code, text.decode(errors="replace"))
            ticket.error = self._error

    def _begin(self) -> None:
        if self._maker is None:
            self._maker = threading.Thread(target=self._run, name="rsccl-init", daemon=True)
            self._maker.start()

    def _run(self) -> None:
        comm, stream = c_void_p(), c_void_p()
        try:
            given = UniqueId.from_buffer_copy(self._met())
            collective_call("ncclCommInitRankConfig", byref(comm), self._size, given, self._rank, byref(Config(self.name)))
            collective_call("rscclStreamCreate", byref(stream))
        except Exception as error:  # noqa: BLE001  whatever it is, nobody must wait for this for ever
            if comm.value is not None:
                function("ncclCommAbort")(comm)
            found = error if isinstance(error, Error) else Error(f"{self.name}: its ranks did not meet: {error}")
            with self._changed:
                self._give_up(found)
            return
        with self._changed:
            if self._error is not None:
                function("ncclCommAbort")(comm)
                function("rscclStreamDestroy")(stream)
                return
            self._comm, self._stream = comm, stream
            # A store lives no longer than it is needed.
            self._meeting = None
            while self._kept:
                ticket, call = self._kept.popleft()
                try:
                    self._make(ticket, call)
                except Exception as error:  # noqa: BLE001  as above
                    ticket.error = error if isinstance(error, Error) else Error(str(error))
            self._changed.notify_all()

    def _met(self) -> bytes:
        # A wait in the store, which is C++, could not be left at the interpreter's end.
        meeting, pause_s = self._meeting, FIRST_PAUSE_S
        while meeting is not None:
            met = meeting.give() if self._rank == 0 else meeting.look()
            if met is not None:
                return met
            with self._changed:
                if self._error is not None:
                    raise self._error.again()
                self._changed.wait(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        raise Error(f"{self.name} has been made")

    def _give_up(self, error: Error) -> None:
        self._error, self._is_given_up = self._error or error, True
        for ticket, _ in self._kept:
            ticket.error = error
        self._kept.clear()
        if self._followed is not None:
            self._followed.put(None)
            self._followed = None
        self._changed.notify_all()


def _follow(calls: "queue.SimpleQueue[Optional[Callable[[], None]]]") -> None:
    while True:
        call = calls.get()
        if call is None:
            return
        call()
