import type { ComponentChildren } from "preact";

/** What stands between backticks is to be typed; `plain` draws the rest. */
export function withCommands(words: string, plain: (part: string) => ComponentChildren = (part) => part): ComponentChildren {
  return words.split("`").map((part, i) => (i % 2 === 1 ? <code class="whole">{part}</code> : plain(part)));
}
