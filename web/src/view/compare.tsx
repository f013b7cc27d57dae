import type { CommunicatorSummary } from "../api";
import { candidates, way, type ChannelChange, type Comparison, type HopChange } from "../pure/compare";
import { moment, plural } from "../pure/format";
import { useList } from "../state/api";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { HostName } from "./host-name";

/** Rows of changed hops drawn; a ring turned round changes them all. */
const MAX_HOPS = 200;

/** Chooses an earlier communicator of the same job to hold the rings against. */
export function ComparePicker() {
  const shown = store.watched.value;
  const job = shown?.job;
  // The job's list may leave out those that ended: these are what is compared with.
  const all = useList<CommunicatorSummary>(job === undefined ? undefined : `communicators?job=${encodeURIComponent(job)}`, { on: "lists" });
  if (shown === undefined) return null;
  const earlier = candidates(all.value?.items ?? [], shown);
  const { compare: chosen } = comm.at.value;
  if (earlier.length === 0 && chosen === undefined) return null;
  return (
    <label class="picker">
      Compare with{" "}
      <select
        value={chosen ?? ""}
        onChange={(event) => store.replace({ ...comm.at.value, compare: event.currentTarget.value === "" ? undefined : event.currentTarget.value })}
      >
        <option value="">none</option>
        {chosen !== undefined && !earlier.some((one) => one.id === chosen) && <option value={chosen}>{chosen}</option>}
        {earlier.map((one) => (
          <option key={one.id} value={one.id}>
            {optionWords(one)}
          </option>
        ))}
      </select>
    </label>
  );
}

function optionWords(one: CommunicatorSummary): string {
  const channels = one.final_channels === null ? "channels not known" : plural(one.final_channels, "channel");
  return `${one.name ?? one.id}, ${moment(Date.parse(one.created), store.nowMs.value)}, ${plural(one.n_ranks, "rank")}, ${channels}`;
}

/** What is not the same, hop by hop. */
export function Changes({ comparison }: { comparison: Comparison }) {
  const rows = comparison.channels.filter((one) => one.kind !== "same");
  if (rows.length === 0) return null;
  const hops = rows.flatMap((one) => one.hops);
  return (
    <section class="changes" aria-label="What changed">
      <h3>What changed</h3>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Changed hops">
        <table class="stacking">
          <thead>
            <tr>
              <th scope="col" class="number">Channel</th>
              <th scope="col" class="number">Rank</th>
              <th scope="col">Host</th>
              <th scope="col">Changed</th>
              <th scope="col">Before</th>
              <th scope="col">Now</th>
            </tr>
          </thead>
          <tbody>
            {rows.filter((one) => one.hops.length === 0).map((one) => (
              <tr key={one.channel}>
                <td data-label="Channel" class="number"><ChannelLink channel={one.channel} /></td>
                <td colSpan={5}>{whole(one)}</td>
              </tr>
            ))}
            {hops.slice(0, MAX_HOPS).map((hop) => (
              <HopRow key={`${hop.channel}/${hop.rank}`} hop={hop} />
            ))}
          </tbody>
        </table>
      </div>
      {hops.length > MAX_HOPS && <p class="quiet">{plural(hops.length - MAX_HOPS, "more changed hop")} are marked in the rings.</p>}
    </section>
  );
}

function whole({ kind }: ChannelChange): string {
  if (kind === "only_before") return "only before: it is not in use any more";
  if (kind === "only_after") return "only now: it was not in use before";
  return "another number of ranks";
}

function HopRow({ hop }: { hop: HopChange }) {
  const { before, after, parts } = hop;
  const turned = parts.includes("next");
  return (
    <tr>
      <td data-label="Channel" class="number"><ChannelLink channel={hop.channel} /></td>
      <th scope="row" class="number">
        <a href={store.link({ ...comm.at.value, channel: hop.channel, rank: hop.rank })}>{hop.rank}</a>
      </th>
      <td data-label="Host">{parts.includes("host") ? `${store.shortHost(before.host)} → ${store.shortHost(after.host)}` : <HostName of={after.host} />}</td>
      <td data-label="Changed">{parts.join(", ")}</td>
      <td data-label="Before">{`${turned ? `to ${before.next}, ` : ""}${way(before)}`}</td>
      <td data-label="Now">{`${turned ? `to ${after.next}, ` : ""}${way(after)}`}</td>
    </tr>
  );
}

function ChannelLink({ channel }: { channel: number }) {
  return <a href={store.link({ ...comm.at.value, channel, rank: undefined })}>{channel}</a>;
}
