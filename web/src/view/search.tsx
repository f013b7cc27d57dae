import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { SearchHit } from "../api";
import { placeOf, step } from "../pure/search";
import { useApi } from "../state/api";
import * as store from "../state/store";

/** Asked after so long without another key. */
const PAUSE_MS = 120;
const LIMIT = 12;

const typed = signal("");
/** What is asked for. */
const asked = signal("");
const open = signal(false);
const chosen = signal(-1);
const path = computed(() => (asked.value === "" ? undefined : `search?q=${encodeURIComponent(asked.value)}&limit=${LIMIT}`));

/** Job, host, communicator, summation group, rank or NIC by name, as one types. */
export function Search() {
  const input = useRef<HTMLInputElement>(null);
  /** Who has pressed Enter goes as soon as what is typed is answered. */
  const hurries = useRef(false);
  const { value: hits, refused } = useApi<SearchHit[]>(path.value, { on: "never" });
  useEffect(() => {
    const timer = setTimeout(() => {
      asked.value = typed.value.trim();
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed.value]);
  const listed = open.value && asked.value !== "" ? (hits ?? []) : [];
  const at = chosen.value < listed.length ? chosen.value : -1;
  const go = (hit: SearchHit | undefined) => {
    if (hit === undefined) return;
    location.hash = store.link(placeOf(hit));
    shut();
    input.current?.blur();
  };
  const isAnswered = typed.value.trim() === asked.value && (hits ?? refused) !== undefined;
  useEffect(() => {
    if (!hurries.current || !isAnswered) return;
    hurries.current = false;
    go(listed[Math.max(0, at)]);
  });
  const enter = () => {
    hurries.current = !isAnswered;
    if (isAnswered) go(listed[Math.max(0, at)]);
    else asked.value = typed.value.trim();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") chosen.value = step(at, event.key === "ArrowDown" ? 1 : -1, listed.length);
    else if (event.key === "Enter") enter();
    else if (event.key === "Escape") {
      if (typed.value === "") input.current?.blur();
      shut();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="search" role="search" onFocusOut={(event) => leave(event)}>
      <input
        ref={input}
        id="search"
        type="search"
        role="combobox"
        autocomplete="off"
        list={undefined}
        placeholder="Search" title="Host, job, rank, communicator, summation group or NIC"
        aria-label="Search host, job, rank, communicator, summation group or NIC"
        aria-keyshortcuts="/"
        aria-expanded={listed.length > 0}
        aria-controls="search-hits"
        aria-activedescendant={at < 0 ? undefined : `hit-${at}`}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          hurries.current = false;
          open.value = true;
          chosen.value = -1;
        }}
        onFocus={() => (open.value = true)}
        onKeyDown={key}
      />
      <kbd aria-hidden="true">/</kbd>
      {open.value && asked.value !== "" && (
        <ul id="search-hits" role="listbox" aria-label="Found">
          {listed.map((hit, i) => (
            <li key={`${hit.kind}${hit.title}${hit.detail}`} id={`hit-${i}`} role="option" aria-selected={i === at} onPointerDown={(event) => event.preventDefault()} onClick={() => go(hit)}>
              <small>{hit.kind}</small> <b>{hit.title}</b> <span class="quiet">{hit.detail}</span>
            </li>
          ))}
          {listed.length === 0 && <li class="quiet" role="option" aria-selected={false} aria-disabled="true">{hits === undefined ? (refused ?? "Searching …") : "Nothing of that name."}</li>}
        </ul>
      )}
    </div>
  );
}

function shut(): void {
  typed.value = "";
  asked.value = "";
  chosen.value = -1;
  open.value = false;
}

function leave(event: FocusEvent): void {
  if (!(event.currentTarget as HTMLElement).contains(event.relatedTarget as Node | null)) open.value = false;
}
