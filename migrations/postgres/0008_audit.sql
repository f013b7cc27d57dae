CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ns BIGINT NOT NULL,
    who TEXT NOT NULL,
    role TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    status BIGINT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ns);
COMMENT ON TABLE audit IS 'Who did what, or was refused.';
COMMENT ON COLUMN audit.id IS 'Later entries have larger ones.';
COMMENT ON COLUMN audit.at_ns IS 'When: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN audit.who IS 'Name of a token, of a person as a proxy says it, or of a user of the daemon''s machine; empty: not known.';
COMMENT ON COLUMN audit.role IS 'What they may do; empty: not known.';
COMMENT ON COLUMN audit.address IS 'Address that it came from; local: a command on the daemon''s machine.';
COMMENT ON COLUMN audit.action IS 'What: sign_in, token_create, level and so on.';
COMMENT ON COLUMN audit.subject IS 'To what: the path of the request below /api/v1/.';
COMMENT ON COLUMN audit.detail IS 'More of it, e.g. the level, or why it was refused.';
COMMENT ON COLUMN audit.status IS 'Status that was answered; from 400 on it was refused, or failed.';
