"""Calls of the library that wait for other processes, so that Ctrl-C and other signals' handlers end them.

Python runs handlers on the main thread, and not while that is in C. So what the main thread calls is done by another thread, for
whom it waits in Python. What a handler raises ends the wait; the call goes on alone, with the memory that it was given.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from typing import Any, Callable, List, Optional, Tuple, TypeVar

Result = TypeVar("Result")

# Between two looks at signals, where the library waits only so long at a time: a handler runs after this at the latest.
LOOK_MS = 100


class _Helper:
    """A thread that does one call at a time."""

    def __init__(self) -> None:
        self._calls: "queue.SimpleQueue[Tuple[Callable[[], Any], _Outcome]]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ringscope-call", daemon=True).start()

    def start(self, work: Callable[[], Any]) -> "_Outcome":
        outcome = _Outcome()
        self._calls.put((work, outcome))
        return outcome

    def _run(self) -> None:
        while True:
            work, outcome = self._calls.get()
            outcome.take(work)
            del work, outcome


class _Outcome:
    """How a call ended."""

    def __init__(self) -> None:
        self._is_over = threading.Lock()
        self._is_over.acquire()
        self._result: Any = None
        self._error: Optional[BaseException] = None

    def take(self, work: Callable[[], Any]) -> None:
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001  it is raised where the call was made
            self._error = error
        self._is_over.release()

    def wait(self) -> None:
        self._is_over.acquire()

    def result(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # It leads to this frame, and would keep what the call was given until Python looks for such circles.
                del error
        return self._result


_helper: List[_Helper] = []
# Whether a handler has ended a wait: what this process was in, others still wait for.
_was_left = False


def _forget_parents_thread() -> None:
    # A forked child has none of its parent's threads.
    _helper.clear()


os.register_at_fork(after_in_child=_forget_parents_thread)


def was_left() -> bool:
    """Whether any call was left by a signal's handler."""
    return _was_left


def note_left() -> None:
    """A wait has ended by what a handler raised."""
    global _was_left
    _was_left = True


def is_main() -> bool:
    """Whether handlers of signals run on this thread."""
    return threading.current_thread() is threading.main_thread()


def call(work: Callable[[], Result]) -> Result:
    """What `work` returns. On the main thread a signal's handler may end the wait for it; calls go on the same thread then."""
    if not is_main():
        return work()
    if not _helper:
        try:
            _helper.append(_Helper())
        except RuntimeError:
            # The interpreter is about to end, and starts no threads.
            return work()
    outcome = _helper[0].start(work)
    try:
        outcome.wait()
    except BaseException:
        # That thread is busy for longer than anybody knows.
        _helper.clear()
        note_left()
        raise
    result: Result = outcome.result()
    return result


def let_signals_end_the_process() -> None:
    """For the interpreter's end: nobody handles what a handler raises any more."""
    if not is_main():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
