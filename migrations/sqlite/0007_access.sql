-- Who may do what, besides who is named by a proxy.
CREATE TABLE tokens (
    -- Sixteen hexadecimal digits, which stand in the token too.
    id TEXT NOT NULL PRIMARY KEY,
    -- What it is for, in the words of who made it.
    name TEXT NOT NULL,
    -- ingest, read, operate or admin.
    role TEXT NOT NULL,
    -- Whose jobs it is for; empty: everybody's.
    tenant TEXT NOT NULL,
    -- SHA-256 of the token; the token itself is kept nowhere.
    hash BLOB NOT NULL,
    -- When it was made: nanoseconds since 1970, UTC.
    created_ns INTEGER NOT NULL,
    -- Who made it.
    created_by TEXT NOT NULL,
    -- When it ends by itself: nanoseconds since 1970, UTC. NULL: never.
    expires_ns INTEGER,
    -- When it was revoked: nanoseconds since 1970, UTC. NULL: it was not.
    revoked_ns INTEGER,
    -- When it was last used, to the minute or so: nanoseconds since 1970, UTC. NULL: never.
    last_used_ns INTEGER
);
-- Browsers that have signed in.
CREATE TABLE sessions (
    -- SHA-256 of what is in the cookie.
    hash BLOB NOT NULL PRIMARY KEY,
    -- Id of the token that it was begun with, and with which it ends.
    token TEXT NOT NULL,
    -- When it was begun: nanoseconds since 1970, UTC.
    began_ns INTEGER NOT NULL,
    -- When it was last used, to the minute or so: nanoseconds since 1970, UTC.
    seen_ns INTEGER NOT NULL
);
