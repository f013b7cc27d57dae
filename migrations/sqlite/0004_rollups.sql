-- History in coarser steps: few rows of each series and bucket, so that weeks can be read and samples need not be kept as long.
CREATE TABLE rollups (
    -- Length of a bucket, milliseconds: 60000, 600000 or 3600000.
    level_ms INTEGER NOT NULL,
    -- communicators.id.
    comm TEXT NOT NULL,
    -- When the sample was taken that this row is: milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL,
    -- Host.
    host TEXT NOT NULL,
    -- all_reduce, all_gather, ...
    primitive TEXT NOT NULL,
    -- As in samples.
    issued_calls INTEGER NOT NULL,
    -- As in samples.
    issued_bytes INTEGER NOT NULL,
    -- As in samples.
    completed_calls INTEGER NOT NULL,
    -- As in samples.
    completed_bytes INTEGER NOT NULL,
    -- As in samples.
    intra_bytes INTEGER,
    -- As in samples.
    inter_bytes INTEGER,
    PRIMARY KEY (level_ms, comm, ts_ms, host, primitive)
) WITHOUT ROWID;

-- How far history has been rolled up and shortened.
CREATE TABLE rollup_marks (
    -- rollups.level_ms; 0: the samples.
    level_ms INTEGER NOT NULL PRIMARY KEY,
    -- Of rollups: everything before is in them. Of the samples: everything before is deleted. Milliseconds since 1970, UTC.
    ts_ms INTEGER NOT NULL
);
