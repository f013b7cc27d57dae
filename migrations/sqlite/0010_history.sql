-- History by number of the series, many samples a row, in a table a day. What is in the tables of before is moved by the
-- running daemon, piece by piece (daemon/store/src/move_history.rs): only their names change here.
ALTER TABLE samples RENAME TO old_samples;
ALTER TABLE rollups RENAME TO old_rollups;
ALTER TABLE summation_samples RENAME TO old_summation_samples;
ALTER TABLE summation_rollups RENAME TO old_summation_rollups;

-- What samples are of. A series has one number as long as its history is kept.
CREATE TABLE series (
    -- What samples have.
    id INTEGER NOT NULL PRIMARY KEY,
    -- communicator or summation.
    history TEXT NOT NULL,
    -- communicators.id or summation_groups.id.
    subject TEXT NOT NULL,
    -- Host. Empty: not known.
    host TEXT NOT NULL,
    -- Of communicators the primitive: all_reduce, all_gather, ... Of summation groups the number of the service.
    kind TEXT NOT NULL,
    -- When it got its number: milliseconds since 1970, UTC.
    made_ms INTEGER NOT NULL,
    UNIQUE (history, subject, host, kind)
);

-- Samples of the last minutes, by time, all series together: written once a second, read back once, and removed when they
-- stand in the table of their day.
CREATE TABLE recent_samples (
    -- Counts rows.
    id INTEGER NOT NULL PRIMARY KEY,
    -- When: milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL,
    -- The samples by series.id: packed, see daemon/store/src/columns.rs.
    points BLOB NOT NULL
);

-- The tables that have the history of a day: samples_YYYYMMDD and rollups_YYYYMMDD, with the columns level_ms (length of a
-- bucket; 0: samples), from_ms (where the span of the row begins), series (series.id) and points (packed, by time).
CREATE TABLE history_days (
    -- samples or rollups.
    family TEXT NOT NULL,
    -- Days since 1970, UTC.
    day INTEGER NOT NULL,
    PRIMARY KEY (family, day)
) WITHOUT ROWID;

-- How far the history of an older ringscope has been moved.
CREATE TABLE history_moves (
    -- The table that it is moved from.
    source TEXT NOT NULL PRIMARY KEY,
    -- Everything of its subjects up to this one is moved.
    subject TEXT NOT NULL
);

-- What a daemon takes back first when it starts: the processes of jobs that run.
CREATE INDEX processes_by_job ON processes (job);
INSERT INTO history_moves (source, subject) VALUES
('old_samples', ''), ('old_rollups', ''), ('old_summation_samples', ''), ('old_summation_rollups', '');
