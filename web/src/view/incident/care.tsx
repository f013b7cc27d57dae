import { useRef, useState } from "preact/hooks";
import type { IncidentDetail } from "../../api";
import type { Fault } from "../../pure/fault";
import { isSilenced, SILENCES, speaker } from "../../pure/incidents";
import { act, actor, myName, type Word } from "../../state/actions";
import { useSession } from "../../state/session";
import * as store from "../../state/store";
import { Panel } from "../panel";
import { withCommands } from "../with-commands";
import { Ago, Time } from "../time";

/** As the daemon bounds them. */
const NAME_CHARS = 100;
const NOTE_CHARS = 2000;

/** Who looks after it, whether anybody is told of it, and what people have written. */
export function CarePanel({ incident }: { incident: IncidentDetail }) {
  const name = useRef<HTMLInputElement>(null);
  const session = useSession();
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const mine = actor(session);
  const shown = speaker(session?.name ?? "", mine);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | Fault | undefined>(undefined);
  const tell = async (what: Word, body: Record<string, unknown> = {}) => {
    if (mine === "") {
      setProblem("Say who you are first: others see the name.");
      name.current?.focus();
      return false;
    }
    setBusy(true);
    const fault = await act(incident.id, what, mine, body);
    setBusy(false);
    setProblem(fault);
    return fault === undefined;
  };
  return (
    <Panel id="care" title="Who looks after it">
      <State incident={incident} />
      <div class="care-form">
        <label class="field">
          Your name
          <input ref={name} type="text" autocomplete="name" maxLength={NAME_CHARS} value={typed ?? mine} placeholder={session?.name ?? ""} aria-describedby="care-problem" onInput={(event) => setTyped((myName.value = event.currentTarget.value))} />
        </label>
        {shown !== mine && <p class="quiet">Others see “{shown}”.</p>}
        {incident.state === "firing" && <Decide incident={incident} busy={busy} shown={shown} tell={tell} />}
        <Note busy={busy} tell={tell} />
        <p id="care-problem" class="bad" role="alert">
          {problem === undefined ? "" : typeof problem === "string" ? problem : <>Not kept. {problem.words} {withCommands(problem.advice)}</>}
        </p>
      </div>
      <Notes incident={incident} />
    </Panel>
  );
}

function State({ incident: one }: { incident: IncidentDetail }) {
  const nowMs = store.nowMs.value;
  return (
    <p class="care-state">
      {one.acknowledged === undefined ? (one.state === "firing" ? "Nobody has said so yet." : "Nobody has said so.") : (
        <>
          <b>{one.acknowledged.by}</b> {one.state === "firing" ? "looks after it since" : "looked after it, from"} <Ago at={one.acknowledged.at} />.
        </>
      )}{" "}
      {isSilenced(one, nowMs) && <>Nobody is told of it until <Time at={one.silenced_until!} />.</>}
    </p>
  );
}

type Tell = (what: Word, body?: Record<string, unknown>) => Promise<boolean>;

function Decide({ incident, busy, shown, tell }: { incident: IncidentDetail; busy: boolean; shown: string; tell: Tell }) {
  const [seconds, setSeconds] = useState(SILENCES[0]!.seconds);
  const mine = incident.acknowledged?.by === shown;
  return (
    <p class="care-buttons">
      <button type="button" disabled={busy} onClick={() => void tell(mine ? "unacknowledge" : "acknowledge")}>
        {incident.acknowledged === undefined ? "I look after it" : mine ? "I no longer look after it" : "I take it over"}
      </button>
      {isSilenced(incident, store.nowMs.value) ? (
        <button type="button" disabled={busy} onClick={() => void tell("unsilence")}>
          End the silence
        </button>
      ) : (
        <span class="care-silence">
          <button type="button" disabled={busy} onClick={() => void tell("silence", { for_s: seconds })}>
            Silence
          </button>
          <label class="field">
            for
            <select value={String(seconds)} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
              {SILENCES.map((one) => (
                <option key={one.seconds} value={String(one.seconds)}>
                  {one.words}
                </option>
              ))}
            </select>
          </label>
        </span>
      )}
    </p>
  );
}

function Note({ busy, tell }: { busy: boolean; tell: Tell }) {
  const [text, setText] = useState("");
  const send = async (event: Event) => {
    event.preventDefault();
    if (text.trim() !== "" && (await tell("notes", { text: text.trim() }))) setText("");
  };
  return (
    <form class="care-note" onSubmit={(event) => void send(event)}>
      <label>
        <span class="quiet">Note</span>
        <textarea rows={2} maxLength={NOTE_CHARS} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={busy || text.trim() === ""}>
        Add the note
      </button>
    </form>
  );
}

function Notes({ incident }: { incident: IncidentDetail }) {
  if (incident.notes.length === 0) return null;
  return (
    <ol class="notes" aria-label="Notes">
      {[...incident.notes].reverse().map((note) => (
        <li key={`${note.at}${note.by}`}>
          <p class="about">
            <span>
              <b>{note.by}</b>
            </span>
            <span><Ago at={note.at} /></span>
          </p>
          <p class="note-text">{note.text}</p>
        </li>
      ))}
    </ol>
  );
}
