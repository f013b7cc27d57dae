import { duration, iso, moment, zone } from "../pure/format";
import * as store from "../state/store";

/** A moment. Who copies it gets all of it, with its zone. */
export function Time({ at }: { at: string | number }) {
  const ms = typeof at === "number" ? at : Date.parse(at);
  const whole = Number.isNaN(ms) ? undefined : iso(ms);
  return <time dateTime={whole} title={whole}>{moment(ms, store.nowMs.value)}</time>;
}

/** The same, and how long ago. */
export function Ago({ at }: { at: string | number }) {
  const ms = typeof at === "number" ? at : Date.parse(at);
  return <><Time at={ms} />, {duration(Math.max(0, (store.nowMs.value - ms) / 1000))} ago</>;
}

/** In which zone all times on the page are: always on the screen. */
export function Zone() {
  const ms = store.nowMs.value;
  return (
    <footer class="zone" title={`Times are of this browser's zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}. Copied, they carry it.`}>
      times in {zone(ms)}
    </footer>
  );
}

/** What is copied of the page has its times in ISO 8601 with their offset: "03:12:08" means nothing to who reads it elsewhere. */
export function copyWholeTimes(): void {
  document.addEventListener("copy", (event) => {
    const selection = getSelection();
    if (selection === null || selection.isCollapsed || event.clipboardData === null) return;
    const range = selection.getRangeAt(0);
    const part = range.cloneContents();
    const within = (range.commonAncestorContainer instanceof Element ? range.commonAncestorContainer : range.commonAncestorContainer.parentElement)?.closest("time");
    const times = part.querySelectorAll<HTMLTimeElement>("time[datetime]");
    if (times.length === 0 && within == null) return;
    for (const time of times) time.textContent = time.dateTime;
    event.clipboardData.setData("text/plain", within == null ? asText(part) : within.dateTime);
    event.preventDefault();
  });
}

/** As the browser would say it, with its lines. */
function asText(part: DocumentFragment): string {
  const box = document.createElement("div");
  box.className = "unseen copied";
  box.append(part);
  document.body.append(box);
  const text = box.innerText;
  box.remove();
  return text;
}
