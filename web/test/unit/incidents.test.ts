import { expect, test } from "vitest";
import { callTable, circle, lastCalls, otherDetails, ranksIn } from "../../src/pure/calls";
import { inTrouble, worstFirst } from "../../src/pure/condition";
import { brief, culpritName, isSilenced, moments, speaker, suspects, telling, timeWords, untold, victimWords, worstIncidentsFirst } from "../../src/pure/incidents";
import { finding, host, incident, NOW } from "./fixture";

test("the worst incident comes first, of equals the one that began first", () => {
  const all = [
    incident({ id: "a", severity: "warning", began_at: "2026-03-01T01:00:00Z" }), incident({ id: "b", began_at: "2026-03-01T03:20:00Z" }), incident({ id: "c", began_at: "2026-03-01T03:10:00Z" }),
  ];
  expect(worstIncidentsFirst(all).map((one) => one.id)).toEqual(["c", "b", "a"]);
  const past = incident({ id: "d", began_at: "2026-03-01T00:10:00Z", job_ended_at: "2026-03-01T03:00:00Z" });
  expect(worstIncidentsFirst([past, ...all]).map((one) => one.id)).toEqual(["c", "b", "a", "d"]);
});

test("who signed in is named, whoever they say to be", () => {
  expect(speaker("", "ann")).toBe("ann");
  expect(speaker("ops", "ops")).toBe("ops");
  expect(speaker("ops", "ann")).toBe("ops (for ann)");
});

test("since when and for how long, from the true beginning; from when to when where it is over", () => {
  expect(timeWords(incident(), NOW)).toEqual(["since", ", for 13 min"]);
  expect(timeWords(incident({ resolved_at: "2026-03-01T03:20:08Z" }), NOW)).toEqual(["", ", lasted 7 min"]);
  expect(timeWords(incident({ resolved_at: "2026-03-01T03:20:08Z", job_ended_at: "2026-03-01T03:20:00Z" }), NOW)).toEqual(["", ", lasted 7 min, ended with its job"]);
});

test("what an incident says in full is elsewhere only begun", () => {
  const sentence = "rank 5 on host-2 has not called AllReduce #1042 that 7 ranks wait in: it is blocked reading /mnt/nfs/shard-17 (`ls; df`); its thread 71 has been there since 14:03:07";
  const start = "rank 5 on host-2 has not called AllReduce #1042 that 7 ranks wait in";
  expect(brief(sentence, [{ sentence }])).toBe(start);
  expect(brief(`it waits: R${sentence.slice(1)}; and 2 more incidents`, [{ sentence: `${sentence}.` }])).toBe(`it waits: R${start.slice(1)}; and 2 more incidents`);
  expect(brief(sentence, [])).toBe(sentence);
  const line = "rank 3 on host-1 was killed in AllReduce #1041; 7 ranks wait in AllReduce #1042";
  expect(brief(line, [{ sentence: line }])).toBe(line);
  const command = `on host-2 somebody typed \`a; b\` ${"and waits ".repeat(9)}for ever`;
  expect(brief(command, [{ sentence: command }])).toBe(command);
});

test("victims are counted and not named", () => {
  expect([0, 1, 31].map((n_victims) => victimWords(incident({ n_victims })))).toEqual(["", "1 rank waits because of it", "31 ranks wait because of it"]);
  expect(victimWords(incident({ n_victims: 2, state: "resolved" }))).toBe("2 ranks waited because of it");
});

test("culprits by rank and host", () => {
  const at = (rank: number, name: string) => ({ host: name, rank, doing: "" });
  expect(culpritName([at(5, "host-2")])).toBe("rank 5 on host-2");
  expect(culpritName([at(0, "a"), at(1, "a"), at(2, "b")])).toBe("ranks 0–2 on a and b");
  expect(culpritName([{ host: "host-9", doing: "not heard of" }])).toBe("host-9");
  expect(culpritName([{ host: "host-9", global_rank: 3, pid: 7, doing: "asleep" }])).toBe("rank 3 of the job on host-9");
});

