import type { SummationGroupDetail } from "../../api";
import type { Troubles } from "../../pure/summation/trouble";
import type { Pointed } from "../../pure/summation/walk";
import { flowWords, serviceName, serviceWords, workerAt, workerWords } from "../../pure/summation/words";
import * as store from "../../state/store";

/** What is pointed at or chosen, in words, below the picture. */
export function PictureDetails({ group, known, shown }: { group: SummationGroupDetail; known: Troubles; shown: Pointed }) {
  const worker = group.workers.find((one) => one.index === shown.worker);
  const service = group.services.find((one) => one.service === shown.service);
  const lines = [
    ...(worker !== undefined && service !== undefined ? [flow(group, worker.index, service.service)] : []),
    ...(worker === undefined ? [] : [workerWords(worker, group, known.workers.get(worker.index) ?? "ok")]),
    ...(service === undefined ? [] : [serviceWords(service, known.services.get(service.service) ?? "ok")]),
  ];
  const hosts = [...new Set([worker?.host, service?.host].filter((host) => host !== undefined))];
  return (
    <div class="picture-details">
      {lines.length === 0 && <p class="quiet">Point at a worker, a service or what flows between them, or use the arrow keys; Enter chooses.</p>}
      {lines.map(([head, ...rest]) => (
        <p key={head}>
          <b>{head}</b>
          {rest.length > 0 && `: ${rest.join(" · ")}`}
        </p>
      ))}
      {hosts.length > 0 && (
        <p>
          {hosts.map((host) => (
            <a key={host} class="chip" href={store.link({ page: "host", host })}>host {host}</a>
          ))}
        </p>
      )}
    </div>
  );
}

function flow(group: SummationGroupDetail, worker: number, service: number): string[] {
  const found = group.flows.find((one) => one.worker === worker && one.service === service);
  const to = group.services.find((one) => one.service === service)!;
  return [`${workerAt(group, worker)} → ${serviceName(to)} on ${to.host}`, found === undefined ? "nothing heard of" : flowWords(found)];
}
