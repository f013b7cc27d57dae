"""Where a run of the bundle takes place: folders, programs, and the environment that makes a process an NCCL node."""

import os
import shutil
import tempfile

import machine

BUFFER_BYTES = 1 << 20
NICS_PER_HOST = 2


class Stage:
    """What every job needs. Use as a context: its temporary folders end with it."""

    def __init__(self, bundle, engine):
        self.bundle = bundle
        self.scripts = os.path.dirname(os.path.abspath(__file__))
        self.ringscope = os.path.join(bundle, "ringscope")
        self.device = "host" if engine else "cuda"
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="ringscope-gpu-")
        self.segments = tempfile.mkdtemp(prefix="ringscope-gpu-", dir=memory)
        self.cache = os.path.join(self.dir, "cache")
        self.cudart, self.own_host_names = None, False
        try:
            self._find(engine)
        except BaseException:
            self.__exit__()
            raise

    def _find(self, engine):
        if engine:
            folder = os.path.join(self.dir, "lib")
            os.mkdir(folder)
            self.nccl = os.path.join(folder, "libnccl.so.2")
            os.symlink(os.path.join(self.bundle, "librsccl.so"), self.nccl)
        else:
            self.nccl = machine.find("libnccl.so.2")
            self.cudart = machine.find("libcudart.so.*")
            self.own_host_names = machine.own_host_names()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.segments, ignore_errors=True)

    @property
    def is_engine(self):
        return self.device == "host"

    @property
    def has_hosts(self):
        """Whether every node has a host name of its own."""
        return self.is_engine or self.own_host_names

    def host_name(self, host):
        return "node-%d" % host

    def environment(self, host):
        """Settings that make a process a node of its own, whose traffic goes over sockets."""
        if self.is_engine:
            return {
                "RINGSCOPE_HOST": self.host_name(host),
                "RSCCL_HOST": self.host_name(host),
                "RSCCL_NICS": self.nics(host, NICS_PER_HOST),
            }
        return {
            "NCCL_HOSTID": self.host_name(host),
            "CUDA_VISIBLE_DEVICES": "0",
            "NCCL_NET": "Socket",
            "NCCL_IB_DISABLE": "1",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_NVLS_ENABLE": "0",
            "NCCL_MNNVL_ENABLE": "0",
            # All connections are then made, and logged, at init.
            "NCCL_CUMEM_ENABLE": "0",
            # Few and small: the ranks share one GPU.
            "NCCL_MAX_NCHANNELS": "4",
            "NCCL_BUFFSIZE": str(BUFFER_BYTES),
        }

    def nics(self, host, number):
        """Loopback addresses that stand for NICs of a pretended host."""
        return ",".join("nic%d=127.2.%d.%d" % (nic, host + 1, nic + 1) for nic in range(number))
