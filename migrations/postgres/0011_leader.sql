-- Which of several daemons of this database leads: it alone writes, and the others hand everything on to it. At most one row.
CREATE TABLE leader (
    -- Always 1.
    id BIGINT NOT NULL PRIMARY KEY,
    -- Counts those who have led. What an earlier leader still wants to write is refused.
    term BIGINT NOT NULL,
    -- Address at which the other daemons reach it.
    url TEXT NOT NULL,
    -- With which the other daemons show that they hand on what others asked them. Of this term alone.
    secret TEXT NOT NULL,
    -- When it began to lead: nanoseconds since 1970, UTC.
    since_ns BIGINT NOT NULL
);
