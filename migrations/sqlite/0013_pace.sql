-- The pace of jobs over time is a history as that of communicators is: series.history is `pace`, series.subject is jobs.id. Its
-- values are totals (daemon/store/src/history.rs), one sample of a job each ten seconds.

-- What a restarted daemon knows of the pace of the jobs that go on.
CREATE TABLE pace_memories (
    -- jobs.id.
    job TEXT NOT NULL PRIMARY KEY,
    -- JSON: what its collectives took while nothing was wrong, and the slowdown that goes on (daemon/judge/src/pace/kept.rs).
    memory TEXT NOT NULL,
    -- When this row was written last: nanoseconds since 1970, UTC.
    updated_ns INTEGER NOT NULL
) WITHOUT ROWID;
