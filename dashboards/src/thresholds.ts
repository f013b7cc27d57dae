/**
 * Every threshold of the rules, with its reason; the only place of them. Durations are written as PromQL writes them.
 *
 * All hold where Prometheus scrapes and evaluates each 60 s, or more often: a window has two samples at least also where one is
 * missed, and what must hold for a while does so for more than one scrape, or was seen in two.
 */
export const thresholds = {
  /** Window of rates: five scrapes at 60 s, so that one that is missed moves nothing. */
  rateWindow: "5m",

  /**
   * What was found must have been seen in two scrapes of this time, two at 60 s and one late: the counts of a communicator do not
   * change, but its ranks are not all told of at the same moment. At 5 s that takes 5 s; no `for` would do at both.
   */
  twice: "150s",

  /** An alert stays this long after its series are gone: a daemon that restarts and misses a scrape must not resolve what holds. */
  restartGap: "2m",

  /** An incident: the daemon has looked twice itself. Longer, and a hang would not be out within 30 s. */
  incident: "0s",

  /** An incident outlives what follows from it by one evaluation, so that none of that wakes somebody when all is over. */
  incidentGap: "190s",

  /** Nobody can say how something stands: longer than a job takes from its start to its first completed call. */
  unknown: "10m",

  /** Between the two moments whose counts are compared: longer than a scrape at 60 s, so that they are never the same. */
  stall: "90s",

  /** Issued and not completed: longer than any collective takes. A stall comes before it. */
  backlogGrows: "30s",

  /** Nothing completes: half of the 10 minutes after which PyTorch's watchdog kills a job, so that one can still look. */
  completionStands: "5m",

  /** A running job without a collective, in seconds: longer than a checkpoint, or an evaluation on one rank, takes. */
  silentJobSeconds: 900,

  /** Stale processes; a process is stale 15 s after the last word. Longer than one scrape at 60 s tells of it. */
  agentAway: "75s",

  /** An agent that nobody waits for, in seconds: longer than a host takes to boot. */
  silentAgentSeconds: 300,

  /** The daemon: longer than a restart with a migration of the database takes, and than one failed scrape at 60 s tells of it. */
  daemonAway: "75s",
  nobodyLeads: "75s",
  standbyCutOff: "75s",

  /** The database: longer than its own restart takes, and than one scrape at 60 s tells of it. Agents keep what they read meanwhile. */
  storeAway: "75s",

  /** What has no series: longer than jobs take to end that make room. */
  leftOut: "5m",

  /** How far back remote write is looked at: it loses whole rounds, a minute or less apart. */
  remoteWrite: "5m",

  /** How long a new loss is shown, and how far back the losses of before are looked for. */
  lossShown: "10m",
  lossRemembered: "1h",
} as const;
