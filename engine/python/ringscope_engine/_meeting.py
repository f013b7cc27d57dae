"""How the ranks of a communicator get its unique id from rank 0: over one TCP connection each.

Rank 0 sends 32 random bytes; who answers with their HMAC-SHA256 under the job's secret is sent the id. Strangers learn
nothing and hold nobody up for longer than `STRANGER_S`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import time

from ._errors import Error

# A rank of the job answers at once; a scheduler's hiccup is shorter.
STRANGER_S = 2.0
# Between two attempts of a rank that started before rank 0.
RETRY_S = 0.05
NONCE_BYTES = 32
DIGEST_BYTES = 32


def share(unique_id: bytes, address: tuple[str, int], n_others: int, secret: bytes, timeout_s: float) -> None:
    """Gives the id to so many others that come to this address."""
    deadline = time.monotonic() + timeout_s
    with socket.create_server(address) as listener:
        while n_others > 0:
            listener.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                peer, _ = listener.accept()
            except socket.timeout:
                raise Error(f"{n_others} ranks have not come to {_text(address)} in {timeout_s:.0f} s") from None
            with peer:
                n_others -= _serve(peer, unique_id, secret)


def fetch(n_bytes: int, address: tuple[str, int], secret: bytes, timeout_s: float) -> bytes:
    """The id, from rank 0 at this address."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection(address, timeout=timeout_s) as peer:
                if peer.getsockname() == peer.getpeername():
                    # Nobody listens, and the kernel gave our end that port: we have connected to ourselves.
                    raise ConnectionRefusedError
                peer.sendall(_proof(_read(peer, NONCE_BYTES), secret))
                return _read(peer, n_bytes)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise Error(f"rank 0 does not listen on {_text(address)}") from None
            time.sleep(RETRY_S)
        except (EOFError, OSError) as error:
            raise Error(f"rank 0 on {_text(address)} gave no id: {error}; is the secret the same?") from None


def _serve(peer: socket.socket, unique_id: bytes, secret: bytes) -> bool:
    peer.settimeout(STRANGER_S)
    nonce = secrets.token_bytes(NONCE_BYTES)
    try:
        peer.sendall(nonce)
        if not hmac.compare_digest(_read(peer, DIGEST_BYTES), _proof(nonce, secret)):
            return False
        peer.sendall(unique_id)
    except (EOFError, OSError):
        return False
    return True


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
    return f"{address[0]}:{address[1]}"


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
