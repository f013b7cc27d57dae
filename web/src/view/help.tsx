import { useLayoutEffect, useRef } from "preact/hooks";
import type { Place } from "../pure/route";
import * as store from "../state/store";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["g o", "overview"],
  ["g j", "jobs"],
  ["g h", "hosts"],
  ["g i", "incidents"],
  ["g f", "findings"],
  ["g s", "summation"],
  ["g r", "runbook"],
  ["← ↑ → ↓", "along the map of hosts, a ring, a summation group"],
  ["Esc", "close what is open"],
  ["?", "this help"],
];
const GO: Record<string, Place> = {
  o: { page: "overview" }, j: { page: "jobs" }, h: { page: "hosts" }, i: { page: "incidents" }, f: { page: "findings" }, s: { page: "summation" }, r: { page: "runbook" },
};
/** "g" and the letter belong together for so long. */
const CHORD_MS = 1_500;

/** The keys that work everywhere, and a window that lists them. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    let goMs = -Infinity;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      const place = GO[event.key];
      if (place !== undefined && event.timeStamp - goMs < CHORD_MS) location.hash = store.link(place);
      else if (event.key === "/") document.querySelector<HTMLInputElement>("#search")?.focus();
      else if (event.key === "?") dialog.current?.showModal();
      else {
        goMs = event.key === "g" ? event.timeStamp : -Infinity;
        return;
      }
      goMs = -Infinity;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" class="help-button" aria-label="Keys and help" title="Keys and help (?)" onClick={() => dialog.current?.showModal()}>
        ?
      </button>
      <dialog class="help" ref={dialog} aria-labelledby="help-title" onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
        <h2 id="help-title">Keys</h2>
        <dl>
          {KEYS.map(([key, words]) => (
            <div key={key}>
              <dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt>
              <dd>{words}</dd>
            </div>
          ))}
        </dl>
        <p class="quiet">Every page, filter and finding has an address of its own: copy it from the browser.</p>
        <p>
          <a href="api/v1/openapi.json">The API's document</a> · <a href="third-party.txt">Libraries in this page</a>
        </p>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  );
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable], dialog") !== null;
}
