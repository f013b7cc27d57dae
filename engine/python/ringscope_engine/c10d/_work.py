"""What torch.distributed gets for a call: it waits for it, and puts results that came in other memory where they belong."""

from __future__ import annotations

import os
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, FrozenSet, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d

from .._errors import Error
from ._lane import Ticket

# PyTorch's exception for what a backend fails with; before 2.0 there is none.
Failure: Any = getattr(dist, "DistBackendError", RuntimeError)
# From 2.7 on PyTorch keeps the Python object of a work that C++ holds alive. Older ones are given a work of C++.
KEEPS_PYTHON_WORK = tuple(int(number) for number in torch.__version__.split(".")[:2]) >= (2, 7)
# Where a backward pass begins, from which DistributedDataParallel calls.
BACKWARD = tuple(os.path.join(os.path.dirname(torch.autograd.__file__), name) for name in ("__init__.py", "graph.py"))
Base: Any = dist.Work
# Whose stubs lack some of what it has.
c10d: Any = _distributed_c10d
PACKAGE = os.path.dirname(__file__)


class Work(Base):  # type: ignore[misc]
    """A call under way."""

    def __init__(
        self,
        what: Callable[[], str],
        tickets: Sequence[Ticket],
        result: List[torch.Tensor],
        timeout_s: Optional[float],
        finish: Optional[Callable[[], None]] = None,
        source: int = -1,
        puts_into: FrozenSet[int] = frozenset(),
        explained: Callable[[str], str] = str,
    ) -> None:
        """`what` says what it is; `finish` puts the results where they belong, once, when the call is over: `puts_into` is the
        memory there. `explained` adds to an error what is known of it here."""
        super().__init__()
        self._what, self._tickets, self._result = what, tickets, result
        self._timeout_s, self._finish, self._source = timeout_s, finish, source
        self.puts_into, self._explained = puts_into, explained
        self._future: Optional[torch.futures.Future[List[torch.Tensor]]] = None
        # What the thread fulfils, of which the one that is given out follows.
        self._fulfilled: Any = None
        self._lock = threading.Lock()
        self._error: Optional[BaseException] = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the call is over, for so long at most; 0: for as long as the group's time-out says."""
        given_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout / 1000
        limit_s = given_s if given_s > 0 else self._timeout_s
        try:
            for ticket in self._tickets:
                wait_for(ticket, limit_s)
        except Error as error:
            self._error = self._error or Failure(f"{self._what()}: {self._explained(str(error))}")
            # A new one each time, as `Error.again` says.
            raise Failure(str(self._error)) from error
        self._end()
        return True

    def is_completed(self) -> bool:
        """Whether the call is over, well or not."""
        if not self.is_over():
            return False
        if all(ticket.error is None for ticket in self._tickets):
            self._end()
        return True

    def is_over(self) -> bool:
        """The same, and leaves results where they are."""
        return all(ticket.is_over() for ticket in self._tickets)

    def is_success(self) -> bool:
        """Whether the call is over and went well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[BaseException]:
        """What the call failed with."""
        failed = next((ticket.error for ticket in self._tickets if ticket.error is not None), None)
        return self._error or (Failure(f"{self._what()}: {failed}") if failed is not None else None)

    def synchronize(self) -> None:
        """As `wait`: results are in this machine's memory."""
        self.wait()

    def result(self) -> List[torch.Tensor]:
        """The tensors that hold the result, once it is there."""
        return self._result

    def source_rank(self) -> int:
        """The rank that a tensor was received from."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        """A future of the result, which a thread fulfils. It fails for C++ too: an exception that `set_exception` leaves in a future
        is a result there, and DistributedDataParallel, which takes it for tensors, crashed."""
        with self._lock:
            if self._future is None:
                self._fulfilled = torch.futures.Future()
                self._future = self._fulfilled.then(_value)
                is_new = True
            else:
                is_new = False
        if is_new:
            self._tickets[0].lane.follow(self.fulfil)
        return self._future

    def fulfil(self) -> None:
        """Waits, and fulfils the future."""
        future: Any = self._fulfilled
        try:
            self.wait()
            # PyTorch refuses results that it cannot give on, such as those on a device that the future does not know.
            future.set_result(self._result)
        except Exception as error:  # noqa: BLE001  whoever waits for the future must hear of it
            future.set_exception(error)

    def for_caller(self) -> Any:
        """The work itself; where PyTorch's C++ would lose it, one of C++, whose `wait` would not tell of a failure: so it is
        waited for here, but in a backward pass, which goes on and asks the future."""
        if KEEPS_PYTHON_WORK:
            return self
        caller = _caller()
        if caller == distributed_c10d.__file__:
            return self
        if caller not in BACKWARD:
            self.wait()
        return c10d._create_work_from_future(self.get_future())

    def _end(self) -> None:
        lane = self._tickets[0].lane
        if lane.unput:
            lane.put_back()
        self.put()

    def put(self) -> None:
        """Puts the results of a call that is over where they belong, if it went well."""
        if self._finish is None:
            return
        # Others that wait return once the results are where they belong.
        with self._lock:
            if self._finish is not None and all(ticket.error is None for ticket in self._tickets):
                self._finish()
                self._finish = None


def _value(fulfilled: "torch.futures.Future[List[torch.Tensor]]") -> List[torch.Tensor]:
    """Raises what the call failed with."""
    return fulfilled.value()


def wait_for(ticket: Ticket, limit_s: Optional[float]) -> None:
    """Waits for a call, for so long at most; after that its communicator is given up."""
    if not ticket.wait(limit_s):
        late = Error(_late(limit_s, ticket))
        # Nobody may write into memory that the caller believes free, and the others are to be told.
        ticket.lane.abort(late)
        raise late


def _caller() -> str:
    """The file of the Python that calls this package, perhaps through PyTorch's C++."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename


def _late(limit_s: Optional[float], ticket: Ticket) -> str:
    place = "some rank has not come to the communicator" if ticket.number is None else "some rank has not called it"
    return (
        f"not over within its timeout of {limit_s:g} s: {place}, or is slow; the communicator is given up. `ringscope status` names who is waited for; "
        "`timeout` of init_process_group, new_group or the call says how long to wait"
    )
