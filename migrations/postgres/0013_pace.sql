CREATE TABLE pace_memories (
    job TEXT NOT NULL PRIMARY KEY,
    memory TEXT NOT NULL,
    updated_ns BIGINT NOT NULL
);
COMMENT ON TABLE pace_memories IS 'What a restarted daemon knows of the pace of the jobs that go on.';
COMMENT ON COLUMN pace_memories.job IS 'jobs.id.';
COMMENT ON COLUMN pace_memories.memory IS 'JSON: what its collectives took while nothing was wrong, and the slowdown that goes on (daemon/judge/src/pace/kept.rs).';
COMMENT ON COLUMN pace_memories.updated_ns IS 'When this row was written last: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN series.history IS 'communicator, summation or pace.';
COMMENT ON COLUMN series.subject IS 'communicators.id, summation_groups.id or, of the pace, jobs.id.';
