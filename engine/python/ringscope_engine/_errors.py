"""What goes wrong, with the library's own words."""

from __future__ import annotations

from typing import Optional

# ncclResult_t.
REMOTE_ERROR, IN_PROGRESS = 6, 7


class Error(Exception):
    """The library, or this package, refused or failed; the text says what, where, and what to do.

    `code` is the library's ncclResult_t, or None where the package itself found the mistake.
    """

    def __init__(self, text: str, code: Optional[int] = None) -> None:
        super().__init__(text)
        self.code = code

    def again(self) -> "Error":
        """The same to be raised once more: one object that is raised again and again keeps the frames of all who have caught it."""
        return type(self)(str(self), self.code)


class LostProcess(Error):
    """The group has lost a process, which the text names: no sum can be had from it any more.

    With RSUM_ON_LOSS=continue, `resume` goes on with those that are left. Rounds that were open have failed, on some workers
    perhaps one that others have the result of: agree on where to go on, by a `broadcast`, before submitting again.
    """


def error_of(code: int, text: str) -> Error:
    """The exception for one of the library's codes."""
    return (LostProcess if code == REMOTE_ERROR else Error)(text, code)
