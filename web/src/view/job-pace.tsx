import type { Job, JobLevel, JobPace as Pace } from "../api";
import { more, paceRows, paceSummary } from "../pure/pace";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "./export";
import { Panel } from "./panel";
import { withCommands } from "./with-commands";

/** Ranks that are shown: the slowest. */
const SHOWN = 16;
const EVERY_MS = 5_000;

/** Where each rank's step goes: who has the longest time of its own makes the others wait. */
export function JobPace({ job, level }: { job: Job; level: JobLevel | undefined }) {
  const path = `jobs/${encodeURIComponent(job.id)}/pace?limit=${SHOWN}`;
  const pace = useApi<Pace>(path, { on: "never", everyMs: EVERY_MS }).value;
  if (pace === undefined || job.state === "ended" || job.state === "imported") return null;
  const rows = paceRows(pace);
  const hidden = more(pace);
  return (
    <Panel id="pace" title="Where each step goes" aside={<Export path={path} name={`pace-${job.id}`} />}>
      <p class="quiet">{withCommands(paceSummary(pace, store.nowMs.value - Date.parse(job.first_seen), level))}</p>
      {rows.length > 0 && (
        <>
          <ul class="pace">
            {rows.map(({ rank, name, parts, words }) => (
              <li key={rank.process}>
                <a href={store.link({ page: "host", host: rank.host })} title={rank.host}>{name} <small>{store.shortHost(rank.host)}</small></a>
                <span class="pace-bar" role="img" aria-label={words} title={words}>
                  <i class="pace-usual" style={{ width: percent(parts.usual) }} />
                  <i class="pace-beyond" style={{ width: percent(parts.beyond) }} />
                  <i class="pace-longer" style={{ width: percent(parts.longer) }} />
                  <i class="pace-operations" style={{ width: percent(parts.operations) }} />
                </span>
                <small>{words}</small>
              </li>
            ))}
          </ul>
          {hidden !== "" && <p class="quiet">{hidden}</p>}
          <p class="pace-legend quiet">
            <span><i class="pace-usual" />own time, as usual</span>
            <span><i class="pace-beyond" />own time beyond that</span>
            <span><i class="pace-longer" />what long steps took longer</span>
            <span><i class="pace-operations" />in collectives: waiting or moving bytes</span>
          </p>
        </>
      )}
    </Panel>
  );
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}
