-- Of several daemons of one database it alone writes, and the others hand everything on to it.
CREATE TABLE leader (
    id BIGINT NOT NULL PRIMARY KEY,
    term BIGINT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    since_ns BIGINT NOT NULL
);
COMMENT ON TABLE leader IS 'Which of several daemons of this database leads. At most one row.';
COMMENT ON COLUMN leader.id IS 'Always 1.';
COMMENT ON COLUMN leader.term IS 'Counts those who have led. What an earlier leader still wants to write is refused.';
COMMENT ON COLUMN leader.url IS 'Address at which the other daemons reach it.';
COMMENT ON COLUMN leader.secret IS 'With which the other daemons show that they hand on what others asked them. Of this term alone.';
COMMENT ON COLUMN leader.since_ns IS 'When it began to lead: nanoseconds since 1970, UTC.';
