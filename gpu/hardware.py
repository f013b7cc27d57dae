"""What the agent tells of this machine's GPUs, against nvidia-smi."""

import socket
import time
import urllib.error

import machine

# The agent reads the hardware when it begins, and each half minute.
READ_S = 40


def hardware(scenarios):
    scenario = scenarios.report.add("hardware")
    if scenarios.stage.is_engine:
        scenario.skip("there is no GPU to compare with")
        return
    host = socket.gethostname()
    found, ends = None, time.monotonic() + READ_S
    while found is None and time.monotonic() < ends:
        try:
            found = scenarios.daemon.get("nodes/" + host).get("hardware")
        except urllib.error.HTTPError as error:
            scenario.facts["answer"] = str(error)
        time.sleep(0.5)
    told = [{name: gpu.get(name) for name in ("index", "name", "uuid", "pci")} for gpu in (found or {}).get("gpus") or []]
    scenario.equal("GPUs = nvidia-smi", told, machine.gpus())
    scenario.facts["hardware"] = found
