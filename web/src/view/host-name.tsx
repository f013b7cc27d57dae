import type { ComponentChildren } from "preact";
import { hostsIn } from "../pure/host-names";
import * as store from "../state/store";

/** A host as lists call it; the whole name is there for who points at it, and on the host's page. */
export function HostName({ of }: { of: string }) {
  const short = store.shortHost(of);
  return short === of ? <>{of}</> : <span class="host-name" title={of}>{short}</span>;
}

/** A sentence with its hosts as lists call them. */
export function withHosts(words: string, plain: (part: string) => ComponentChildren = (part) => part): ComponentChildren {
  return hostsIn(words, store.hostNames.value).map((part, i) => (i % 2 === 1 ? <HostName key={i} of={part} /> : plain(part)));
}
