import { useComputed, useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Timeline } from "../api";
import { plural } from "../pure/format";
import { chain, clockWords, emptyWords, heldWords, hit, load, operationWords, type JobTimeline } from "../pure/job-timeline";
import { pyramid, type Pyramid } from "../pure/timeline-raster";
import { clamped, heightPx, moved, rowPx, scaled, type TimeView } from "../pure/timeline-view";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { isDark } from "../state/theme";
import { reset, zoom } from "../state/zoom";
import { Export } from "./export";
import { LatenessPanel, OneCall } from "./lateness";
import { MIN_DRAG_PX } from "./lines";
import { Panel } from "./panel";
import { AXIS_PX, painter, type Painter } from "./timeline-paint";
import { useWidth } from "./use-width";

/** A longer range of the page is shown by its end: operations are many. */
const MAX_SPAN_MS = 120_000;
/** Live, the answer is asked for anew so often. */
const STEP_MS = 30_000;
/** A hundred bytes each, before they are packed; of more the daemon tells those of rounder numbers. */
const LIMIT = 100_000;
/** Room for the names of ranks. */
const NAMES_PX = 116;
const NARROW_PX = 620;
/** A drawn range shorter than this is looked at here alone: other charts have no point in it. */
const SHARED_MS = 20_000;
/** Rows summed up in one go, while the page answers between. */
const ROWS_AT_ONCE = 48;
const FIRST_PICTURE_MS = 120;
const TABS = ["timeline", "lateness", "call"] as const;
type Tab = (typeof TABS)[number];
const TAB_NAMES: Record<Tab, string> = { timeline: "Timeline", lateness: "Lateness", call: "One call" };

/** How each rank of a job spends its time, operation by operation. Nothing where the daemon does not tell. */
export function JobTimelinePanel({ job }: { job: string }) {
  const cut = useComputed(() => store.range.value.toMs - store.range.value.fromMs > MAX_SPAN_MS).value;
  const path = useComputed(() => {
    const { fromMs, toMs, live } = store.range.value;
    const end = live ? Math.floor(toMs / STEP_MS) * STEP_MS : toMs;
    const from = Math.max(fromMs, end - MAX_SPAN_MS);
    return `jobs/${encodeURIComponent(job)}/timeline?from=${new Date(from).toISOString()}&to=${new Date(end).toISOString()}&limit=${LIMIT}`;
  }).value;
  // What somebody looks at closely stays, until the range of the page is another one.
  const looking = useSignal(false);
  const held = useRef({ path, span: "" });
  const { from = "", to = "" } = store.route.value;
  const isNew = held.current.span !== `${from} ${to}`;
  if (isNew) looking.value = false;
  if (isNew || !looking.value) held.current = { path, span: `${from} ${to}` };
  const { value, missing, refused } = useApi<Timeline>(held.current.path, { on: "never", everyMs: 3_600_000 });
  // A daemon that knows no such thing may know the job all the same.
  if (missing || (value !== undefined && value.operations === undefined)) return null;
  return (
    <Panel id="job-timeline" title="Time of each rank" aside={<Export path={held.current.path} name={`timeline-of-ranks-${job}`} />}>
      {value === undefined ? <p class="quiet">{refused ?? "Asking for the operations …"}</p> : <Loaded answer={value} looking={looking} cut={cut} />}
    </Panel>
  );
}

function Loaded({ answer, looking, cut }: { answer: Timeline; looking: Signal<boolean>; cut: boolean }) {
  const of = useMemo(() => load(answer), [answer]);
  const tab = useSignal<Tab>("timeline");
  const pinned = useSignal(-1);
  const chosen = pinned.value < of.call.length ? pinned.value : -1;
  if (of.call.length === 0) return <p class="quiet">{emptyWords(answer)} {cut && CUT_WORDS}</p>;
  return (
    <>
      <fieldset class="segments small">
        <legend class="unseen">What is shown</legend>
        {TABS.map((one) => (
          <label key={one} class={tab.value === one ? "on" : ""}>
            <input type="radio" name="time-of" checked={tab.value === one} onChange={() => (tab.value = one)} />
            {TAB_NAMES[one]}
          </label>
        ))}
      </fieldset>
      <p class="quiet">{[heldWords(of), clockWords(of)].filter(Boolean).join("; ")}. {cut && CUT_WORDS} {answer.lacks.join(" ")}</p>
      {tab.value === "timeline" && <TimelineCanvas of={of} pinned={pinned} looking={looking} />}
      {tab.value === "lateness" && <LatenessPanel of={of} onPick={(at) => ((pinned.value = at), (tab.value = "call"))} />}
      {tab.value === "call" && <OneCall of={of} at={chosen < 0 ? of.start[1]! - 1 : chosen} />}
    </>
  );
}

