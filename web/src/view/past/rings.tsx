import { useState } from "preact/hooks";
import type { PastCommunicator, Rings } from "../../api";
import { plural } from "../../pure/format";
import { useApi } from "../../state/api";
import { RingFigure } from "../ring-figure";
import type { Scene } from "../ring-scene";

const NONE: ReadonlySet<number> = new Set();

/** The rings of a communicator that was in use then: they stay as they were made. Hosts in trouble then are marked. */
export function PastRings({ of, troubled }: { of: PastCommunicator; troubled: ReadonlySet<string> }) {
  const [channel, setChannel] = useState<number | undefined>(undefined);
  const { value, missing, refused } = useApi<Rings>(`communicators/${encodeURIComponent(of.id)}/rings`, { on: "never" });
  if (value === undefined) return <p class="quiet">{missing ? "Its rings are not kept: no rank told its place in them." : (refused ?? "Asking for its rings …")}</p>;
  const ring = value.rings.find((one) => one.channel === channel) ?? value.rings[0];
  if (ring === undefined) return <p class="quiet">Its rings are not known: its log had no lines of its channels.</p>;
  const scene: Scene = { nRanks: of.n_ranks, byRank: new Map(), degraded: troubled, late: NONE, changed: NONE, choose: () => {} };
  return (
    <>
      <label class="picker">
        Channel{" "}
        <select value={ring.channel} onChange={(event) => setChannel(Number(event.currentTarget.value))}>
          {value.rings.map((one) => (
            <option key={one.channel} value={one.channel}>{one.channel}{one.complete ? "" : ", incomplete"}</option>
          ))}
        </select>{" "}
        of {plural(value.rings.length, "channel")}
      </label>
      {!ring.complete && <p class="notice"><strong>Ring incomplete.</strong> {ring.problem}</p>}
      <RingFigure key={`${of.id}/${ring.channel}`} ring={ring} channels={value.rings.length} scene={scene} />
    </>
  );
}
