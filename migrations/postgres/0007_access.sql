CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    tenant TEXT NOT NULL,
    hash BYTEA NOT NULL,
    created_ns BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_ns BIGINT,
    revoked_ns BIGINT,
    last_used_ns BIGINT
);
CREATE TABLE sessions (
    hash BYTEA NOT NULL PRIMARY KEY,
    token TEXT NOT NULL,
    began_ns BIGINT NOT NULL,
    seen_ns BIGINT NOT NULL
);
COMMENT ON TABLE tokens IS 'Who may do what, besides who is named by a proxy.';
COMMENT ON COLUMN tokens.id IS 'Sixteen hexadecimal digits, which stand in the token too.';
COMMENT ON COLUMN tokens.name IS 'What it is for, in the words of who made it.';
COMMENT ON COLUMN tokens.role IS 'ingest, read, operate or admin.';
COMMENT ON COLUMN tokens.tenant IS 'Whose jobs it is for; empty: everybody''s.';
COMMENT ON COLUMN tokens.hash IS 'SHA-256 of the token; the token itself is kept nowhere.';
COMMENT ON COLUMN tokens.created_ns IS 'When it was made: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN tokens.created_by IS 'Who made it.';
COMMENT ON COLUMN tokens.expires_ns IS 'When it ends by itself: nanoseconds since 1970, UTC. NULL: never.';
COMMENT ON COLUMN tokens.revoked_ns IS 'When it was revoked: nanoseconds since 1970, UTC. NULL: it was not.';
COMMENT ON COLUMN tokens.last_used_ns IS 'When it was last used, to the minute or so: nanoseconds since 1970, UTC. NULL: never.';
COMMENT ON TABLE sessions IS 'Browsers that have signed in.';
COMMENT ON COLUMN sessions.hash IS 'SHA-256 of what is in the cookie.';
COMMENT ON COLUMN sessions.token IS 'Id of the token that it was begun with, and with which it ends.';
COMMENT ON COLUMN sessions.began_ns IS 'When it was begun: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN sessions.seen_ns IS 'When it was last used, to the minute or so: nanoseconds since 1970, UTC.';
