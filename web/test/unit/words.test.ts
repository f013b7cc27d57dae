import { expect, test } from "vitest";
import { advice } from "../../src/pure/advice";
import { causeWords } from "../../src/pure/cause";
import { concerns } from "../../src/pure/findings";
import { reason } from "../../src/pure/health";
import { distinctNames } from "../../src/pure/names";
import { communicator, finding, host, job } from "./fixture";

test("causes are words, known ones and those to come", () => {
  expect(["nic_down", "capped_by_peer", "doubled", "fewer_nics"].map(causeWords)).toEqual(["NIC down", "capped by a peer that found fewer", "doubled", "fewer NICs"]);
});

test("the advice names the NIC where it is known", () => {
  expect(advice(finding({ finding: "channel_shortfall", host: "host-2", nic: "mlx5_3" }))).toMatch(/^Look at mlx5_3 of host-2, its cable.*`ibstat mlx5_3`/);
  expect(advice(finding({ finding: "nic_degraded", host: "host-2", nic: "eth0" }))).toMatch(/`ip -s link show eth0`/);
  expect(advice(finding({ finding: "channel_shortfall", host: "host-2" }))).toMatch(/^Probably a NIC or a GPU link of host-2/);
});

test("a job is concerned by the hardware of its hosts while it lives", () => {
  const down = finding({ finding: "nic_degraded", job: "", comm: "", host: "host-2" });
  const live = job({ hosts: ["host-1", "host-2"] });
  expect([live, job({ hosts: ["host-1"] }), job({ hosts: ["host-2"], state: "ended" }), undefined].map((one) => concerns(down, one))).toEqual([true, false, false, false]);
});

test("the reason that says its own cause comes first", () => {
  const reasons = ["nic1 of host-2 is down", "host-2 found 1 channel because nic1 is down, the others 2"];
  expect(reason(host("host-2", { reasons }))).toBe(reasons[1]);
});

test("communicators of one name are told apart by their host, else by their id", () => {
  const names = distinctNames([
    communicator({ id: "aaaaaaaaaaaa", name: "tp", hosts: ["host-1"] }), communicator({ id: "bbbbbbbbbbbb", name: "tp", hosts: ["host-1", "host-2"] }),
    communicator({ id: "cccccccccccc", name: "world" }),
  ]);
  expect([...names.values()]).toEqual(["tp · host-1", "tp · bbbbbb", "world"]);
});
