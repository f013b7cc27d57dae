"""What this machine has: a GPU and its driver, NCCL and CUDA's runtime library (from PyTorch's wheels), PyTorch."""

import glob
import importlib.util
import os
import re
import subprocess
import sys

LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64", "/usr/local/lib"]


class NotThere(Exception):
    """Something that the scenarios need is missing; the text says what and where it was looked for."""


def wheel_folders():
    """The folders in which NVIDIA's wheels keep libraries: nvidia/nccl/lib, nvidia/cu13/lib, ..."""
    folders = []
    for path in sys.path:
        folders += sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))
    return folders


def find(pattern):
    """Path of the first file of this name in the wheels, LD_LIBRARY_PATH and the system's folders."""
    folders = wheel_folders() + os.environ.get("LD_LIBRARY_PATH", "").split(":") + LIBRARY_FOLDERS
    for folder in filter(None, folders):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        if found:
            return found[-1]
    raise NotThere("no %s in %s" % (pattern, ":".join(filter(None, folders))))


def has_torch():
    return importlib.util.find_spec("torch") is not None


def torch_version():
    """PyTorch's version, its NCCL and whether it sees a GPU, told by a process of its own."""
    code = (
        "import torch; print(torch.__version__); print(torch.cuda.is_available());"
        "print('.'.join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_nccl_available() else 'none')"
    )
    try:
        lines = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, timeout=120, check=True
        ).stdout.split()
        return {"version": lines[0], "sees_gpu": lines[1] == "True", "nccl": lines[2]}
    except (subprocess.SubprocessError, IndexError) as error:
        return {"version": None, "sees_gpu": False, "problem": str(error)}


def gpu():
    """Name and driver of the first GPU, as nvidia-smi says."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_mode", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, stdout=subprocess.PIPE, universal_newlines=True, timeout=60, check=True).stdout
        name, driver, mode = [part.strip() for part in text.splitlines()[0].split(",")]
        return {"name": name, "driver": driver, "compute_mode": mode}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return {"problem": "nvidia-smi: %s" % error}


def gpus():
    """Index, name, UUID and PCI address (as sysfs writes it) of each GPU, as nvidia-smi says."""
    query = ["nvidia-smi", "--query-gpu=index,name,uuid,pci.bus_id", "--format=csv,noheader"]
    text = subprocess.run(query, stdout=subprocess.PIPE, universal_newlines=True, timeout=60, check=True).stdout
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    return [{"index": int(row[0]), "name": row[1], "uuid": row[2], "pci": row[3].lower()[4:]} for row in rows]


def own_host_names():
    """Whether a rank may be given a host name of its own (a UTS namespace)."""
    try:
        command = ["unshare", "-u", "hostname", "ringscope-probe"]
        return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def version_code(text):
    """2.28.9 as NCCL's own number, 22809."""
    parts = [int(part) for part in re.findall(r"\d+", text)[:3]]
    return parts[0] * 10000 + parts[1] * 100 + (parts[2] if len(parts) > 2 else 0)


def version_text(code):
    return "%d.%d.%d" % (code // 10000, code // 100 % 100, code % 100)
