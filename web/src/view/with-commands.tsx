import type { ComponentChildren } from "preact";
import { withHosts } from "./host-name";

/** What stands between backticks is to be typed, and stays as it is; `plain` draws the rest. */
export function withCommands(words: string, plain: (part: string) => ComponentChildren = withHosts): ComponentChildren {
  return words.split("`").map((part, i) => (i % 2 === 1 ? <code class="whole">{part}</code> : plain(part)));
}
