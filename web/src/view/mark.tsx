/** A state as a shape: told apart without colour, and by words for who hears the page. */

export type MarkKind = "ok" | "unknown" | "info" | "warning" | "critical" | "hung" | "waits" | "killed" | "stale" | "ended";

const SHAPES: Record<MarkKind, string> = {
  ok: "M3.2 8.300l3.1 3.2 6.5-7",
  info: "M8 3.500a4.5 4.5 0 1 0 .01 0z",
  warning: "M8 1.800L15 14H1z",
  critical: "M8 .8L15.2 8 8 15.2.8 8z",
  killed: "M3.2 3.200l9.6 9.600M12.8 3.200l-9.6 9.6",
  hung: "M8 .8L15.2 8 8 15.2.8 8z",
  waits: "M8 1.500L14.500 8 8 14.500 1.500 8z",
  unknown: "M5.400 5.700a2.600 2.600 0 1 1 3.900 2.300c-.9.5-1.300 1-1.300 2M8 13.100v.1",
  stale: "M8 2.500a5.5 5.5 0 1 0 .01 0z",
  ended: "M3.5 8h9",
};

export function Mark({ kind, label, large = false }: { kind: MarkKind; label?: string; large?: boolean }) {
  return (
    <svg
      class={`mark mark-${kind}${large ? " large" : ""}`}
      viewBox="0 0 16 16"
      {...(label === undefined ? { "aria-hidden": true } : { role: "img", "aria-label": label })}
    >
      <path d={SHAPES[kind]} />
    </svg>
  );
}
