import type { ComponentChildren } from "preact";
import { withHosts } from "./host-name";

/** A number and its unit are not on two lines. */
function withUnits(words: string): string {
  return words.replace(/(\d) (ms|µs|s|min|h|d|%|[kMGT]?B\/s|[KMGT]iB)(?![\w])/g, "$1\u00a0$2");
}

/** What stands between backticks is to be typed, and stays as it is; `plain` draws the rest. */
export function withCommands(words: string, plain: (part: string) => ComponentChildren = withHosts): ComponentChildren {
  return words.split("`").map((part, i) => (i % 2 === 1 ? <code class="whole">{part}</code> : plain(withUnits(part))));
}
