CREATE TABLE rollups (
    level_ms BIGINT NOT NULL,
    comm TEXT NOT NULL,
    ts_ms BIGINT NOT NULL,
    host TEXT NOT NULL,
    primitive TEXT NOT NULL,
    issued_calls BIGINT NOT NULL,
    issued_bytes BIGINT NOT NULL,
    completed_calls BIGINT NOT NULL,
    completed_bytes BIGINT NOT NULL,
    intra_bytes BIGINT,
    inter_bytes BIGINT,
    PRIMARY KEY (level_ms, comm, ts_ms, host, primitive)
);
COMMENT ON TABLE rollups IS 'History in coarser steps: few rows of each series and bucket, so that weeks can be read and samples need not be kept as long.';
COMMENT ON COLUMN rollups.level_ms IS 'Length of a bucket, milliseconds: 60000, 600000 or 3600000.';
COMMENT ON COLUMN rollups.comm IS 'communicators.id.';
COMMENT ON COLUMN rollups.ts_ms IS 'When the sample was taken that this row is: milliseconds since 1970, UTC.';
COMMENT ON COLUMN rollups.host IS 'Host.';
COMMENT ON COLUMN rollups.primitive IS 'all_reduce, all_gather, ...';
COMMENT ON COLUMN rollups.issued_calls IS 'As in samples.';
COMMENT ON COLUMN rollups.issued_bytes IS 'As in samples.';
COMMENT ON COLUMN rollups.completed_calls IS 'As in samples.';
COMMENT ON COLUMN rollups.completed_bytes IS 'As in samples.';
COMMENT ON COLUMN rollups.intra_bytes IS 'As in samples.';
COMMENT ON COLUMN rollups.inter_bytes IS 'As in samples.';

CREATE TABLE rollup_marks (
    level_ms BIGINT NOT NULL PRIMARY KEY,
    ts_ms BIGINT NOT NULL
);
COMMENT ON TABLE rollup_marks IS 'How far history has been rolled up and shortened.';
COMMENT ON COLUMN rollup_marks.level_ms IS 'rollups.level_ms; 0: the samples.';
COMMENT ON COLUMN rollup_marks.ts_ms IS 'Of rollups: everything before is in them. Of the samples: everything before is deleted. Milliseconds since 1970, UTC.';
