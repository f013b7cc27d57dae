-- Who did what, or was refused.
CREATE TABLE audit (
    -- Later entries have larger ones.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- When: nanoseconds since 1970, UTC.
    at_ns INTEGER NOT NULL,
    -- Name of a token, of a person as a proxy says it, or of a user of the daemon's machine; empty: not known.
    who TEXT NOT NULL,
    -- What they may do; empty: not known.
    role TEXT NOT NULL,
    -- Address that it came from; local: a command on the daemon's machine.
    address TEXT NOT NULL,
    -- What: sign_in, token_create, level and so on.
    action TEXT NOT NULL,
    -- To what: the path of the request below /api/v1/.
    subject TEXT NOT NULL,
    -- More of it, e.g. the level, or why it was refused.
    detail TEXT NOT NULL,
    -- Status that was answered; from 400 on it was refused, or failed.
    status INTEGER NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ns);
