import { expect, test } from "vitest";
import { hostsIn, shortNames } from "../../src/pure/host-names";

const short = (...hosts: string[]) => [...shortNames(hosts).values()];

test.each([
  ["short names stay", ["host-0", "host-10"], ["host-0", "host-10"]],
  ["a domain that all share is cut", ["gpu-1.rack.example.com", "gpu-2.rack.example.com"], ["gpu-1", "gpu-2"]],
  ["so is that of one host alone", ["ip-10-128-0-17.us-west-2.compute.internal"], ["ip-10-128-0-17"]],
  ["as much of it stays as tells hosts apart", ["n1.a.example.com", "n1.b.example.com", "n2.a.example.com"], ["n1.a", "n1.b", "n2"]],
  ["a host that is called as the domain of another", ["n1", "n1.example.com"], ["n1", "n1.example"]],
  ["addresses stay whole", ["10.0.0.1", "10.0.0.2", "fd00::17"], ["10.0.0.1", "10.0.0.2", "fd00::17"]],
  ["a long beginning that all share is cut at a word", ["training-cluster-blue-gpu-node-0017", "training-cluster-blue-gpu-node-0018"], ["…node-0017", "…node-0018"]],
  ["a beginning that not all share stays", ["training-cluster-blue-gpu-17", "storage-3"], ["training-cluster-blue-gpu-17", "storage-3"]],
])("%s", (_what, hosts, names) => expect(short(...hosts)).toEqual(names));

test("a name of 63 characters without a stop loses its middle", () => {
  const long = `${"a".repeat(30)}${"b".repeat(29)}0017`;
  expect(short(long)).toEqual(["aaaaaaaaaaaa…bbbbbbbbbbb0017"]);
  expect(long).toHaveLength(63);
});

test("two long names that would look the same stay whole", () => {
  const [a, b] = [`${"a".repeat(20)}x${"b".repeat(42)}`, `${"a".repeat(20)}y${"b".repeat(42)}`];
  expect(short(a, b)).toEqual([a, b]);
});

test("a thousand hosts keep names of their own", () => {
  const hosts = Array.from({ length: 1000 }, (_, i) => `p4d-24xlarge-pretraining-${i % 10}-node-${i}.eu-central-1.compute.internal`);
  expect(new Set(short(...hosts)).size).toBe(1000);
  expect(Math.max(...short(...hosts).map((name) => name.length))).toBeLessThan(25);
});

test("hosts in a sentence are found, whatever stands beside them", () => {
  const names = shortNames(["gpu-1.example.com", "gpu-2.example.com"]);
  expect(hostsIn("rank 5 on gpu-1.example.com, and gpu-2.example.com: both.", names)).toEqual(["rank 5 on ", "gpu-1.example.com", ", and ", "gpu-2.example.com", ": both."]);
  expect(hostsIn("gpu-10.example.com is another", names)).toEqual(["gpu-10.example.com is another"]);
});
