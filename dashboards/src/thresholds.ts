/** Every threshold of the rules, with its reason; the only place of them. Durations are written as PromQL writes them. */
export const thresholds = {
  /** Window of rates: twelve scrapes at the example's 5 s, so that one that is missed moves nothing. */
  rateWindow: "1m",

  /**
   * What was found must hold this long: one further evaluation. The counts of a communicator do not change, but its
   * ranks are not all told of at the same moment. Longer, and the alert would not be out within 30 s.
   */
  settle: "5s",

  /** An alert stays this long after its series are gone: a daemon that restarts must not resolve what holds. */
  restartGap: "20s",

  /** An incident: the daemon has looked twice itself. Longer, and a hang would not be out within 30 s. */
  incident: "0s",

  /** An incident outlives what follows from it by one evaluation, so that none of that wakes somebody when all is over. */
  incidentGap: "25s",

  /** Nobody can say how something stands: longer than a job takes from its start to its first completed call. */
  unknown: "10m",

  /** Issued and not completed: longer than any collective takes. A window of rates without completion comes before it. */
  backlogGrows: "30s",

  /** Nothing completes: half of the 10 minutes after which PyTorch's watchdog kills a job, so that one can still look. */
  completionStands: "5m",

  /** A running job without a collective, in seconds: longer than a checkpoint, or an evaluation on one rank, takes. */
  silentJobSeconds: 900,

  /** Stale processes; a process is stale 15 s after the last word, so this makes a minute. */
  agentAway: "45s",

  /** An agent that nobody waits for, in seconds: longer than a host takes to boot. */
  silentAgentSeconds: 300,

  /** The daemon: longer than a restart with a migration of the database takes. */
  daemonAway: "1m",

  /** The database: longer than its own restart takes. Diagnosis goes on without it. */
  storeAway: "1m",

  /** How long a new loss is shown, and how far back the losses of before are looked for. */
  lossShown: "10m",
  lossRemembered: "1h",
} as const;
