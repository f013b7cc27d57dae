import type { FindingCounts, Severity } from "../api";
import { integer } from "../pure/format";
import { Mark } from "./mark";

const SEVERITIES: Severity[] = ["critical", "warning", "info"];

/** Firing findings by severity, each a shape, a number and a word; `href` leads to them. */
export function Counts({ counts, href }: { counts: FindingCounts; href: (severity: Severity) => string }) {
  const some = SEVERITIES.filter((severity) => counts[severity] > 0);
  if (some.length === 0) return <span class="quiet">none</span>;
  return (
    <span class="counts">
      {some.map((severity) => (
        <a key={severity} href={href(severity)}>
          <Mark kind={severity} />
          {integer(counts[severity])} <span>{severity}</span>
        </a>
      ))}
    </span>
  );
}
