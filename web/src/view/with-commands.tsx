import type { ComponentChildren } from "preact";

/** What stands between backticks is to be typed. */
export function withCommands(words: string): ComponentChildren {
  return words.split("`").map((part, i) => (i % 2 === 1 ? <code class="whole">{part}</code> : part));
}
