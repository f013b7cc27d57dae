import { signal } from "@preact/signals";
import type { CommunicatorSummary } from "../api";
import { integer, moment, plural, rateOf } from "../pure/format";
import { shownId } from "../state/communicator";
import * as store from "../state/store";
import { Mark } from "./mark";
import { communicatorMark } from "./standing";

/** Cards shown before "all of them" is asked for. */
const FEW = 8;

const allCommunicators = signal(false);

/** The communicators of the job that the address is about. */
export function CommunicatorCards() {
  return (
    <nav class="scope" aria-label="Communicators">
      <h2>Communicators{store.jobId.value !== undefined && <> of <a href={store.link({ page: "job", job: store.jobId.value })}>{store.jobId.value}</a></>}</h2>
      {store.sortedCommunicators.value.length === 0 && <p class="quiet">{store.communicatorsKnown.value ? "None yet." : "Asking for them …"}</p>}
      <Cards
        items={store.sortedCommunicators.value}
        shown={(one) => one.id === shownId.value}
        open={allCommunicators.value}
        onOpen={() => {
          allCommunicators.value = !allCommunicators.value;
        }}
        ended={isOver}
        folded={isOver}
        more={store.communicators.value.more}
        card={(one) => <CommunicatorCard key={one.id} one={one} />}
      />
    </nav>
  );
}

function Cards<T>(props: {
  items: T[];
  shown: (item: T) => boolean;
  ended: (item: T) => boolean;
  /** Not among the few, however few there are. */
  folded: (item: T) => boolean;
  open: boolean;
  onOpen: () => void;
  more: boolean;
  card: (item: T) => preact.JSX.Element;
}) {
  const few = props.items.filter((item) => !props.folded(item)).slice(0, FEW);
  if (few.length === 0) few.push(...props.items.slice(0, FEW));
  const current = props.items.find(props.shown);
  if (current !== undefined && !few.includes(current)) few.push(current);
  const hidden = props.items.filter((item) => !few.includes(item));
  const visible = props.open ? props.items : few;
  return (
    <ul class="cards">
      {visible.map(props.card)}
      {hidden.length > 0 && (
        <li>
          <button type="button" class="plain" aria-expanded={props.open} onClick={props.onOpen}>
            {props.open ? "Fewer" : hiddenWords(hidden.length, hidden.filter(props.ended).length)}
            {props.more && !props.open && ", and more"}
          </button>
        </li>
      )}
    </ul>
  );
}

function isOver(one: CommunicatorSummary): boolean {
  return one.state === "ended";
}

function hiddenWords(hidden: number, ended: number): string {
  if (ended === hidden) return `${integer(ended)} ended`;
  return `${integer(hidden)} more${ended > 0 ? `, ${integer(ended)} of them ended` : ""}`;
}

function CommunicatorCard({ one }: { one: CommunicatorSummary }) {
  const current = one.id === shownId.value && store.route.value.page === "communicator";
  const mark = communicatorMark(one);
  const heard = one.n_ranks_seen < one.n_ranks ? `${integer(one.n_ranks_seen)} of ` : "";
  return (
    <li>
      <a
        class="card"
        href={store.link({ page: "communicator", comm: one.id })}
        aria-current={current ? "true" : undefined}
        title={`${mark.label}: ${mark.why}\n${one.comm_hash}, ${plural(one.n_nodes, "node")}, made ${moment(Date.parse(one.created), store.nowMs.value)}`}
      >
        <span class="card-name">
          <Mark kind={mark.kind} label={mark.label} />
          {one.name === undefined ? <code>{one.id}</code> : store.communicatorNames.value.get(one.id)}
        </span>
        <span class="card-facts">
          <span>
            {heard}
            {plural(one.n_ranks, "rank")}
          </span>
          <span>{one.final_channels === null ? "channels not known" : plural(one.final_channels, "channel")}</span>
          {one.coverage.state === "partly" && one.state !== "ended" && (
            <span class="partly" title={one.coverage.lacks.join(" ")}>
              partly seen
            </span>
          )}
          {one.state === "active" ? <span>{rateOf(one)}</span> : <span>{one.state}</span>}
        </span>
      </a>
    </li>
  );
}