/** What a longer range of the page leaves out. */
const CUT_WORDS = `Only the last ${MAX_SPAN_MS / 60_000} minutes of the range are shown here: draw a shorter one in another chart to see the rest.`;

type Drag = { kind: "draw" | "move"; fromPx: number; toPx: number; view: TimeView };

/** The picture itself, and what pointer and keys do with it. */
export function TimelineCanvas({ of, pinned, looking }: { of: JobTimeline; pinned: Signal<number>; looking: Signal<boolean> }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const widthPx = useWidth(box);
  const leftPx = widthPx < NARROW_PX ? 34 : NAMES_PX;
  // Not a signal: nothing but the picture is made anew while it is dragged.
  const view = useRef<TimeView>({ fromUs: 0, toUs: of.endUs });
  const whole = useSignal(true);
  const pointed = useSignal(-1);
  const drag = useRef<Drag | null>(null);
  const paint = useRef<Painter | null>(null);
  const asked = useRef(0);
  const sums = useRef<Pyramid | undefined>(undefined);
  const links = pinned.value < 0 ? [] : chain(of, pinned.value);
  const dark = isDark();
  const narrow = leftPx < NAMES_PX;

  const draw = () => {
    cancelAnimationFrame(asked.current);
    asked.current = requestAnimationFrame(() => paint.current?.(view.current, { pointed: pointed.peek(), links, drawn: drag.current?.kind === "draw" ? drag.current : undefined }));
  };
  const show = (next: TimeView) => {
    view.current = clamped(next, of.endUs);
    whole.value = view.current.fromUs <= 0 && view.current.toUs >= of.endUs;
    draw();
  };
  // Another answer counts from another moment.
  const answered = useRef(of);
  useEffect(() => {
    if (answered.current !== of) pinned.value = -1;
    show(answered.current === of ? view.current : { fromUs: 0, toUs: of.endUs });
    answered.current = of;
  }, [of]);
  useEffect(() => {
    if (canvas.current === null || widthPx === 0) return;
    paint.current = painter(canvas.current, of, () => sums.current, { widthPx, leftPx, nameOf: (row) => `${of.ranks[row]!.rank}${narrow ? "" : ` ${store.shortHost(of.ranks[row]!.host)}`}` });
    draw();
  }, [of, widthPx, leftPx, dark]);
  // After the first picture, which does without: of very many operations it shows some.
  useEffect(() => {
    sums.current = undefined;
    const making = pyramid(of);
    if (making === undefined) return;
    let again: ReturnType<typeof setTimeout>;
    const step = () => {
      making.step(ROWS_AT_ONCE);
      if (!making.isDone()) again = setTimeout(step);
      else {
        sums.current = making.made;
        draw();
      }
    };
    again = setTimeout(step, FIRST_PICTURE_MS);
    return () => clearTimeout(again);
  }, [of]);
  useEffect(draw, [pinned.value]);
  const isClose = pinned.value >= 0 || !whole.value;
  useEffect(() => void (looking.value = isClose), [isClose]);
  useEffect(() => () => cancelAnimationFrame(asked.current), []);

  const spanUs = () => view.current.toUs - view.current.fromUs;
  const place = (event: MouseEvent) => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    const px = event.clientX - left - leftPx;
    const us = view.current.fromUs + (px / Math.max(1, widthPx - leftPx)) * spanUs();
    return { px, us, row: Math.floor((event.clientY - top - AXIS_PX) / rowPx(of.ranks.length)), inAxis: event.clientY - top < AXIS_PX };
  };
  const under = (event: MouseEvent) => {
    const { us, row } = place(event);
    return hit(of, row, us, (3 * spanUs()) / Math.max(1, widthPx));
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const { px, inAxis } = place(event);
    canvas.current!.setPointerCapture(event.pointerId);
    const moves = inAxis || event.shiftKey || event.pointerType !== "mouse";
    drag.current = { kind: moves ? "move" : "draw", fromPx: px, toPx: px, view: view.current };
  };
  const move = (event: PointerEvent) => {
    const { px } = place(event);
    const now = drag.current;
    if (now === null) {
      pointed.value = under(event);
      return draw();
    }
    now.toPx = px;
    if (now.kind === "move") show(moved(now.view, ((now.fromPx - px) / (widthPx - leftPx)) * (now.view.toUs - now.view.fromUs), of.endUs));
    else draw();
  };
  const up = (event: PointerEvent) => {
    const now = drag.current;
    drag.current = null;
    if (now === null) return;
    if (Math.abs(now.toPx - now.fromPx) < MIN_DRAG_PX) pinned.value = under(event);
    else if (now.kind === "draw") look(now);
    draw();
  };
  /** What was drawn becomes the view, and the range of the page where other charts can show it. */
  const look = ({ fromPx, toPx, view: { fromUs, toUs } }: Drag) => {
    const at = (px: number) => fromUs + (px / (widthPx - leftPx)) * (toUs - fromUs);
    const [a, b] = [at(Math.min(fromPx, toPx)), at(Math.max(fromPx, toPx))];
    if ((b - a) / 1000 >= SHARED_MS) zoom(of.fromMs + a / 1000, of.fromMs + b / 1000);
    else show({ fromUs: a, toUs: b });
  };
  const out = () => {
    if (whole.value) reset();
    else show({ fromUs: 0, toUs: of.endUs });
  };
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    show(scaled(view.current, Math.exp(event.deltaY / 300), place(event).px / (widthPx - leftPx), of.endUs));
  };
  const keys = (event: KeyboardEvent) => {
    const step = KEYS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(step(view.current, of.endUs));
  };
  const at = pointed.value >= 0 ? pointed.value : pinned.value;
  return (
    <div class="job-timeline" ref={box}>
      <canvas ref={canvas} tabIndex={0} role="img" style={{ width: `${widthPx}px`, height: `${heightPx(of.ranks.length) + AXIS_PX}px` }}
        aria-label={`Operations of ${plural(of.ranks.length, "rank")} over time. Left and right move, plus and minus zoom, 0 shows all; Lateness and One call say the same as tables.`}
        onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={() => (drag.current = null)} onPointerLeave={() => ((pointed.value = -1), draw())}
        onDblClick={out} onWheel={wheel} onKeyDown={keys} />
      <p class="chart-readout" role="status">
        {at < 0 || at >= of.call.length ? <Legend sampled={of.every > 1} /> : operationWords(of, at, store.shortHost)}
        {!whole.value && <button type="button" class="plain" onClick={out}>Show all of it</button>}
      </p>
      {links.length > 1 && <Chain of={of} links={links} />}
    </div>
  );
}

