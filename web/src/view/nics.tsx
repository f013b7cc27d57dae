import { useEffect } from "preact/hooks";
import type { Finding, Hardware, Nic } from "../api";
import { gidLines, tableWords } from "../pure/connections";
import { rankRanges, size } from "../pure/format";
import { about, byTrouble, closest, errorWords, explains, linkRate, nicTrouble, payloadWords, rateWords } from "../pure/hardware";
import { group, kindName } from "../pure/findings";
import * as store from "../state/store";
import { Mark } from "./mark";
import { Time } from "./time";

interface Props {
  host: string;
  hardware: Hardware;
  findings: Finding[];
  /** The one that the address names. */
  named: string | undefined;
  /** Names of communicators by id. */
  names: ReadonlyMap<string, string>;
}

/** Each port: whether data can flow, what flows, and which channels depend on it. */
export function Nics({ host, hardware, findings, named, names }: Props) {
  useEffect(() => {
    if (named === undefined) return;
    document.getElementById(`nic-${named}`)?.scrollIntoView({ block: "center" });
  }, [host, named]);
  if (hardware.nics.length === 0) return <p class="quiet">It has no NIC that its agent can see.</p>;
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="NICs">
      <table class="nics stacking">
        <thead>
          <tr>
            <th scope="col">NIC</th>
            <th scope="col">State</th>
            <th scope="col" class="number">Rate</th>
            <th scope="col" class="number">Sends</th>
            <th scope="col" class="number">Receives</th>
            <th scope="col" class="number" title="Payload of communicators, without headers and what is sent again">Payload</th>
            <th scope="col">Errors</th>
            <th scope="col">Channels through it</th>
            <th scope="col">Closest</th>
          </tr>
        </thead>
        {byTrouble(hardware.nics).map((nic) => (
          <tbody
            key={`${nic.name}/${nic.port}`}
            id={`nic-${nic.name}`}
            data-nic={nic.name}
            class={`nic-${nicTrouble(nic) ?? (nic.up ? "up" : "unused")}${nic.name === named ? " named" : ""}`}
          >
            <NicRow host={host} nic={nic} hardware={hardware} names={names} />
            <Why nic={nic} hardware={hardware} findings={findings} />
          </tbody>
        ))}
      </table>
    </div>
  );
}

function NicRow({ host, nic, hardware, names }: { host: string; nic: Nic; hardware: Hardware; names: ReadonlyMap<string, string> }) {
  const trouble = nicTrouble(nic);
  const errors = errorWords(nic);
  return (
    <tr>
      <th scope="row">
        <b>{nic.name}</b>
        {nic.port > 1 && ` port ${nic.port}`}
        <small>{[nic.link_layer, nic.interface, nic.model].filter(Boolean).join(" · ")}</small>
        {tableWords(nic) !== "" && <small title={gidLines(nic.gids)}>{tableWords(nic)}</small>}
      </th>
      <td data-label="State" class="nic-state">
        <Mark kind={trouble === "down" ? "killed" : trouble ?? (nic.up ? "ok" : "ended")} label={nic.up ? "up" : "down"} />
        <b>{nic.up ? "up" : "down"}</b>
        <small>
          {nic.state}
          {nic.physical_state != null && `, ${nic.physical_state}`}
        </small>
        {nic.link_downs != null && nic.link_downs > 0 && <small>link went down {nic.link_downs} ×</small>}
      </td>
      <td data-label="Rate" class="number">{linkRate(nic.rate_bytes_per_s)}</td>
      <td data-label="Sends" class="number" title={nic.sent_bytes == null ? "" : `${size(nic.sent_bytes)} since it counts`}>{rateWords(nic.sent_bytes_per_s)}</td>
      <td data-label="Receives" class="number" title={nic.received_bytes == null ? "" : `${size(nic.received_bytes)} since it counts`}>{rateWords(nic.received_bytes_per_s)}</td>
      <td data-label="Payload" class="number">
        {nic.payload_bytes_per_s == null ? <small>not counted</small> : `${nic.payload_estimated ? "≈ " : ""}${rateWords(nic.payload_bytes_per_s)}`}
        {payloadWords(nic) !== "" && <small>{payloadWords(nic)}</small>}
      </td>
      <td data-label="Errors">
        {errors.length === 0 ? <span class="quiet">none</span> : errors.map(({ words, rising }) => (
          <small key={words} class={rising ? "bad" : ""}>
            {rising && "↑ "}
            {words}
          </small>
        ))}
      </td>
      <td data-label="Channels">
        {nic.channels.length === 0 ? <span class="quiet">none</span> : nic.channels.map(({ comm, channels }) => (
          <a key={comm} class="through" href={store.link({ page: "communicator", comm, channel: channels[0], host })}>
            {names.get(comm) ?? comm}: {rankRanges(channels, 6)}
          </a>
        ))}
      </td>
      <td data-label="Closest">{closest(nic, hardware.gpus ?? []) || <span class="quiet">{nic.numa_node == null ? "–" : `NUMA ${nic.numa_node}`}</span>}</td>
    </tr>
  );
}

/** What is wrong with it, and which findings it explains. */
function Why({ nic, hardware, findings }: { nic: Nic; hardware: Hardware; findings: Finding[] }) {
  const mine = group(about(nic, findings)).map(({ first }) => first);
  const words = nicTrouble(nic) === "down" ? explains(nic, findings, hardware) : "";
  if (nic.reasons.length === 0 && mine.length === 0 && words === "") return null;
  return (
    <tr class="why">
      <td colSpan={9}>
        {nic.reasons.map((reason) => (
          <p key={reason}>{reason}</p>
        ))}
        {words !== "" && <p>{words}</p>}
        {mine.length > 0 && (
          <p class="proofs">
            Evidence:{" "}
            {mine.map((finding, i) => (
              <span key={finding.id}>
                {i > 0 && ", "}
                <a href={store.link({ page: "findings", host: finding.host, id: finding.id })}>{kindName(finding.finding)}</a>, since{" "}
                <Time at={finding.first_seen} />
              </span>
            ))}
          </p>
        )}
      </td>
    </tr>
  );
}
