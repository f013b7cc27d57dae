/** The alert that somebody is woken up by: one for each incident. All others are its consequences, or ringscope's own. */

import { page } from "../links.js";
import { thresholds } from "../thresholds.js";
import { alert } from "./rule.js";
import type { Alert, Group } from "./rule.js";

export const incidents: Group<Alert> = {
  name: "ringscope-incidents",
  rules: [
    alert({
      // 0 while somebody has silenced it.
      name: "Incident",
      section: "{{ $labels.finding }}",
      expr: 'ringscope_incident{severity=~"critical|warning"} == 1',
      for: thresholds.incident,
      keepFiringFor: thresholds.incidentGap,
      summary:
        "{{ $labels.finding }}{{ with $labels.host }} on {{ . }}{{ end }}{{ with $labels.rank }}, rank {{ . }}{{ end }}{{ with $labels.job }}, in job {{ . }}{{ end }}",
      description:
        "ringscope has found it, and its page says in one sentence who is to blame, who waits, since when and what to do. Whatever follows from it is in the same incident.",
      page: page.incident,
    }),
    alert({
      name: "Unknown",
      section: "unknown",
      expr: 'ringscope_health{level="unknown"} == 1',
      for: thresholds.unknown,
      severity: "info",
      summary: "ringscope cannot say how everything stands",
      description:
        "Nothing is known to be wrong, and for some job or host on {{ $labels.instance }} there is no evidence that all is well. The first line of the page says which, and what would be needed to know.",
      page: page.overview,
    }),
  ],
};
