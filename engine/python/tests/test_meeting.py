"""How ranks of a communicator meet, among strangers."""

import socket
import sys
import threading
import time
import unittest
from unittest import mock

from _job import PACKAGE, free_address

sys.path.insert(0, str(PACKAGE))

from ringscope_engine import _meeting, collective  # noqa: E402  where it is was said above
from ringscope_engine._errors import Error  # noqa: E402

SECRET, ID = b"of the job", bytes(range(128))
LIMIT_S = 60.0


class Meeting(unittest.TestCase):
    def setUp(self) -> None:
        self.address = _meeting.address_of(free_address())
        self.strangers: list[socket.socket] = []
        self.error: list[Error] = []

    def tearDown(self) -> None:
        for stranger in self.strangers:
            stranger.close()

    def shared(self, n_others: int, timeout_s: float = LIMIT_S) -> threading.Thread:
        """Rank 0, once it listens."""

        def share() -> None:
            try:
                _meeting.share(ID, self.address, n_others, SECRET, timeout_s)
            except Error as error:
                self.error.append(error)

        thread = threading.Thread(target=share)
        thread.start()
        self.connect()
        return thread

    def connect(self) -> socket.socket:
        """A stranger, who says nothing; once rank 0 has taken him."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                stranger = socket.create_connection(self.address, timeout=LIMIT_S)
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), deadline)
                continue
            self.strangers.append(stranger)
            self.assertEqual(len(stranger.recv(_meeting.NONCE_BYTES)), _meeting.NONCE_BYTES)
            return stranger

    def fetch(self) -> bytes:
        return _meeting.fetch(len(ID), self.address, SECRET, LIMIT_S)

    def test_silent_strangers_hold_nobody_up(self) -> None:
        thread = self.shared(3)
        begun = time.monotonic()
        for _ in range(20):
            self.connect()
        for _ in range(3):
            self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        # A few ms; one stranger after the other would be 40 s.
        self.assertLess(time.monotonic() - begun, _meeting.STRANGER_S)
        self.assertFalse(thread.is_alive() or self.error)

    def test_more_strangers_than_are_held(self) -> None:
        thread = self.shared(1)
        for _ in range(_meeting.MAX_HELD + 10):
            self.connect()
        self.assertEqual(self.strangers[0].recv(1), b"", "the oldest is still held")
        self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        self.assertFalse(thread.is_alive() or self.error)

    def test_a_stranger_is_held_for_no_longer_than_its_time(self) -> None:
        thread = self.shared(1)
        begun = time.monotonic()
        self.connect().sendall(b"a part")
        self.assertEqual(self.strangers[-1].recv(1), b"")
        self.assertLess(time.monotonic() - begun, 10 * _meeting.STRANGER_S)
        self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        self.assertFalse(self.error)

    def test_who_does_not_know_the_secret_learns_nothing(self) -> None:
        thread = self.shared(1)
        with self.assertRaisesRegex(Error, "is the secret the same"):
            _meeting.fetch(len(ID), self.address, b"another", LIMIT_S)
        for answer in (b"x" * _meeting.DIGEST_BYTES, b"x" * 1000):
            stranger = self.connect()
            stranger.sendall(answer)
            try:
                self.assertEqual(stranger.recv(1), b"")
            except ConnectionResetError:
                pass
        self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        self.assertFalse(self.error)

    def test_an_answer_may_come_in_pieces(self) -> None:
        thread = self.shared(1)
        peer = socket.create_connection(self.address, timeout=LIMIT_S)
        self.strangers.append(peer)
        proof = _meeting._proof(_meeting._read(peer, _meeting.NONCE_BYTES), SECRET)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(proof), 8):
            peer.sendall(proof[at : at + 8])
        self.assertEqual(_meeting._read(peer, len(ID)), ID)
        thread.join(LIMIT_S)
        self.assertFalse(self.error)

    def test_an_address_of_ipv6(self) -> None:
        port = self.address[1]
        self.address = _meeting.address_of(f"[::1]:{port}")
        thread = self.shared(1)
        self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        self.assertFalse(self.error)
        with self.assertRaisesRegex(Error, rf"does not listen on \[::1\]:{port}"):
            _meeting.fetch(len(ID), self.address, SECRET, 0.1)

    def test_a_port_that_is_taken_is_named(self) -> None:
        with socket.create_server(self.address):
            with self.assertRaisesRegex(Error, f"cannot listen on 127.0.0.1:{self.address[1]}.* pass another place"):
                _meeting.share(ID, self.address, 1, SECRET, LIMIT_S)

    def test_a_name_that_is_not_known_yet_is_asked_for_again(self) -> None:
        real, failures = socket.getaddrinfo, [socket.gaierror("not yet"), socket.gaierror("not yet")]

        def looked_up(*arguments, **settings):
            if threading.current_thread() is threading.main_thread() and failures:
                raise failures.pop()
            return real(*arguments, **settings)

        thread = self.shared(1)
        with mock.patch("socket.getaddrinfo", looked_up):
            self.assertEqual(self.fetch(), ID)
        self.assertFalse(failures)
        thread.join(LIMIT_S)

    def test_torchruns_own_port_is_refused_at_once(self) -> None:
        settings = {"TORCHELASTIC_USE_AGENT_STORE": "True", "RANK": "1", "WORLD_SIZE": "2", "RSUM_SECRET": "s"}
        with mock.patch.dict("os.environ", {**settings, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}):
            with self.assertRaisesRegex(Error, "torchrun's own here: pass root="):
                collective.init(timeout_s=LIMIT_S)

    def test_ranks_that_do_not_come_are_counted(self) -> None:
        thread = self.shared(2, timeout_s=1.0)
        self.assertEqual(self.fetch(), ID)
        thread.join(LIMIT_S)
        self.assertRegex(str(self.error[0]), "^1 ranks have not come to")


if __name__ == "__main__":
    unittest.main()
