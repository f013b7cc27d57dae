/** The canvas of a job's timeline alone, over as many operations as asked for: what `test/perf-timeline.mjs` measures. */

import { signal } from "@preact/signals";
import { render } from "preact";
import type { JobTimeline } from "../../src/pure/job-timeline";
import "../../src/styles/base.css";
import "../../src/styles/time.css";
import { TimelineCanvas } from "../../src/view/job-timeline";

/** One call after the other in one communicator; one rank comes late. */
function made(nRanks: number, calls: number): JobTimeline {
  const n = nRanks * calls;
  const of: JobTimeline = {
    fromMs: Date.parse("2026-03-01T03:00:00Z"), endUs: calls * 10_000, hiddenRanks: 0, clocks: [], primitives: ["all_reduce"], every: 1,
    ranks: Array.from({ length: nRanks }, (_, rank) => ({ rank, host: `host-${rank >> 3}`, pid: rank })), communicators: [{ id: "c", name: "world", n_ranks: nRanks, every: 1 }],
    start: Uint32Array.from({ length: nRanks + 1 }, (_, row) => row * calls), row: new Uint16Array(n), comm: new Uint16Array(n), call: new Uint32Array(n), primitive: new Uint8Array(n),
    called: new Float64Array(n), last: new Float64Array(n), isSplit: new Uint8Array(n).fill(1), completed: new Float64Array(n), ends: new Float64Array(n),
  };
  for (let row = 0, i = 0; row < nRanks; row += 1) {
    for (let call = 0; call < calls; call += 1, i += 1) {
      const begin = call * 10_000;
      of.row[i] = row;
      of.call[i] = call;
      of.called[i] = begin + 3_000 + ((row * 7919 + call * 104_729) % 1_500) + (row % 613 === 5 ? 2_000 : 0);
      of.last[i] = begin + 6_500;
      of.completed[i] = begin + 8_800 + ((row * 31 + call) % 300);
      of.ends[i] = of.completed[i]!;
    }
  }
  return of;
}

/** Milliseconds from having the operations to a picture of them on the screen. */
async function firstPaint(nRanks: number, calls: number): Promise<number> {
  const of = made(nRanks, calls);
  const page = document.getElementById("page")!;
  render(null, page);
  await new Promise((drawn) => setTimeout(drawn, 100));
  const startMs = performance.now();
  render(<TimelineCanvas of={of} pinned={signal(-1)} looking={signal(false)} />, page);
  const isPainted = () => {
    const canvas = page.querySelector("canvas");
    if (canvas === null || canvas.width < 600) return false;
    const [r, g, b] = canvas.getContext("2d")!.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data;
    return r! + g! + b! > 0 && !(r === 253 && g === 253 && b === 251);
  };
  return new Promise((done) => {
    const look = () => requestAnimationFrame(() => {
      if (isPainted()) setTimeout(() => done(performance.now() - startMs));
      else look();
    });
    look();
  });
}

/** Milliseconds that each picture took to be made. */
const pictures: number[] = [];
const ask = globalThis.requestAnimationFrame.bind(globalThis);
globalThis.requestAnimationFrame = (draw) => ask((ms) => {
  const startMs = performance.now();
  draw(ms);
  pictures.push(performance.now() - startMs);
});

/** Lengths of frames and how long pictures took, until `stop()` is called. */
function frames(): () => { lengths: number[]; pictures: number[] } {
  const times: number[] = [];
  let on = true;
  pictures.length = 0;
  const tick = (ms: number) => {
    times.push(ms);
    if (on) ask(tick);
  };
  ask(tick);
  return () => {
    on = false;
    return { lengths: times.slice(1).map((ms, i) => ms - times[i]!), pictures: [...pictures] };
  };
}

Object.assign(globalThis, { firstPaint, frames });
