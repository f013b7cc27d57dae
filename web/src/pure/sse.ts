/**
 * Server-sent events out of a stream of text. Pure. Used instead of `EventSource`, which hides the keep-alive comments:
 * with them a connection that died without a word is noticed.
 */

export interface ServerEvent {
  event: string;
  data: string;
}

export class EventParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** Takes the next piece of the stream, yields the events that it completes. */
  push(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) events.push({ event: this.#event || "message", data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
      } else this.#field(line);
    }
    return events;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    if (name === "data") this.#data.push(value);
  }
}
