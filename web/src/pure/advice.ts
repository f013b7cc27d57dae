/** What to do about a conclusion, for who reads it at night. Pure. */

import type { Finding, Rank } from "../api";
import { list } from "./format";

/** One or two sentences, commands between backticks; undefined where there is nothing to do. */
export function advice(finding: Finding): string | undefined {
  const { finding: kind, host, cause, nic } = finding;
  if (nic != null && (kind === "nic_degraded" || kind === "channel_shortfall" || kind === "channel_regression")) {
    // RDMA devices are called mlx5_0, bnxt_re0, …; what else there is has no `ibstat`.
    const look = /_(re)?\d+$/.test(nic) ? `ibstat ${nic}` : `ip -s link show ${nic}`;
    return (
      `Look at ${nic} of ${host}, its cable and its switch port: \`${look}\`, \`ip -br link\`, \`dmesg -T | grep ${nic}\`. ` +
      "Once mended, a job uses it when it next forms its communicators; until then take the host out if the job can do without."
    );
  }
  if (kind === "gpu_missing") {
    return `Look at the GPUs of ${host}: \`nvidia-smi -L\` and \`dmesg -T | grep -i xid\` there; one that fell off the bus comes back with a reset or a restart of the host.`;
  }
  if (kind === "channel_shortfall" || kind === "channel_regression") {
    return (
      `Probably a NIC or a GPU link of ${host} is down or hidden: compare \`ip -br link\`, \`ibstat\` and ` +
      "`nvidia-smi topo -m` there with a healthy host. Once mended, the job uses it when it next forms its communicators."
    );
  }
  if (kind === "final_disagrees") {
    return "The communicator will hang: stop the job, give every rank the same NCCL version and the same NCCL_* settings, start it again.";
  }
  if (kind === "init_below_half_final" && cause === "unexplained") {
    return `Compare the NCCL_* settings and the NCCL version of ${host} with those of the other hosts.`;
  }
  if (kind === "transport_fallback") {
    return (
      `The bytes arrive, slower: look at \`ibstat\`, \`NCCL_IB_HCA\`, \`NCCL_P2P_DISABLE\` and \`nvidia-smi topo -p2p n\` on ${host}, ` +
      "and whether `nvidia-peermem` is loaded there as on the other hosts."
    );
  }
  if (kind === "rail_mismatch") {
    return `Traffic of ${host} crosses the spine: compare the order of its NICs (\`NCCL_IB_HCA\`, PCI slots) with the other hosts', and \`NCCL_CROSS_NIC\`.`;
  }
  return undefined;
}

/** Ranks wait for ranks that are gone, or late, or for nobody. */
export function adviceOnWait(killed: Rank[], late: Rank[]): string {
  if (killed.length > 0) {
    return `The others will wait for ever: look into \`dmesg -T\` on ${hosts(killed)} (out of memory, Xid), then start the job again.`;
  }
  if (late.length > 0) {
    return (
      `The others wait for ${hosts(late)}: look at what the process does (\`py-spy dump --pid ${late[0]!.pid}\` on ${late[0]!.host}), ` +
      "at its input data and its GPU, before the network."
    );
  }
  return "Every rank has arrived and the bytes do not: look at the NICs and switches between the hosts, then start the job again.";
}

function hosts(ranks: Rank[]): string {
  return list([...new Set(ranks.map((rank) => rank.host))], 3);
}
