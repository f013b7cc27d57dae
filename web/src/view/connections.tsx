import type { Connection } from "../api";
import { integer, plural } from "../pure/format";
import { gidWords, hasMet, isBad, movedWords, mtuWords, pairWords, peerWords, portWords, shown, waitWords } from "../pure/connections";
import { rateWords } from "../pure/hardware";
import * as store from "../state/store";
import { Mark } from "./mark";

const MARKS = { failed: "killed", broken: "warning", connecting: "info", open: "ok", closed: "ended" } as const;

/** Each RDMA connection: its two ends, what it is made of, what went over it and how it failed. */
export function Connections({ all }: { all: Connection[] }) {
  const { rows, left } = shown(all);
  return (
    <>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="RDMA connections">
        <table class="nics links stacking">
          <thead>
            <tr>
              <th scope="col">Rank, port</th>
              <th scope="col">State</th>
              <th scope="col">Other end</th>
              <th scope="col">GID, MTU</th>
              <th scope="col">Queue pairs</th>
              <th scope="col" class="number">Moves</th>
              <th scope="col">Waits</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <Row key={one.id} one={one} />
            ))}
          </tbody>
        </table>
      </div>
      {left > 0 && <p class="quiet">And {plural(left, "more connection")}; the export has them all.</p>}
    </>
  );
}

function Row({ one }: { one: Connection }) {
  const [gid, mtu] = [gidWords(one), mtuWords(one)];
  return (
    <tr class={isBad(one) ? "nic-critical" : one.state === "closed" ? "nic-unused" : ""} data-link={one.id}>
      <th scope="row">
        <b>{peerWords(one.local)}</b> {one.is_send ? "sends" : "receives"}
        <small title={one.local.gid ?? ""}>{portWords(one.local)}</small>
        <small><a href={store.link({ page: "job", job: one.job })}>{one.job}</a></small>
      </th>
      <td data-label="State" class="nic-state">
        <Mark kind={MARKS[one.state]} label={one.state} />
        <b>{one.state}</b>
        {one.error != null && <small class="bad">{one.error}</small>}
      </td>
      <td data-label="Other end">
        {hasMet(one) ? <a href={store.link({ page: "host", host: one.remote.host })}>{one.remote.host}</a> : <span class="quiet">not met</span>}{" "}
        {peerWords(one.remote)}
        <small title={one.remote.gid ?? ""}>{portWords(one.remote)}</small>
      </td>
      <td data-label="GID, MTU">
        <span class={gid.differs ? "bad" : ""}>{gid.words}</span>
        <small class={mtu.differs ? "bad" : ""}>MTU {mtu.words}</small>
      </td>
      <td data-label="Queue pairs">{pairWords(one) || "–"}</td>
      <td data-label="Moves" class="number">
        {rateWords(one.bytes_per_s)}
        <small>{movedWords(one)}</small>
        {one.requests > one.completed_requests && <small>{integer(one.requests - one.completed_requests)} under way</small>}
      </td>
      <td data-label="Waits">{waitWords(one) || <span class="quiet">none</span>}</td>
    </tr>
  );
}
