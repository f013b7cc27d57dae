/** Alerts on ringscope itself: what it cannot see, it must not be silent about. */

import { page, SCRAPE_JOB } from "../links.js";
import { thresholds } from "../thresholds.js";
import { alert, DAEMON, number } from "./rule.js";
import type { Alert, Group } from "./rule.js";

const up = `up{job="${SCRAPE_JOB}"}`;
/** Of several daemons, the one that does the work. */
const leads = "ringscope_daemon_leads == 1";
const lost = "ringscope_dropped_events_total";
const lostBefore = `max_over_time(${lost}[${thresholds.lossRemembered}] offset ${thresholds.lossShown})`;
/** What ringscope has named is told as its incident; or by nobody, where somebody has silenced that. */
const UNLESS_LOST = `unless on (${DAEMON}, host) ringscope_incident{finding="host_lost"}`;
const unwritten = (since = "") => `sum by (${DAEMON}, result) (ringscope_remote_write_samples_total{result=~"failed|dropped"}${since})`;
const STORE_ERRORS = number("ringscope_store_errors_total{%labels%}", ["instance"]);

export const itself: Group<Alert> = {
  name: "ringscope-itself",
  rules: [
    alert({
      name: "DaemonAway",
      section: "daemon_away",
      expr: `${up} == 0 unless on (cluster) ${leads}\nor absent(${up})`,
      for: thresholds.daemonAway,
      severity: "critical",
      summary: "ringscope's daemon does not answer",
      description:
        "Prometheus gets nothing from {{ with $labels.instance }}{{ . }}{{ else }}any daemon: it has none to scrape{{ end }}, and no other daemon leads, so no other alert of ringscope can fire. Agents keep what they read until it is back.",
      page: page.overviewIfKnown,
    }),
    alert({
      name: "RedundancyLost",
      section: "redundancy_lost",
      expr: `${up} == 0 and on (cluster) ${leads}`,
      for: thresholds.daemonAway,
      severity: "warning",
      summary: "One of ringscope's daemons does not answer; another one leads",
      description:
        "Prometheus gets nothing from {{ $labels.instance }}. Another daemon of the same database leads, and all goes on; if that one is lost too, perhaps nobody takes over.",
      page: "",
    }),
    alert({
      name: "AgentAway",
      section: "agent_away",
      expr: `sum by (${DAEMON}, job, host) (ringscope_job_processes{state="stale"}) > 0\n${UNLESS_LOST}`,
      for: thresholds.agentAway,
      severity: "warning",
      summary: "Nothing is heard of {{ $labels.host }}, where job {{ $labels.job }} runs",
      description:
        "For more than a minute nothing was heard of {{ $value }} processes of job {{ $labels.job }} on {{ $labels.host }}, and nobody has seen them end: the agent there is away, or the host is.",
      page: page.host,
    }),
    alert({
      name: "AgentSilent",
      section: "agent_away",
      // When it was scraped, and not now: an old sample is no silence.
      expr: `timestamp(ringscope_agent_heard_timestamp_seconds) - ringscope_agent_heard_timestamp_seconds > ${thresholds.silentAgentSeconds}\n${UNLESS_LOST}`,
      severity: "info",
      summary: "The agent of {{ $labels.host }} is silent",
      description:
        "The agent of {{ $labels.host }} was last heard {{ $value | humanizeDuration }} ago. A job that starts there now is not seen.",
      page: page.host,
    }),
    alert({
      name: "CollectorFault",
      section: "collector_fault",
      expr: 'ringscope_collector_state{state="fault"} > 0',
      severity: "warning",
      summary: "Collectors on {{ $labels.host }} have switched themselves off",
      description:
        "{{ $value }} collectors of job {{ $labels.job }} on {{ $labels.host }} met a fault and switched themselves off. The job goes on; its calls there are not counted.",
      page: page.host,
    }),
    alert({
      // Not `increase`: after a restart of the daemon the counts come back agent by agent, which looks like growth.
      name: "CollectorDropping",
      section: "collector_dropping",
      expr: `${lost} > ${lostBefore}\nor ${lost} > 0 unless ${lostBefore}`,
      severity: "warning",
      summary: "ringscope loses events ({{ $labels.reason }})",
      description: `{{ $value }} events have been lost for the reason {{ $labels.reason }}, more than ${thresholds.lossShown} ago. What was recorded of single operations has gaps.`,
      page: page.overview,
    }),
    alert({
      name: "NobodyLeads",
      section: "nobody_leads",
      expr: "sum by (cluster) (ringscope_daemon_leads) != 1",
      for: thresholds.nobodyLeads,
      severity: "critical",
      summary: "None of the daemons leads, or several do",
      description:
        "{{ $value }} of the daemons that share a database lead, and one should: while none does, no batch is taken and no other alert of ringscope can fire. Agents keep what they read.",
      page: "",
    }),
    alert({
      name: "StandbyCutOff",
      section: "standby_cut_off",
      // While none leads there is none to reach, and another alert says so.
      expr: `ringscope_daemon_reaches_leader == 0 and on (cluster) ${leads}`,
      for: thresholds.standbyCutOff,
      severity: "warning",
      summary: "A daemon that stands by does not reach the one that leads",
      description:
        "The daemon {{ $labels.instance }} stands by, and the one that leads does not answer it: it hands nothing on, and answers 503. `curl http://{{ $labels.instance }}/readyz` and its log say why.",
      page: "",
    }),
    alert({
      name: "StoreAway",
      section: "store_away",
      expr: "ringscope_store_up == 0",
      for: thresholds.storeAway,
      severity: "warning",
      summary: "ringscope's database is away",
      description: `The daemon {{ $labels.instance }} cannot use its database, with ${STORE_ERRORS} errors so far. Until it can, batches are refused and wait with the agents, up to their limit on disk: nothing new is known, and nothing new is found.`,
      page: page.overview,
    }),
    alert({
      name: "RemoteWriteLosing",
      section: "remote_write_losing",
      expr: `${unwritten()}\n- ${unwritten(` offset ${thresholds.remoteWrite}`)} > 0`,
      severity: "warning",
      summary: "Long history loses samples ({{ $labels.result }})",
      description: `In ${thresholds.remoteWrite} the daemon {{ $labels.instance }} could not write {{ $value }} samples to the database of --remote-write ({{ $labels.result }}). Its log says why.`,
      page: page.overview,
    }),
    alert({
      name: "MetricsOmitted",
      section: "metrics_omitted",
      // What has its sums, and no series for each host, is no loss to the rules.
      expr: 'ringscope_metrics_left_out{kind!~".*_by_host|hosts_nics"} > 0',
      for: thresholds.leftOut,
      severity: "info",
      summary: "{{ $value }} {{ $labels.kind }} are not among the metrics",
      description:
        "The daemon {{ $labels.instance }} shows the unhealthy and largest first, and leaves out {{ $value }} {{ $labels.kind }}: rules and dashboards are blind to them, ringscope's page is not.",
      page: page.overview,
    }),
  ],
};