test("suspects are those whom incidents accuse, then what else is found wrong; who only waits is none", () => {
  const waits = host("host-0", { standing: { condition: "hung", reason: "it waits" } });
  const slow = host("host-7", { standing: { condition: "degraded", reason: "a NIC is down" }, findings: { critical: 0, warning: 1, info: 0 } });
  expect(suspects([incident()], [waits, slow])).toEqual(["host-2", "host-7"]);
});

test("silence ends by itself", () => {
  const one = incident({ silenced_until: "2026-03-01T03:30:00Z" });
  expect([isSilenced(one, NOW), isSilenced(one, NOW + 3_600_000)]).toEqual([true, false]);
});

test("what was known when, counted from the true beginning", () => {
  const seen = moments(incident({ timeline: [{ at: "2026-03-01T03:13:10.300Z", text: "named" }, { at: "2026-03-01T03:13:08Z", text: "began" }, { at: "2026-03-01T03:13:05Z", text: "before" }] }));
  expect(seen.map(({ after, text }) => [after, text])).toEqual([["3.0 s before", "before"], ["it began", "began"], ["after 2.3 s", "named"]]);
  expect(seen.map(({ pauseS }) => pauseS)).toEqual([0, 3, 2.3]);
});

test("hosts: failed before hung before degraded; unknown is no trouble", () => {
  const of = (name: string, condition: "healthy" | "unknown" | "degraded" | "hung" | "failed") => host(name, { standing: { condition, reason: "x" } });
  const all = [of("a", "healthy"), of("b", "unknown"), of("c", "degraded"), of("d", "failed"), of("e", "hung")];
  expect(worstFirst(all).map((one) => one.host)).toEqual(["d", "e", "c", "b", "a"]);
  expect(all.filter((one) => inTrouble(one.standing)).map((one) => one.host)).toEqual(["c", "d", "e"]);
});

test("calls side by side: what is not as most ranks called it is marked", () => {
  const table = callTable([
    { title: "Rank 2, thread MainThread", lines: ["all_reduce (x.py:1)"] },
    { title: "Call #42 of c0ffee, side by side", lines: ["rank 2: all_reduce of 1025 float32 (sum)", "ranks 0, 1, 3 and 4 more: all_reduce of 262144 float32 (sum)"] },
  ]);
  expect(table!.rows.map(({ who, fields }) => [who, fields.map(({ words, differs }) => (differs ? `≠${words}` : words))])).toEqual([
    ["rank 2", ["all_reduce", "≠1025", "float32", "sum"]],
    ["ranks 0, 1, 3 and 4 more", ["all_reduce", "262144", "float32", "sum"]],
  ]);
});

test("of two ranks nobody knows which is right; lines that are no calls are no table", () => {
  const table = callTable([{ title: "The calls", lines: ["rank 0: broadcast of 4 int8 from rank 0", "rank 1: broadcast of 4 int8 from rank 1"] }]);
  expect(table!.rows.map(({ fields }) => fields.filter((one) => one.differs).map((one) => one.words))).toEqual([["from rank 0"], ["from rank 1"]]);
  expect(callTable([{ title: "Open calls of rank 1", lines: ["all_reduce #7 of c0ffee", "all_gather #3 of beef"] }])).toBeUndefined();
});

test("sends and receives of a pair, and last calls beside each other", () => {
  const pair = callTable([{ title: "From rank 0 to rank 1", lines: ["rank 0 has called send 3 times, 768 bytes", "rank 1 has called recv 2 times, 768 bytes"] }]);
  expect(pair!.rows.map(({ who, fields }) => [who, ...fields.map(({ words, differs }) => (differs ? `≠${words}` : words))])).toEqual([["rank 0, send", "≠3 times", "768 bytes"], ["rank 1, recv", "≠2 times", "768 bytes"]]);
  const details = [
    { title: "Last calls of rank 3", lines: ["#9 all_gather of 8 int8", "#10 all_reduce of 7 int8 (sum)"] }, { title: "Last calls of rank 0", lines: ["#10 all_reduce of 8 int8 (sum)"] },
    { title: "Who is where", lines: ["in the init: rank 3"] },
  ];
  expect(lastCalls(details)).toEqual({
    heads: ["rank 3", "rank 0"],
    rows: [{ number: "9", cells: ["all_gather of 8 int8", ""], differs: false }, { number: "10", cells: ["all_reduce of 7 int8 (sum)", "all_reduce of 8 int8 (sum)"], differs: true }],
  });
  expect(otherDetails(details).map((one) => one.title)).toEqual(["Who is where"]);
});

