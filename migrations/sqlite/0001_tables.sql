-- The tables of ringscope. `migrations/postgres` has the same numbers with the same tables: change both.
-- Unsigned 64-bit numbers are kept as their two's complement in signed columns; none reaches 2^63 in practice.

-- Agents that batches were taken from; what makes a resent batch count once.
CREATE TABLE agents (
    -- Random id of one start of one agent.
    agent_id TEXT NOT NULL PRIMARY KEY,
    -- Machine that the agent runs on.
    host TEXT NOT NULL,
    -- Highest batch number taken.
    last_seq INTEGER NOT NULL,
    -- When it was taken: nanoseconds since 1970, UTC.
    last_seen_ns INTEGER NOT NULL
);

-- Training processes: what rarely changes of them. Authoritative: the model is rebuilt from it.
CREATE TABLE processes (
    -- <host>/<pid>/<start_time_ns>.
    key TEXT NOT NULL PRIMARY KEY,
    -- Job that it belongs to; empty if not said yet.
    job TEXT NOT NULL,
    -- Host that it counts itself to; empty if not said yet.
    host TEXT NOT NULL,
    -- Process id as the process sees it; 0 if not said yet.
    pid INTEGER NOT NULL,
    -- Start of the process: nanoseconds since 1970, UTC; 0 if not said yet.
    started_ns INTEGER NOT NULL,
    -- When it was first seen to have ended: nanoseconds since 1970, UTC. NULL while it lives.
    ended_ns INTEGER,
    -- Identity, communicators and state: a protobuf ringscope.v1.Process.
    facts BLOB NOT NULL,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);
CREATE INDEX processes_by_end ON processes (ended_ns);

-- Training processes: what changes with every batch. A table of its own, so that facts are not rewritten.
CREATE TABLE process_counters (
    -- processes.key.
    key TEXT NOT NULL PRIMARY KEY,
    -- Counters, links and operations, cumulative: a protobuf ringscope.v1.Process.
    counters BLOB NOT NULL,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);

-- Jobs, as last shown. Derived from processes.
CREATE TABLE jobs (
    -- Job id as the launcher named it.
    id TEXT NOT NULL PRIMARY KEY,
    -- running, stale or ended.
    state TEXT NOT NULL,
    -- Ranks as the launcher says. NULL: not said.
    world_size INTEGER,
    -- Processes seen.
    n_processes INTEGER NOT NULL,
    -- Start of its first process: nanoseconds since 1970, UTC.
    first_seen_ns INTEGER NOT NULL,
    -- When something was last heard of it: nanoseconds since 1970, UTC.
    last_seen_ns INTEGER NOT NULL,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);

-- Hosts, as last shown. Derived from processes.
CREATE TABLE hosts (
    -- Name.
    host TEXT NOT NULL PRIMARY KEY,
    -- 1 if it is the subject of a firing finding of severity warning or above, else 0.
    degraded INTEGER NOT NULL,
    -- Live processes.
    n_processes INTEGER NOT NULL,
    -- When something was last heard of it: nanoseconds since 1970, UTC.
    last_seen_ns INTEGER NOT NULL,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);

-- Communicators, as last shown. Derived from processes.
CREATE TABLE communicators (
    -- Short id: twelve hexadecimal digits.
    id TEXT NOT NULL PRIMARY KEY,
    -- Job.
    job TEXT NOT NULL,
    -- The library's own hash as its log prints it.
    comm_hash TEXT NOT NULL,
    -- Name that the program gave it. NULL: none.
    name TEXT,
    -- forming, active, broken or ended.
    state TEXT NOT NULL,
    -- Number of ranks.
    n_ranks INTEGER NOT NULL,
    -- Number of NCCL nodes; hosts if the library did not say.
    n_nodes INTEGER NOT NULL,
    -- Lowest init channel count of all ranks. NULL: not known.
    base_channels INTEGER,
    -- Agreed channel count. NULL: not known, or the ranks disagree.
    final_channels INTEGER,
    -- When the first rank called its init: nanoseconds since 1970, UTC.
    created_ns INTEGER NOT NULL,
    -- When the last rank ended it: nanoseconds since 1970, UTC. NULL: in use.
    ended_ns INTEGER,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);
