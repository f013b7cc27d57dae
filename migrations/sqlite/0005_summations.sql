-- Summation groups, as last shown. Derived from processes.
CREATE TABLE summation_groups (
    -- Short id: twelve hexadecimal digits.
    id TEXT NOT NULL PRIMARY KEY,
    -- Job of its workers.
    job TEXT NOT NULL,
    -- What stays when members change: 16 hexadecimal digits.
    session TEXT NOT NULL,
    -- Counts the changes of members in the session.
    membership_epoch INTEGER NOT NULL,
    -- starting, running, suspended, ended or failed.
    state TEXT NOT NULL,
    -- Workers, heard of or not.
    n_workers INTEGER NOT NULL,
    -- Servers on machines of their own, heard of or not.
    n_servers INTEGER NOT NULL,
    -- 1 if sums are asynchronous, else 0.
    asynchronous INTEGER NOT NULL,
    -- Bytes of all tensors.
    model_bytes INTEGER NOT NULL,
    -- When the first of its members joined: nanoseconds since 1970, UTC.
    started_ns INTEGER NOT NULL,
    -- When its last member left it or ended: nanoseconds since 1970, UTC. NULL: in use.
    ended_ns INTEGER,
    -- When this row was written: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
);
CREATE INDEX summation_groups_by_job ON summation_groups (job);

-- History of summation groups: one series a service. A group has rows only where something of it changed.
CREATE TABLE summation_samples (
    -- summation_groups.id.
    group_id TEXT NOT NULL,
    -- When: milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL,
    -- Host of the service. Empty: not known.
    host TEXT NOT NULL,
    -- Number of the service: those of servers first, then one in each worker.
    service TEXT NOT NULL,
    -- Bytes that workers pushed to it, cumulative.
    pushed_bytes INTEGER NOT NULL,
    -- Bytes that workers pulled from it, cumulative.
    pulled_bytes INTEGER NOT NULL,
    -- Bytes of contributions that it added up, cumulative. NULL: its process was not heard of.
    summed_bytes INTEGER,
    -- Rounds of parts that got a result, cumulative. NULL: as before.
    finished_rounds INTEGER,
    -- Millionths of all bytes that it owns.
    share_ppm INTEGER NOT NULL,
    -- Millionths of all bytes that it should own.
    optimal_share_ppm INTEGER NOT NULL,
    -- Nanoseconds from the first to the last contribution of a round: the worst of those that were told since the row before. NULL: none was.
    spread_ns INTEGER,
    PRIMARY KEY (group_id, ts_ms, host, service)
) WITHOUT ROWID;

-- History of summation groups in coarser steps, as rollups has that of communicators.
CREATE TABLE summation_rollups (
    -- Length of a bucket, milliseconds: 60000, 600000 or 3600000.
    level_ms INTEGER NOT NULL,
    -- summation_groups.id.
    group_id TEXT NOT NULL,
    -- When the sample was taken that this row is: milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL,
    -- As in summation_samples.
    host TEXT NOT NULL,
    -- As in summation_samples.
    service TEXT NOT NULL,
    -- As in summation_samples.
    pushed_bytes INTEGER NOT NULL,
    -- As in summation_samples.
    pulled_bytes INTEGER NOT NULL,
    -- As in summation_samples.
    summed_bytes INTEGER,
    -- As in summation_samples.
    finished_rounds INTEGER,
    -- As in summation_samples.
    share_ppm INTEGER NOT NULL,
    -- As in summation_samples.
    optimal_share_ppm INTEGER NOT NULL,
    -- The worst of the bucket. NULL: none was told.
    spread_ns INTEGER,
    PRIMARY KEY (level_ms, group_id, ts_ms, host, service)
) WITHOUT ROWID;
