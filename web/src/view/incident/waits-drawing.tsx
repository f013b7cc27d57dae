import { placeWords, ROLE_WORDS, type Picture, type Place, type Role } from "../../pure/waits";

/** The ranks around a circle, and lines from those that wait to whom they wait for. */
export function WaitsDrawing({ drawn, label }: { drawn: Picture; label: string }) {
  return (
    <svg class="waits" width={drawn.widthPx} height={drawn.heightPx} viewBox={`0 0 ${drawn.widthPx} ${drawn.heightPx}`} role="img" aria-label={`${label} The table below says the same.`}>
      <defs>
        <marker id="wait-head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" orient="auto">
          <path class="wait-head" d="M1 1L9 5L1 9z" />
        </marker>
      </defs>
      {drawn.links.map((path, i) => (
        <path key={i} class="wait-link" d={path} {...(drawn.links.length <= MAX_HEADS ? { "marker-end": "url(#wait-head)" } : {})} />
      ))}
      {drawn.places.map((place) => (
        <Disc key={place.ranks[0]} place={place} />
      ))}
    </svg>
  );
}

/** More heads would run into one. */
const MAX_HEADS = 24;
const MIN_NUMBER_PX = 7;

function Disc({ place }: { place: Place }) {
  const { x, y, radius, ranks, folded, role, dead, unheard } = place;
  const number = folded ? `${ranks.length}×` : String(ranks[0]);
  const fontPx = Math.min(13, radius * Math.min(1, 2.5 / number.length));
  return (
    <g class={`wait-place role-${role}${dead ? " dead" : ""}${unheard ? " unheard" : ""}${folded ? " folded" : ""}`} data-rank={folded ? undefined : ranks[0]} data-ranks={ranks.length}>
      <title>{placeWords(place)}</title>
      {folded ? (
        <rect x={x - radius * 1.1} y={y - radius * 0.8} width={radius * 2.2} height={radius * 1.6} rx="3" />
      ) : (
        <circle cx={x} cy={y} r={radius} />
      )}
      {fontPx >= MIN_NUMBER_PX && (
        <text class="wait-number" x={x} y={y + fontPx * 0.36} style={{ fontSize: `${fontPx}px` }}>
          {number}
        </text>
      )}
      {dead && <path class="cross" d={cross(x, y, radius)} />}
      {place.label !== undefined && (
        <text class="wait-host" x={place.label.x} y={place.label.y} text-anchor={place.label.anchor}>
          {role === "culprit" ? `◆ ${place.label.words}` : place.label.words}
        </text>
      )}
    </g>
  );
}

/** At its rim, so that the number can be read. */
function cross(x: number, y: number, radius: number): string {
  const [inner, out] = [radius * 0.72, radius * 1.2];
  return [[1, 1], [1, -1], [-1, 1], [-1, -1]].map(([a, b]) => `M${x + a! * inner} ${y + b! * inner}L${x + a! * out} ${y + b! * out}`).join("");
}

const ROLES: Role[] = ["culprit", "waiting", "absent", "other"];

/** Only what is in the drawing. */
export function WaitsLegend({ drawn }: { drawn: Picture }) {
  const roles = ROLES.filter((role) => drawn.places.some((place) => place.role === role && !(role === "culprit" && place.unheard)));
  return (
    <ul class="ring-legend" aria-label="Legend">
      {roles.map((role) => (
        <li key={role}>
          <svg width="18" height="18" aria-hidden="true">
            <g class={`wait-place role-${role}`}>
              <circle cx="9" cy="9" r="6.5" />
            </g>
          </svg>
          {ROLE_WORDS[role]}
        </li>
      ))}
      {drawn.places.some((place) => place.unheard && place.role === "culprit") && (
        <li>
          <svg width="18" height="18" aria-hidden="true">
            <g class="wait-place role-culprit unheard">
              <circle cx="9" cy="9" r="6.5" />
            </g>
          </svg>
          {ROLE_WORDS.absent}
        </li>
      )}
      {drawn.places.some((place) => place.dead) && (
        <li>
          <svg width="18" height="18" aria-hidden="true">
            <g class="wait-place dead">
              <path class="cross" d="M3 3L15 15M15 3L3 15" />
            </g>
          </svg>
          process gone
        </li>
      )}
    </ul>
  );
}
