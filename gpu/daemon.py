"""The local `ringscope serve`, and what it answers."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

START_S = 30


class Daemon:
    """A daemon on loopback with SQLite in the stage's folder. Use as a context."""

    def __init__(self, stage):
        self.stage = stage
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = None

    def __enter__(self):
        command = [self.stage.ringscope, "serve", "--listen", "127.0.0.1:%d" % self.port, "--agent-other-hosts", "true"]
        command += ["--data-dir", os.path.join(self.stage.dir, "data"), "--agent-dir", self.stage.segments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGSCOPE_")}
        path = os.path.join(self.stage.dir, "serve.log")
        with open(path, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        ends = time.monotonic() + START_S
        while True:
            try:
                self.get("jobs")
                return self
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None or time.monotonic() > ends:
                    self.__exit__()
                    with open(path, errors="replace") as log:
                        raise RuntimeError("ringscope serve does not answer: " + log.read()[-500:])
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path, **query):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port, path, urllib.parse.urlencode(query))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as answer:
            return json.load(answer)

    def communicators(self, job):
        """Every communicator of a job: detail, rings, primitives."""
        found = []
        for summary in self.get("communicators", job=job, limit=1000)["items"]:
            path = "communicators/" + summary["id"]
            one = {"detail": self.get(path), "primitives": self.get(path + "/primitives")["ranks"]}
            one["rings"] = self.get(path + "/rings")["rings"]
            found.append(one)
        return found

    def findings(self, job):
        return self.get("findings", job=job, limit=1000)["items"]

    def await_communicators(self, job, is_so, patience_s):
        """The communicators once `is_so` holds of them; as they are, if it never does."""
        ends = time.monotonic() + patience_s
        while True:
            found = self.communicators(job)
            if is_so(found) or time.monotonic() > ends:
                return found
            time.sleep(0.2)


def counted(communicators, rank, field):
    """{primitive: value} of one rank, summed over its communicators; zeros left out."""
    sums = {}
    for communicator in communicators:
        for one in communicator["primitives"]:
            if one["rank"] == rank:
                for totals in one["primitives"]:
                    sums[totals["primitive"]] = sums.get(totals["primitive"], 0) + totals[field]
    return {primitive: value for primitive, value in sums.items() if value}
