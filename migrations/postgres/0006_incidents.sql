CREATE TABLE incidents (
    id TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    severity TEXT NOT NULL,
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    began_ns BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL,
    resolved_ns BIGINT,
    body TEXT NOT NULL
);
CREATE INDEX incidents_by_state ON incidents (state, last_seen_ns);
COMMENT ON TABLE incidents IS 'Findings with one cause, as one thing that somebody looks after.';
COMMENT ON COLUMN incidents.id IS 'Stable id: that of the finding at its root, with a number behind it if it came again.';
COMMENT ON COLUMN incidents.state IS 'firing or resolved.';
COMMENT ON COLUMN incidents.severity IS 'warning or critical.';
COMMENT ON COLUMN incidents.job IS 'Job; empty: about a host, whatever runs there.';
COMMENT ON COLUMN incidents.host IS 'Host of the culprit.';
COMMENT ON COLUMN incidents.began_ns IS 'When it truly began: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN incidents.last_seen_ns IS 'When it was last seen to go on: nanoseconds since 1970, UTC.';
COMMENT ON COLUMN incidents.resolved_ns IS 'When it ended: nanoseconds since 1970, UTC. NULL: it goes on.';
COMMENT ON COLUMN incidents.body IS 'The incident as the REST API shows it, with its timeline and notes: JSON.';
DELETE FROM told;
COMMENT ON COLUMN told.subject IS 'Id of the incident that one message was about.';
COMMENT ON COLUMN told.body IS 'The incident as it was told: its JSON.';
