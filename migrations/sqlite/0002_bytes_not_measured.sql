-- Bytes on the wire that nobody counted are not zero. SQLite cannot take NOT NULL from a column, so the table is made anew.
CREATE TABLE samples_2 (
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
    -- Bytes sent to ranks on the same host. NULL: not measured.
    intra_bytes INTEGER,
    -- Bytes sent to ranks on other hosts. NULL: not measured.
    inter_bytes INTEGER,
    PRIMARY KEY (comm, ts_ms, host, primitive)
) WITHOUT ROWID;
INSERT INTO samples_2 (
    comm, ts_ms, host, primitive, issued_calls, issued_bytes, completed_calls, completed_bytes, intra_bytes, inter_bytes
)
SELECT
    comm, ts_ms, host, primitive, issued_calls, issued_bytes, completed_calls, completed_bytes, intra_bytes, inter_bytes
FROM samples;
DROP TABLE samples;
ALTER TABLE samples_2 RENAME TO samples;
