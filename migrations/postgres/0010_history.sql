-- History by number of the series, many samples a row, in a partition a day. What is in the tables of before is moved by the
-- running daemon, piece by piece (daemon/store/src/move_history.rs): only their names change here.
ALTER TABLE samples RENAME TO old_samples;
ALTER TABLE rollups RENAME TO old_rollups;
ALTER TABLE summation_samples RENAME TO old_summation_samples;
ALTER TABLE summation_rollups RENAME TO old_summation_rollups;
ALTER INDEX samples_pkey RENAME TO old_samples_pkey;
ALTER INDEX rollups_pkey RENAME TO old_rollups_pkey;

CREATE TABLE series (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    history TEXT NOT NULL,
    subject TEXT NOT NULL,
    host TEXT NOT NULL,
    kind TEXT NOT NULL,
    made_ms BIGINT NOT NULL,
    UNIQUE (history, subject, host, kind)
);
COMMENT ON TABLE series IS 'What samples are of. A series has one number as long as its history is kept.';
COMMENT ON COLUMN series.id IS 'What samples have.';
COMMENT ON COLUMN series.history IS 'communicator or summation.';
COMMENT ON COLUMN series.subject IS 'communicators.id or summation_groups.id.';
COMMENT ON COLUMN series.host IS 'Host. Empty: not known.';
COMMENT ON COLUMN series.kind IS 'Of communicators the primitive: all_reduce, all_gather, ... Of summation groups the number of the service.';
COMMENT ON COLUMN series.made_ms IS 'When it got its number: milliseconds since 1970, UTC.';

CREATE TABLE recent_samples (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts_ms BIGINT NOT NULL,
    points BYTEA NOT NULL
);
-- They are packed already.
ALTER TABLE recent_samples ALTER COLUMN points SET STORAGE EXTERNAL;
COMMENT ON TABLE recent_samples IS 'Samples of the last minutes, by time, all series together: written once a second, read back once, and removed when they stand in the partition of their day.';
COMMENT ON COLUMN recent_samples.id IS 'Counts rows.';
COMMENT ON COLUMN recent_samples.ts_ms IS 'When: milliseconds since 1970, UTC.';
COMMENT ON COLUMN recent_samples.points IS 'The samples by series.id: packed, see daemon/store/src/columns.rs.';

CREATE TABLE samples (
    level_ms BIGINT NOT NULL,
    from_ms BIGINT NOT NULL,
    series BIGINT NOT NULL,
    points BYTEA NOT NULL,
    PRIMARY KEY (level_ms, from_ms, series)
) PARTITION BY RANGE (from_ms);
ALTER TABLE samples ALTER COLUMN points SET STORAGE EXTERNAL;
COMMENT ON TABLE samples IS 'History as it was sampled: a row has what one series was in one span of time. A partition a day.';
COMMENT ON COLUMN samples.level_ms IS '0.';
COMMENT ON COLUMN samples.from_ms IS 'Where the span begins: milliseconds since 1970, UTC.';
COMMENT ON COLUMN samples.series IS 'series.id.';
COMMENT ON COLUMN samples.points IS 'The samples by time: packed, see daemon/store/src/columns.rs.';

CREATE TABLE rollups (
    level_ms BIGINT NOT NULL,
    from_ms BIGINT NOT NULL,
    series BIGINT NOT NULL,
    points BYTEA NOT NULL,
    PRIMARY KEY (level_ms, from_ms, series)
) PARTITION BY RANGE (from_ms);
ALTER TABLE rollups ALTER COLUMN points SET STORAGE EXTERNAL;
COMMENT ON TABLE rollups IS 'History in coarser steps: few samples of each series and bucket, so that weeks can be read and samples need not be kept as long. A partition a day.';
COMMENT ON COLUMN rollups.level_ms IS 'Length of a bucket, milliseconds: 60000, 600000 or 3600000.';
COMMENT ON COLUMN rollups.from_ms IS 'As in samples.';
COMMENT ON COLUMN rollups.series IS 'As in samples.';
COMMENT ON COLUMN rollups.points IS 'As in samples.';

CREATE TABLE history_days (
    family TEXT NOT NULL,
    day BIGINT NOT NULL,
    PRIMARY KEY (family, day)
);
COMMENT ON TABLE history_days IS 'The partitions that there are of samples and rollups: samples_YYYYMMDD and rollups_YYYYMMDD.';
COMMENT ON COLUMN history_days.family IS 'samples or rollups.';
COMMENT ON COLUMN history_days.day IS 'Days since 1970, UTC.';

CREATE TABLE history_moves (
    source TEXT NOT NULL PRIMARY KEY,
    subject TEXT NOT NULL
);
COMMENT ON TABLE history_moves IS 'How far the history of an older ringscope has been moved.';
COMMENT ON COLUMN history_moves.source IS 'The table that it is moved from.';
COMMENT ON COLUMN history_moves.subject IS 'Everything of its subjects up to this one is moved.';

CREATE INDEX processes_by_job ON processes (job);
INSERT INTO history_moves (source, subject) VALUES
('old_samples', ''), ('old_rollups', ''), ('old_summation_samples', ''), ('old_summation_rollups', '');
