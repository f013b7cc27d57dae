import type { ComponentChildren } from "preact";
import { ToldAbove } from "./incident/lines";
import { Mark } from "./mark";
import type { Shown } from "./standing";
import { withCommands } from "./with-commands";

/** What the page is about: where it hangs, its name, and its facts. */
export function PageHead(props: { crumbs: [string, string][]; name: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <header class="page-head">
      <nav class="crumbs" aria-label="Above this page">
        {props.crumbs.map(([name, href]) => (
          <a key={href} href={href}>
            {name}
          </a>
        ))}
      </nav>
      <div class="page-name">
        <h2>{props.name}</h2>
        {props.aside}
      </div>
      <dl class="facts">{props.children}</dl>
    </header>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** How it stands, and why. */
export function Stands({ kind, label, why, children }: Shown & { children?: ComponentChildren }) {
  return (
    <div class="stands">
      <dt>Stands</dt>
      <dd>
        <b>
          <Mark kind={kind} /> {label}
        </b>
        <small><ToldAbove words={why} where="below">{withCommands(why)}</ToldAbove></small>
        {children}
      </dd>
    </div>
  );
}
