import { expect, test } from "vitest";
import { causeWords } from "../../src/pure/cause";
import { concerns } from "../../src/pure/findings";
import { distinctNames } from "../../src/pure/names";
import { communicator, finding, job } from "./fixture";

test("causes are words, known ones and those to come", () => {
  expect(["nic_down", "capped_by_peer", "doubled", "fewer_nics"].map(causeWords)).toEqual(["NIC down", "capped by a peer that found fewer", "doubled", "fewer NICs"]);
});

test("a job is concerned by the hardware of its hosts while it lives", () => {
  const down = finding({ finding: "nic_degraded", job: "", comm: "", host: "host-2" });
  const live = job({ hosts: ["host-1", "host-2"] });
  expect([live, job({ hosts: ["host-1"] }), job({ hosts: ["host-2"], state: "ended" }), undefined].map((one) => concerns(down, one))).toEqual([true, false, false, false]);
});

test("communicators of one name are told apart by their host, else by their id", () => {
  const names = distinctNames([
    communicator({ id: "aaaaaaaaaaaa", name: "tp", hosts: ["host-1"] }), communicator({ id: "bbbbbbbbbbbb", name: "tp", hosts: ["host-1", "host-2"] }),
    communicator({ id: "cccccccccccc", name: "world" }),
  ]);
  expect([...names.values()]).toEqual(["tp · host-1", "tp · bbbbbb", "world"]);
});
