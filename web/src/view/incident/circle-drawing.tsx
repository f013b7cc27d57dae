import { useRef } from "preact/hooks";
import { ranksIn, type Link } from "../../pure/calls";
import { point, round, type Point } from "../../pure/circle";
import * as store from "../../state/store";
import { useWidth } from "../use-width";

/** More could not be told apart; the list has them all. */
const MAX_DRAWN = 8;
const MAX_RADIUS_PX = 150;
const RANK_PX = 30;
const BOX_PX = { width: 104, height: 26 };
const MAX_NAME_CHARS = 14;

/** Ranks that wait for each other in a circle, each in a communicator that the next has not come to; and the same in words. */
export function CircleDrawing({ links }: { links: Link[] }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = Math.min(520, useWidth(box));
  return (
    <figure class="who-waits">
      <div class="ring-box" ref={box}>
        {widthPx > 0 && links.length <= MAX_DRAWN && <Drawing links={links} widthPx={widthPx} />}
      </div>
      <ol class="circle-links">
        {links.map((link, i) => (
          <li key={i}>
            <b>{link.from}</b> {waitOf(link.from)} for <b>{link.to}</b>
            {link.words !== "" && <>, in {link.communicator?.id === undefined ? link.words : callWords(link.words)}</>}
            {link.communicator?.id !== undefined && (
              <>
                {" of "}
                <a href={store.link({ page: "communicator", comm: link.communicator.id })}>{link.communicator.name}</a>
              </>
            )}
          </li>
        ))}
      </ol>
      <figcaption>They wait for each other: none of them can go on.</figcaption>
    </figure>
  );
}

function Drawing({ links, widthPx }: { links: Link[]; widthPx: number }) {
  const radius = Math.min(MAX_RADIUS_PX, widthPx / 2 - BOX_PX.width / 2 - 4);
  const centre = { x: widthPx / 2, y: radius + RANK_PX + 6 };
  const heightPx = 2 * (radius + RANK_PX + 6);
  const step = (2 * Math.PI) / links.length;
  const at = (turn: number) => point(centre, turn * step, radius);
  return (
    <svg class="waits" width={widthPx} height={heightPx} role="img" aria-label={`A circle: ${links.map(({ from, to }) => `${from} ${waitOf(from)} for ${to}`).join(", ")}`}>
      <defs>
        <marker id="circle-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
          <path class="wait-head" d="M1 1L9 5L1 9z" />
        </marker>
      </defs>
      {links.map((_, i) => (
        <g key={i}>
          <path class="wait-link strong" d={between(at(i), at(i + 0.5), RANK_PX)} />
          <path class="wait-link strong" d={between(at(i + 0.5), at(i + 1), BOX_PX.height / 2 + 6, RANK_PX + 4)} marker-end="url(#circle-head)" />
        </g>
      ))}
      {links.map((link, i) => (
        <Box key={i} at={at(i + 0.5)} words={link.communicator?.name ?? `wait ${i + 1}`} />
      ))}
      {links.map((link, i) => (
        <g key={i} class="wait-place role-culprit" data-rank={link.from}>
          <title>{`${link.from}: ${link.words}`}</title>
          <circle cx={at(i).x} cy={at(i).y} r={RANK_PX} />
          <text class="wait-number" x={at(i).x} y={at(i).y + 4} style={{ fontSize: "12.5px" }}>
            {discWords(link.from)}
          </text>
        </g>
      ))}
    </svg>
  );
}

function Box({ at, words }: { at: Point; words: string }) {
  return (
    <g class="wait-communicator">
      <title>{words}</title>
      <rect x={at.x - BOX_PX.width / 2} y={at.y - BOX_PX.height / 2} width={BOX_PX.width} height={BOX_PX.height} rx="4" />
      <text x={at.x} y={at.y + 4}>
        {short(words, MAX_NAME_CHARS)}
      </text>
    </g>
  );
}

/** What has room in a disc: "rank 5", "0, 1, 3", else how many. */
function discWords(who: string): string {
  const names = who.replace(/^ranks? /, "");
  return /^\d+$/.test(names) ? `rank ${names}` : names.length <= MAX_DISC_CHARS ? names : `${ranksIn(who)} ranks`;
}
const MAX_DISC_CHARS = 7;

/** "all_reduce #80", without the communicator that stands behind it as a link. */
function callWords(words: string): string {
  return words.replace(/ of [\w./-]+(?: \([^)]*\))?$/, "");
}

function waitOf(who: string): string {
  return who.startsWith("ranks ") ? "wait" : "waits";
}

function short(words: string, most: number): string {
  return words.length > most ? `${words.slice(0, most - 1)}…` : words;
}

/** A straight way, so far away from both ends. */
function between(from: Point, to: Point, outPx: number, inPx = 0): string {
  const length = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  return `M${round(from.x + dx * outPx)} ${round(from.y + dy * outPx)}L${round(to.x - dx * inPx)} ${round(to.y - dy * inPx)}`;
}
