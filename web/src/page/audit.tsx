import type { AuditEntry, Page, Session } from "../api";
import { ACTIONS, actionWords, auditRows, outcome, placeOf, subjectWords } from "../pure/audit";
import type { AuditRoute } from "../pure/route";
import { useApi } from "../state/api";
import { useSession } from "../state/session";
import * as store from "../state/store";
import { Export } from "../view/export";
import { Panel } from "../view/panel";
import { Choice } from "../view/segments";
import { Time } from "../view/time";
import { withCommands } from "../view/with-commands";

/** Who did what, the newest first: for admins. */
export function AuditPage() {
  const session = useSession();
  if (session === undefined) return <p class="quiet">Asking who you are …</p>;
  if (session.role !== "admin") return <p class="notice">{withCommands(notFor(session))}</p>;
  return <Trail />;
}

function Trail() {
  const route = store.route.value as AuditRoute;
  const path = pathOf(route);
  // Only the newest page grows.
  const { value, refused } = useApi<Page<AuditEntry>>(path, { on: "never", everyMs: route.before === undefined ? NEWEST_MS : OLDER_MS });
  const change = (next: Partial<AuditRoute>) => store.replace({ ...route, before: undefined, ...next });
  const older = value?.next_cursor;
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <label class="field">
          Who
          <input type="search" value={route.who ?? ""} placeholder="anybody" maxLength={200} onChange={(event) => change({ who: event.currentTarget.value.trim() || undefined })} />
        </label>
        <Choice name="What" value={route.action ?? ""} choices={ACTIONS} onPick={(action) => change({ action: action || undefined })} />
      </form>
      <Panel id="audit" title={route.before === undefined ? "Audit trail" : "Audit trail, older entries"}
        aside={<Export path={path} name="audit" {...(value === undefined ? {} : { rows: () => auditRows(value.items) })} />}>
        {value === undefined && <p class={refused === undefined ? "quiet" : "notice"}>{refused ?? "Asking for the audit trail …"}</p>}
        {value !== undefined && (value.items.length === 0 ? <p class="quiet">{nothing(route)}</p> : <Entries items={value.items} />)}
        {(route.before !== undefined || older != null) && (
          <p class="turn">
            {route.before !== undefined && <a href={store.link({ ...route, before: undefined })}>The newest</a>}
            {older != null && <a href={store.link({ ...route, before: older })}>Older entries</a>}
          </p>
        )}
      </Panel>
    </>
  );
}

function Entries({ items }: { items: AuditEntry[] }) {
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Audit trail">
      <table class="audit-table">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">What</th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <Entry key={one.id} one={one} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Entry({ one }: { one: AuditEntry }) {
  const route = store.route.value as AuditRoute;
  const { words, refused } = outcome(one.status);
  const place = placeOf(one.subject);
  const subject = subjectWords(one.subject);
  return (
    <tr class={refused ? "refused" : ""}>
      <td class="when"><Time at={one.at} /></td>
      <th scope="row" class="name">
        {one.who === "" ? <span class="quiet">somebody unknown</span> : <a href={store.link({ ...route, who: one.who, before: undefined })} title="Only what they did">{one.who}</a>}
        <small>
          {one.role !== "" && `${one.role}${one.tenant === "" ? "" : ` of ${one.tenant}`}, `}
          {one.address === "local" ? "on the daemon’s machine" : `from ${one.address}`}
        </small>
        {one.token !== "" && <small>token {one.token}</small>}
      </th>
      <td class="what">
        {actionWords(one.action, one.status)}
        <small>{place === undefined ? subject : <a href={store.link(place)}>{subject}</a>}</small>
        {one.detail !== "" && <span class="detail">{one.detail}</span>}
      </td>
      <td class="outcome">
        {words} <small>{one.status > 0 && one.status}</small>
      </td>
    </tr>
  );
}

function notFor({ role, name, known_by }: Session): string {
  if (known_by === "nothing") {
    return "The audit trail is for admins, and this daemon asks nobody who they are. On its machine `ringscope audit --database` shows it.";
  }
  return `The audit trail is for admins, and ${name} has the role ${role}: ask whoever runs the daemon.`;
}

function nothing({ who, action, before }: AuditRoute): string {
  if (who !== undefined || action !== undefined) return "No entry fits the filters. Who: the whole name, as it stands in the list.";
  return before === undefined ? "Nothing was done yet that is written down." : "There are no older entries.";
}

function pathOf({ who, action, before }: AuditRoute): string {
  const query = new URLSearchParams({ limit: String(PAGE_ENTRIES) });
  if (who !== undefined) query.set("who", who);
  if (action !== undefined) query.set("action", action);
  if (before !== undefined) query.set("cursor", before);
  return `audit?${query}`;
}

const PAGE_ENTRIES = 100;
/** Somebody may be at it. */
const NEWEST_MS = 10_000;
/** Older entries change only when they are forgotten, after a year. */
const OLDER_MS = 3_600_000;
