import { useMemo } from "preact/hooks";
import type { Ring } from "../api";
import { thumb, type Thumb } from "../pure/multiples";

/** Channels drawn; the library has at most 64. */
const MAX_THUMBS = 64;

/** The rings of all channels, small: which one is not like the others. */
export function RingThumbs(props: {
  rings: Ring[];
  shown: number | undefined;
  degraded: ReadonlySet<string>;
  /** Channels that are not as in the communicator compared with. */
  changed: ReadonlySet<number>;
  href: (channel: number) => string;
}) {
  const { rings, degraded } = props;
  const thumbs = useMemo(() => rings.slice(0, MAX_THUMBS).map((ring) => thumb(ring, degraded)), [rings, [...degraded].join()]);
  return (
    <nav class="ring-thumbs" aria-label="Channel">
      {thumbs.map((one) => {
        const changed = props.changed.has(one.channel);
        const words = [one.trouble, changed ? "changed" : ""].filter(Boolean).join(", ");
        return (
          <a
            key={one.channel}
            href={props.href(one.channel)}
            class={words === "" ? "" : "to-look-at"}
            aria-current={one.channel === props.shown ? "true" : undefined}
            aria-label={`Channel ${one.channel}${words === "" ? "" : `, ${words}`}`}
          >
            <Picture thumb={one} />
            {words !== "" && <small>{words}</small>}
          </a>
        );
      })}
    </nav>
  );
}

function Picture({ thumb }: { thumb: Thumb }) {
  return (
    <svg viewBox="0 0 100 100" aria-hidden="true">
      {thumb.paths.map(({ transport, path }) => (
        <g key={transport} class={`hop transport-${transport}`}>
          <path class="hop-line" d={path} />
        </g>
      ))}
      {thumb.degraded !== "" && <path class="thumb-degraded" d={thumb.degraded} />}
      <text x="50" y="58">{thumb.channel}</text>
      {thumb.odd.map(({ x, y }, i) => (
        <path key={i} class="hop-odd" d="M0 -10L9 6H-9z" transform={`translate(${x} ${y})`} />
      ))}
    </svg>
  );
}
