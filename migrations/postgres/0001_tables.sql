-- The tables of ringscope. `migrations/sqlite` has the same numbers with the same tables: change both.
-- Unsigned 64-bit numbers are kept as their two's complement in signed columns; none reaches 2^63 in practice.

CREATE TABLE agents (
    agent_id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL
);
COMMENT ON TABLE agents IS 'Agents that batches were taken from; what makes a resent batch count once.';
COMMENT ON COLUMN agents.agent_id IS 'Random id of one start of one agent.';
COMMENT ON COLUMN agents.host IS 'Machine that the agent runs on.';
COMMENT ON COLUMN agents.last_seq IS 'Highest batch number taken.';
COMMENT ON COLUMN agents.last_seen_ns IS 'When it was taken: nanoseconds since 1970, UTC.';

CREATE TABLE processes (
    key TEXT NOT NULL PRIMARY KEY,
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    started_ns BIGINT NOT NULL,
    ended_ns BIGINT,
    facts BYTEA NOT NULL,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE processes IS 'Training processes: what rarely changes of them. Authoritative: the model is rebuilt from it.';
COMMENT ON COLUMN processes.key IS '<host>/<pid>/<start_time_ns>.';
COMMENT ON COLUMN processes.job IS 'Job that it belongs to; empty if not said yet.';
COMMENT ON COLUMN processes.host IS 'Host that it counts itself to; empty if not said yet.';
COMMENT ON COLUMN processes.pid IS 'Process id as the process sees it; 0 if not said yet.';
COMMENT ON COLUMN processes.started_ns IS 'Start of the process: nanoseconds since 1970, UTC; 0 if not said yet.';
COMMENT ON COLUMN processes.ended_ns IS 'When it was first seen to have ended: nanoseconds since 1970, UTC. NULL while it lives.';
COMMENT ON COLUMN processes.facts IS 'Identity, communicators and state: a protobuf ringscope.v1.Process.';
COMMENT ON COLUMN processes.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';
CREATE INDEX processes_by_end ON processes (ended_ns);

CREATE TABLE process_counters (
    key TEXT NOT NULL PRIMARY KEY,
    counters BYTEA NOT NULL,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE process_counters IS 'Training processes: what changes with every batch. A table of its own, so that facts are not rewritten.';
COMMENT ON COLUMN process_counters.key IS 'processes.key.';
COMMENT ON COLUMN process_counters.counters IS 'Counters, links and operations, cumulative: a protobuf ringscope.v1.Process.';
COMMENT ON COLUMN process_counters.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';
-- Not compressed: rewritten with every batch, and small numbers in protobuf compress badly.
ALTER TABLE process_counters ALTER COLUMN counters SET STORAGE EXTERNAL;

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    world_size BIGINT,
    n_processes BIGINT NOT NULL,
    first_seen_ns BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE jobs IS 'Jobs, as last shown. Derived from processes.';
COMMENT ON COLUMN jobs.id IS 'Job id as the launcher named it.';
COMMENT ON COLUMN jobs.state IS 'running, stale or ended.';
COMMENT ON COLUMN jobs.world_size IS 'Ranks as the launcher says. NULL: not said.';
COMMENT ON COLUMN jobs.n_processes IS 'Processes seen.';
COMMENT ON COLUMN jobs.first_seen_ns IS 'Start of its first process: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN jobs.last_seen_ns IS 'When something was last heard of it: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN jobs.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';

CREATE TABLE hosts (
    host TEXT NOT NULL PRIMARY KEY,
    degraded BIGINT NOT NULL,
    n_processes BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE hosts IS 'Hosts, as last shown. Derived from processes.';
COMMENT ON COLUMN hosts.host IS 'Name.';
COMMENT ON COLUMN hosts.degraded IS '1 if it is the subject of a firing finding of severity warning or above, else 0.';
COMMENT ON COLUMN hosts.n_processes IS 'Live processes.';
COMMENT ON COLUMN hosts.last_seen_ns IS 'When something was last heard of it: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN hosts.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';

CREATE TABLE communicators (
    id TEXT NOT NULL PRIMARY KEY,
    job TEXT NOT NULL,
    comm_hash TEXT NOT NULL,
    name TEXT,
    state TEXT NOT NULL,
    n_ranks BIGINT NOT NULL,
    n_nodes BIGINT NOT NULL,
    base_channels BIGINT,
    final_channels BIGINT,
    created_ns BIGINT NOT NULL,
    ended_ns BIGINT,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE communicators IS 'Communicators, as last shown. Derived from processes.';
COMMENT ON COLUMN communicators.id IS 'Short id: twelve hexadecimal digits.';
COMMENT ON COLUMN communicators.job IS 'Job.';
COMMENT ON COLUMN communicators.comm_hash IS 'The library''s own hash as its log prints it.';
COMMENT ON COLUMN communicators.name IS 'Name that the program gave it. NULL: none.';
COMMENT ON COLUMN communicators.state IS 'forming, active, broken or ended.';
COMMENT ON COLUMN communicators.n_ranks IS 'Number of ranks.';
COMMENT ON COLUMN communicators.n_nodes IS 'Number of NCCL nodes; hosts if the library did not say.';
COMMENT ON COLUMN communicators.base_channels IS 'Lowest init channel count of all ranks. NULL: not known.';
COMMENT ON COLUMN communicators.final_channels IS 'Agreed channel count. NULL: not known, or the ranks disagree.';
COMMENT ON COLUMN communicators.created_ns IS 'When the first rank called its init: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN communicators.ended_ns IS 'When the last rank ended it: nanoseconds since 1970, UTC. NULL: in use.';
COMMENT ON COLUMN communicators.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';
CREATE INDEX communicators_by_job ON communicators (job);

CREATE TABLE communicator_ranks (
    comm TEXT NOT NULL,
    rank BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    gpu TEXT,
    init_channels BIGINT,
    final_channels BIGINT,
    cause TEXT NOT NULL,
    updated_ns BIGINT NOT NULL,
    PRIMARY KEY (comm, rank)
);
COMMENT ON TABLE communicator_ranks IS 'Ranks of communicators and their channel counts. Derived from processes and findings.';
COMMENT ON COLUMN communicator_ranks.comm IS 'communicators.id.';
COMMENT ON COLUMN communicator_ranks.rank IS 'Rank in the communicator.';
COMMENT ON COLUMN communicator_ranks.host IS 'Host.';
COMMENT ON COLUMN communicator_ranks.pid IS 'Process id on it.';
COMMENT ON COLUMN communicator_ranks.gpu IS 'GPU as the library names it. NULL: none, or not known.';
COMMENT ON COLUMN communicator_ranks.init_channels IS 'Channels that its node''s own search found. NULL: not known.';
COMMENT ON COLUMN communicator_ranks.final_channels IS 'Channels that it uses. NULL: not known.';
COMMENT ON COLUMN communicator_ranks.cause IS 'Why final is what it is.';
COMMENT ON COLUMN communicator_ranks.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';

CREATE TABLE ring_hops (
    comm TEXT NOT NULL,
    channel BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    prev BIGINT NOT NULL,
    next BIGINT NOT NULL,
    transport TEXT,
    nic TEXT,
    PRIMARY KEY (comm, channel, rank)
);
COMMENT ON TABLE ring_hops IS 'What each rank says of its place in the ring of each channel. Derived from processes.';
COMMENT ON COLUMN ring_hops.comm IS 'communicators.id.';
COMMENT ON COLUMN ring_hops.channel IS 'Channel.';
COMMENT ON COLUMN ring_hops.rank IS 'Rank in the communicator.';
COMMENT ON COLUMN ring_hops.prev IS 'Rank before it.';
COMMENT ON COLUMN ring_hops.next IS 'Rank after it.';
COMMENT ON COLUMN ring_hops.transport IS 'Transport to the next rank, e.g. NET/IB. NULL: not known.';
COMMENT ON COLUMN ring_hops.nic IS 'NIC of that hop. NULL: none, or not known.';

CREATE TABLE findings (
    id TEXT NOT NULL PRIMARY KEY,
    finding TEXT NOT NULL,
    severity TEXT NOT NULL,
    state TEXT NOT NULL,
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    comm TEXT NOT NULL,
    rank BIGINT,
    cause TEXT NOT NULL,
    message TEXT NOT NULL,
    first_seen_ns BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL,
    resolved_ns BIGINT,
    body TEXT NOT NULL
);
COMMENT ON TABLE findings IS 'What diagnosis concluded, firing and resolved.';
COMMENT ON COLUMN findings.id IS 'Stable id: the same condition on the same subject keeps it.';
COMMENT ON COLUMN findings.finding IS 'Kind, e.g. channel_shortfall.';
COMMENT ON COLUMN findings.severity IS 'info, warning or critical.';
COMMENT ON COLUMN findings.state IS 'firing or resolved.';
COMMENT ON COLUMN findings.job IS 'Job.';
COMMENT ON COLUMN findings.host IS 'Host that is the subject.';
COMMENT ON COLUMN findings.comm IS 'communicators.id.';
COMMENT ON COLUMN findings.rank IS 'Rank that is the subject. NULL: the whole host or communicator.';
COMMENT ON COLUMN findings.cause IS 'One word why.';
COMMENT ON COLUMN findings.message IS 'The reason in words.';
COMMENT ON COLUMN findings.first_seen_ns IS 'When it was first seen: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN findings.last_seen_ns IS 'When it was last seen to hold: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN findings.resolved_ns IS 'When it was seen to hold no more: nanoseconds since 1970, UTC. NULL: firing.';
COMMENT ON COLUMN findings.body IS 'The finding as the REST API shows it, JSON.';
CREATE INDEX findings_by_state ON findings (state, last_seen_ns);

CREATE TABLE samples (
    comm TEXT NOT NULL,
    ts_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    primitive TEXT NOT NULL,
    issued_calls BIGINT NOT NULL,
    issued_bytes BIGINT NOT NULL,
    completed_calls BIGINT NOT NULL,
    completed_bytes BIGINT NOT NULL,
    intra_bytes BIGINT NOT NULL,
    inter_bytes BIGINT NOT NULL,
    PRIMARY KEY (comm, ts_ms, host, primitive)
);
COMMENT ON TABLE samples IS 'History: cumulative counters, summed over the ranks of a host. A series has a row only where it changed.';
COMMENT ON COLUMN samples.comm IS 'communicators.id.';
COMMENT ON COLUMN samples.ts_ms IS 'When: milliseconds since 1970, UTC.';
COMMENT ON COLUMN samples.host IS 'Host.';
COMMENT ON COLUMN samples.primitive IS 'all_reduce, all_gather, ...';
COMMENT ON COLUMN samples.issued_calls IS 'Calls handed to the library.';
COMMENT ON COLUMN samples.issued_bytes IS 'Their payload bytes.';
COMMENT ON COLUMN samples.completed_calls IS 'Calls finished.';
COMMENT ON COLUMN samples.completed_bytes IS 'Their payload bytes.';
COMMENT ON COLUMN samples.intra_bytes IS 'Bytes sent to ranks on the same host.';
COMMENT ON COLUMN samples.inter_bytes IS 'Bytes sent to ranks on other hosts.';