const KEYS: Record<string, (view: TimeView, endUs: number) => TimeView> = {
  ArrowLeft: (view, endUs) => moved(view, (view.fromUs - view.toUs) / 8, endUs),
  ArrowRight: (view, endUs) => moved(view, (view.toUs - view.fromUs) / 8, endUs),
  "+": (view, endUs) => scaled(view, 0.7, 0.5, endUs),
  "=": (view, endUs) => scaled(view, 0.7, 0.5, endUs),
  "-": (view, endUs) => scaled(view, 1 / 0.7, 0.5, endUs),
  "0": (_view, endUs) => ({ fromUs: 0, toUs: endUs }),
};

function Legend({ sampled }: { sampled: boolean }) {
  return (
    <span class="time-legend">
      <i class="own" /> {sampled ? "own time, or calls that were not told" : "own time"} <i class="waiting" /> waits for others <i class="transfer" /> transfer
      <small> Draw a part to see it nearer; drag the axis to move; a click says who waited for whom.</small>
    </span>
  );
}

/** Who waited for whom, from what was clicked to where it arose. */
function Chain({ of, links }: { of: JobTimeline; links: number[] }) {
  return (
    <ol class="time-chain" aria-label="Who waited for whom">
      {links.map((at, i) => (
        <li key={at} class={i === links.length - 1 ? "arose" : ""}>
          {i === links.length - 1 ? "It arose at " : ""}
          {operationWords(of, at, store.shortHost)}
        </li>
      ))}
    </ol>
  );
}