test("how many ranks words name", () => {
  const words = ["rank 3", "ranks 0–2, 5", "ranks 0 to 7", "ranks 1, 4 and 12 more", "rank 5 (host-3, pid 4711)", "7 others", "who knows"];
  expect(words.map(ranksIn)).toEqual([1, 4, 8, 14, 1, 7, 1]);
});

test("a circle is read from its lines, else from what the culprits do; communicators by the names that are known", () => {
  const known = new Map([["c0ffee012345", "tensor"], ["beef00012345", "data"]]);
  const lines = ["ranks 0 and 1 in all_reduce #60 of c0ffee012345 (tensor)", "rank 3 in all_gather #7 of 0123456789ab (expert)"];
  expect(circle([], [{ title: "The circle", lines }], known).map(({ from, to, communicator }) => [from, communicator, to])).toEqual([
    ["ranks 0 and 1", { id: "c0ffee012345", name: "tensor" }, "rank 3"],
    ["rank 3", { name: "expert" }, "ranks 0 and 1"],
  ]);
  const culprits = [{ host: "a", rank: 1, doing: "is in send to rank 2 of data" }, { host: "b", rank: 2, doing: "is in send to rank 1 of data" }];
  expect(circle(culprits, [], known).map(({ from, to, communicator }) => [from, communicator?.name, to])).toEqual([["rank 1", "data", "rank 2"], ["rank 2", "data", "rank 1"]]);
  expect(circle(culprits.slice(1), [], known)).toEqual([]);
});

test("what an open incident tells is not told once more: not by its findings, nor by what stands as it does because of it", () => {
  const told = [incident({ id: "f-1", findings: ["f-1", "f-2"], sentence: "rank 5 on host-2 has not called AllReduce #7." })];
  const all = [finding({ id: "f-1" }), finding({ id: "f-2" }), finding({ id: "f-3", incident: "f-1" }), finding({ id: "f-4", incident: "f-9" }), finding({ id: "f-5", incident: "" })];
  expect(untold(all, told).map((one) => one.id)).toEqual(["f-4", "f-5"]);
  expect(untold(all, [])).toHaveLength(5);
  expect(telling("It waits: Rank 5 on host-2 has not called AllReduce #7", told)?.id).toBe("f-1");
  expect(telling("rank 5 on host-2 has not called AllReduce", told)).toBeUndefined();
});

test("what is measured anew is told once all the same: numbers may differ, names and ranks may not", () => {
  const one = { id: "f-2", sentence: "Rank 5 (node-2, pid 7) takes 114 ms of its own in each step, the 7 ranks that do the same work 33 ms: 40 % of the job's time", findings: [] };
  const anew = "rank 5 (node-2, pid 7) takes 95.5 ms of its own in each step, the 7 ranks that do the same work 9 ms: 44 % of the job's time";
  expect(telling(`node-2: ${anew}`, [one])?.id).toBe("f-2");
  expect(telling(anew.replace("rank 5", "rank 6"), [one])).toBeUndefined();
  expect(telling(anew.replace("node-2", "node-3"), [one])).toBeUndefined();
  expect(brief(`${anew}; and 1 more incident`, [one])).toMatch(/^rank 5 \(node-2, pid 7\) takes 95\.5 ms .*; and 1 more incident$/);
  expect(brief(`${anew}; and 1 more incident`, [one]).length).toBeLessThan(anew.length);
});