CREATE INDEX communicators_by_job ON communicators (job);

-- Ranks of communicators and their channel counts. Derived from processes and findings.
CREATE TABLE communicator_ranks (
    -- communicators.id.
    comm TEXT NOT NULL,
    -- Rank in the communicator.
    rank INTEGER NOT NULL,
    -- Host.
    host TEXT NOT NULL,
    -- Process id on it.
    pid INTEGER NOT NULL,
    -- GPU as the library names it. NULL: none, or not known.
    gpu TEXT,
    -- Channels that its node's own search found. NULL: not known.
    init_channels INTEGER,
    -- Channels that it uses. NULL: not known.
    final_channels INTEGER,
    -- Why final is what it is.
    cause TEXT NOT NULL,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL,
    PRIMARY KEY (comm, rank)
) WITHOUT ROWID;

-- What each rank says of its place in the ring of each channel. Derived from processes.
CREATE TABLE ring_hops (
    -- communicators.id.
    comm TEXT NOT NULL,
    -- Channel.
    channel INTEGER NOT NULL,
    -- Rank in the communicator.
    rank INTEGER NOT NULL,
    -- Rank before it.
    prev INTEGER NOT NULL,
    -- Rank after it.
    next INTEGER NOT NULL,
    -- Transport to the next rank, e.g. NET/IB. NULL: not known.
    transport TEXT,
    -- NIC of that hop. NULL: none, or not known.
    nic TEXT,
    PRIMARY KEY (comm, channel, rank)
) WITHOUT ROWID;

-- What diagnosis concluded, firing and resolved.
CREATE TABLE findings (
    -- Stable id: the same condition on the same subject keeps it.
    id TEXT NOT NULL PRIMARY KEY,
    -- Kind, e.g. channel_shortfall.
    finding TEXT NOT NULL,
    -- info, warning or critical.
    severity TEXT NOT NULL,
    -- firing or resolved.
    state TEXT NOT NULL,
    -- Job.
    job TEXT NOT NULL,
    -- Host that is the subject.
    host TEXT NOT NULL,
    -- communicators.id.
    comm TEXT NOT NULL,
    -- Rank that is the subject. NULL: the whole host or communicator.
    rank INTEGER,
    -- One word why.
    cause TEXT NOT NULL,
    -- The reason in words.
    message TEXT NOT NULL,
    -- When it was first seen: nanoseconds since 1970, UTC.
    first_seen_ns INTEGER NOT NULL,
    -- When it was last seen to hold: nanoseconds since 1970, UTC.
    last_seen_ns INTEGER NOT NULL,
    -- When it was seen to hold no more: nanoseconds since 1970, UTC. NULL: firing.
    resolved_ns INTEGER,
    -- The finding as the REST API shows it, JSON.
    body TEXT NOT NULL
);
CREATE INDEX findings_by_state ON findings (state, last_seen_ns);

-- History: cumulative counters, summed over the ranks of a host. A series has a row only where it changed.
CREATE TABLE samples (
    -- communicators.id.
    comm TEXT NOT NULL,
    -- When: milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL,
    -- Host.
    host TEXT NOT NULL,
    -- all_reduce, all_gather, ...
    primitive TEXT NOT NULL,
    -- Calls handed to the library.
    issued_calls INTEGER NOT NULL,
    -- Their payload bytes.
    issued_bytes INTEGER NOT NULL,
    -- Calls finished.
    completed_calls INTEGER NOT NULL,
    -- Their payload bytes.
    completed_bytes INTEGER NOT NULL,
    -- Bytes sent to ranks on the same host.
    intra_bytes INTEGER NOT NULL,
    -- Bytes sent to ranks on other hosts.
    inter_bytes INTEGER NOT NULL,
    PRIMARY KEY (comm, ts_ms, host, primitive)
) WITHOUT ROWID;
