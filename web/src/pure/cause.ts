/** Why channels or hops are what they are, as people say it. Pure. */

import { words } from "./format";

/** Those whose label does not speak for itself; the daemon's labels are in `daemon/judge/src`. */
const WORDS: Record<string, string> = {
  capped_by_peer: "capped by a peer that found fewer",
  coincidence: "doubled, other rules make up for a peer",
  max_channels: "the library's maximum",
  max_nchannels: "set maximum",
  min_nchannels: "set minimum",
  "collnet_x1.5": "half as many more for CollNet",
  hopper_x2: "doubled again on Hopper",
  hopper_off_by_peer: "not doubled on Hopper because of a peer",
  unpack_x2: "doubled again for a network that unpacks",
  nvls_raise: "raised for NVLS",
  shared_parent: "those of the communicator it was split from",
  rccl: "RCCL's own rules",
  unexplained: "no rule explains it",
  unknown: "not known",
  fewer_channels: "found fewer channels",
  peer_limits: "a peer found fewer channels",
  cross_rail: "NICs of different rails",
  network_inside_host: "network inside the host",
  shm: "shared memory instead of peer to peer",
  nic_down: "NIC down",
  nic_slow: "NIC slower than its like",
  gpu_missing: "GPU missing",
  late_start: "begins its pushes late",
  slow_push: "its pushes take long",
  uneven_use: "some tensors are pushed more often",
  coarse_parts: "parts too large to be spread evenly",
  not_submitted: "its program has not submitted it",
  in_pipeline: "it is in the worker's pipeline",
  not_taken: "it does not read its answers",
  not_heard: "nothing is heard of it",
};

export function causeWords(cause: string): string {
  return WORDS[cause] ?? words(cause).replace(/\bnic(s?)\b/g, "NIC$1");
}
