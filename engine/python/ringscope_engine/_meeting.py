"""How the ranks of a communicator get its unique id from rank 0: over one TCP connection each.

Rank 0 sends 32 random bytes; who answers with their HMAC-SHA256 under the job's secret is sent the id. Connections are served
beside each other: strangers learn nothing and hold nobody up.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import selectors
import socket
import time
from collections import OrderedDict
from typing import Optional

from ._errors import Error

# How long a connection without an answer is held: a rank of the job answers at once, and a scheduler's hiccup is shorter.
STRANGER_S = 2.0
# How many of them are held; for one more the oldest goes. Far more than answer within one hiccup.
MAX_HELD = 256
# Between two attempts of a rank that started before rank 0.
RETRY_S = 0.05
NONCE_BYTES = 32
DIGEST_BYTES = 32


def share(unique_id: bytes, address: tuple[str, int], n_others: int, secret: bytes, timeout_s: float) -> None:
    """Gives the id to so many others that come to this address."""
    deadline = time.monotonic() + timeout_s
    with _listener(address) as listener, selectors.DefaultSelector() as ready:
        listener.setblocking(False)
        ready.register(listener, selectors.EVENT_READ)
        # In the order in which they came.
        callers: "OrderedDict[socket.socket, _Caller]" = OrderedDict()

        def leave(peer: socket.socket) -> None:
            del callers[peer]
            ready.unregister(peer)
            peer.close()

        try:
            while n_others > 0:
                now = time.monotonic()
                if now >= deadline:
                    raise Error(f"{n_others} ranks have not come to {_text(address)} in {timeout_s:.0f} s")
                while callers and next(iter(callers.values())).until <= now:
                    leave(next(iter(callers)))
                next_end = next(iter(callers.values())).until if callers else deadline
                for key, _ in ready.select(min(next_end, deadline) - now):
                    caller: Optional[_Caller] = key.data
                    if caller is None:
                        came = _accept(listener, secret)
                        if came is None:
                            continue
                        if len(callers) == MAX_HELD:
                            leave(next(iter(callers)))
                        callers[came.peer] = came
                        ready.register(came.peer, selectors.EVENT_READ, came)
                    elif caller.peer in callers:
                        is_over, is_of_job = caller.answer(unique_id)
                        n_others -= is_of_job
                        if is_over:
                            leave(caller.peer)
        finally:
            for peer in list(callers):
                leave(peer)


def _listener(address: tuple[str, int]) -> socket.socket:
    try:
        families = {found[0] for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM)}
        return socket.create_server(address, family=socket.AF_INET if socket.AF_INET in families else socket.AF_INET6)
    except OSError as error:
        raise Error(f"rank 0 cannot listen on {_text(address)}: {error}; pass another place on all ranks, root=\"host:port\"") from None


class _Caller:
    """A connection that has been sent its random bytes, and has not yet answered."""

    def __init__(self, peer: socket.socket, nonce: bytes, secret: bytes) -> None:
        self.peer, self.until = peer, time.monotonic() + STRANGER_S
        self._proof, self._got = _proof(nonce, secret), b""

    def answer(self, unique_id: bytes) -> tuple[bool, bool]:
        """Takes what came of its answer: whether the connection is over, and whether it was a rank of the job, which then
        has the id."""
        try:
            more = self.peer.recv(DIGEST_BYTES - len(self._got))
            self._got += more
            if more and len(self._got) < DIGEST_BYTES:
                return False, False
            # So few bytes go into an empty buffer at once.
            is_of_job = hmac.compare_digest(self._got, self._proof) and self.peer.send(unique_id) == len(unique_id)
        except BlockingIOError:
            return False, False
        except OSError:
            return True, False
        return True, is_of_job


def _accept(listener: socket.socket, secret: bytes) -> Optional[_Caller]:
    try:
        peer, _ = listener.accept()
    except OSError:
        # It has gone again, or this process has no descriptor left for it now.
        return None
    nonce = secrets.token_bytes(NONCE_BYTES)
    try:
        peer.setblocking(False)
        peer.send(nonce)
    except OSError:
        peer.close()
        return None
    return _Caller(peer, nonce, secret)


def fetch(n_bytes: int, address: tuple[str, int], secret: bytes, timeout_s: float) -> bytes:
    """The id, from rank 0 at this address, once it listens and can be reached."""
    deadline = time.monotonic() + timeout_s
    while True:
        has_answered = False
        try:
            with socket.create_connection(address, timeout=max(deadline - time.monotonic(), RETRY_S)) as peer:
                if peer.getsockname() == peer.getpeername():
                    # Nobody listens, and the kernel gave our end that port: we have connected to ourselves.
                    raise ConnectionRefusedError
                nonce = _read(peer, NONCE_BYTES)
                has_answered = True
                peer.sendall(_proof(nonce, secret))
                return _read(peer, n_bytes)
        except (EOFError, OSError) as error:
            if has_answered and isinstance(error, (EOFError, ConnectionError)):
                raise Error(f"rank 0 on {_text(address)} gave no id: {error}; is the secret the same?") from None
            if time.monotonic() > deadline:
                if isinstance(error, ConnectionRefusedError):
                    raise Error(f"rank 0 does not listen on {_text(address)}") from None
                raise Error(f"rank 0 on {_text(address)} cannot be reached: {error}") from None
            time.sleep(RETRY_S)


def _read(peer: socket.socket, n_bytes: int) -> bytes:
    got = b""
    while len(got) < n_bytes:
        more = peer.recv(n_bytes - len(got))
        if not more:
            raise EOFError("it closed the connection")
        got += more
    return got


def _proof(nonce: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, nonce, hashlib.sha256).digest()


def _text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(text: str) -> tuple[str, int]:
    """`host:port`, also with an IPv6 address in brackets."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise Error(f"{text!r} is no host:port")
    return host.strip("[]"), int(port)


def setting(value: object, *names: str) -> str:
    """A value that was given, or the first of these variables of the environment."""
    if value is not None:
        return str(value)
    for name in names:
        if name in os.environ:
            return os.environ[name]
    raise Error(f"set {' or '.join(names)}, or pass it")
