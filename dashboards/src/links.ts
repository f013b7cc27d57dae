/** Where an alert leads: the runbook, and ringscope's page. Templates of Prometheus. */

/** Name of the scrape job in `prometheus.yml`: it tells our `up` from others'. */
export const SCRAPE_JOB = "ringscope";

const RUNBOOK = "https://github.com/ringscope/ringscope/blob/main/dashboards/runbook.md";

/** A section of `runbook.md`. */
export function runbook(section: string): string {
  return `${RUNBOOK}#${section}`;
}

/** A place on ringscope's page. The daemon that was scraped shows it too. */
export const page = {
  communicator: pageOf("communicators/{{ $labels.comm | urlquery }}"),
  host: pageOf("hosts/{{ $labels.host | urlquery }}"),
  job: pageOf("jobs/{{ $labels.job | urlquery }}"),
  summation: pageOf("summation/{{ $labels.group | urlquery }}"),
  incident: pageOf("incidents/{{ $labels.incident | urlquery }}"),
  overview: pageOf(""),
  /** The same, or nothing in an alert about no daemon in particular. */
  overviewIfKnown: `{{ if $labels.instance }}${pageOf("")}{{ end }}`,
};

function pageOf(place: string): string {
  return `http://{{ $labels.instance }}/#/${place}`;
}
