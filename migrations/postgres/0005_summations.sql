CREATE TABLE summation_groups (
    id TEXT NOT NULL PRIMARY KEY,
    job TEXT NOT NULL,
    session TEXT NOT NULL,
    membership_epoch BIGINT NOT NULL,
    state TEXT NOT NULL,
    n_workers BIGINT NOT NULL,
    n_servers BIGINT NOT NULL,
    asynchronous BIGINT NOT NULL,
    model_bytes BIGINT NOT NULL,
    started_ns BIGINT NOT NULL,
    ended_ns BIGINT,
    updated_ns BIGINT NOT NULL
);
CREATE INDEX summation_groups_by_job ON summation_groups (job);
COMMENT ON TABLE summation_groups IS 'Summation groups, as last shown. Derived from processes.';
COMMENT ON COLUMN summation_groups.id IS 'Short id: twelve hexadecimal digits.';
COMMENT ON COLUMN summation_groups.job IS 'Job of its workers.';
COMMENT ON COLUMN summation_groups.session IS 'What stays when members change: 16 hexadecimal digits.';
COMMENT ON COLUMN summation_groups.membership_epoch IS 'Counts the changes of members in the session.';
COMMENT ON COLUMN summation_groups.state IS 'starting, running, suspended, ended or failed.';
COMMENT ON COLUMN summation_groups.n_workers IS 'Workers, heard of or not.';
COMMENT ON COLUMN summation_groups.n_servers IS 'Servers on machines of their own, heard of or not.';
COMMENT ON COLUMN summation_groups.asynchronous IS '1 if sums are asynchronous, else 0.';
COMMENT ON COLUMN summation_groups.model_bytes IS 'Bytes of all tensors.';
COMMENT ON COLUMN summation_groups.started_ns IS 'When the first of its members joined: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN summation_groups.ended_ns IS 'When its last member left it or ended: nanoseconds since 1970, UTC. NULL: in use.';
COMMENT ON COLUMN summation_groups.updated_ns IS 'When this row was written: nanoseconds since 1970, UTC.';

CREATE TABLE summation_samples (
    group_id TEXT NOT NULL,
    ts_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    service TEXT NOT NULL,
    pushed_bytes BIGINT NOT NULL,
    pulled_bytes BIGINT NOT NULL,
    summed_bytes BIGINT,
    finished_rounds BIGINT,
    share_ppm BIGINT NOT NULL,
    optimal_share_ppm BIGINT NOT NULL,
    spread_ns BIGINT,
    PRIMARY KEY (group_id, ts_ms, host, service)
);
COMMENT ON TABLE summation_samples IS 'History of summation groups: one series a service. A group has rows only where something of it changed.';
COMMENT ON COLUMN summation_samples.group_id IS 'summation_groups.id.';
COMMENT ON COLUMN summation_samples.ts_ms IS 'When: milliseconds since 1970, UTC.';
COMMENT ON COLUMN summation_samples.host IS 'Host of the service. Empty: not known.';
COMMENT ON COLUMN summation_samples.service IS 'Number of the service: those of servers first, then one in each worker.';
COMMENT ON COLUMN summation_samples.pushed_bytes IS 'Bytes that workers pushed to it, cumulative.';
COMMENT ON COLUMN summation_samples.pulled_bytes IS 'Bytes that workers pulled from it, cumulative.';
COMMENT ON COLUMN summation_samples.summed_bytes IS 'Bytes of contributions that it added up, cumulative. NULL: its process was not heard of.';
COMMENT ON COLUMN summation_samples.finished_rounds IS 'Rounds of parts that got a result, cumulative. NULL: as before.';
COMMENT ON COLUMN summation_samples.share_ppm IS 'Millionths of all bytes that it owns.';
COMMENT ON COLUMN summation_samples.optimal_share_ppm IS 'Millionths of all bytes that it should own.';
COMMENT ON COLUMN summation_samples.spread_ns IS 'Nanoseconds from the first to the last contribution of a round: the worst of those that were told since the row before. NULL: none was.';

CREATE TABLE summation_rollups (
    level_ms BIGINT NOT NULL,
    group_id TEXT NOT NULL,
    ts_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    service TEXT NOT NULL,
    pushed_bytes BIGINT NOT NULL,
    pulled_bytes BIGINT NOT NULL,
    summed_bytes BIGINT,
    finished_rounds BIGINT,
    share_ppm BIGINT NOT NULL,
    optimal_share_ppm BIGINT NOT NULL,
    spread_ns BIGINT,
    PRIMARY KEY (level_ms, group_id, ts_ms, host, service)
);
COMMENT ON TABLE summation_rollups IS 'History of summation groups in coarser steps, as rollups has that of communicators.';
COMMENT ON COLUMN summation_rollups.level_ms IS 'Length of a bucket, milliseconds: 60000, 600000 or 3600000.';
COMMENT ON COLUMN summation_rollups.group_id IS 'summation_groups.id.';
COMMENT ON COLUMN summation_rollups.ts_ms IS 'When the sample was taken that this row is: milliseconds since 1970, UTC.';
COMMENT ON COLUMN summation_rollups.host IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.service IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.pushed_bytes IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.pulled_bytes IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.summed_bytes IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.finished_rounds IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.share_ppm IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.optimal_share_ppm IS 'As in summation_samples.';
COMMENT ON COLUMN summation_rollups.spread_ns IS 'The worst of the bucket. NULL: none was told.';
