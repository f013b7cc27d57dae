import type { ComponentChildren } from "preact";

/** A named region of the board. */
export function Panel(props: { id: string; title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel" id={props.id} aria-labelledby={`${props.id}-title`} tabIndex={-1}>
      <header>
        <h2 id={`${props.id}-title`}>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}
