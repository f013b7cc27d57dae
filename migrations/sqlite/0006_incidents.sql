-- Findings with one cause, as one thing that somebody looks after.
CREATE TABLE incidents (
    -- Stable id: that of the finding at its root, with a number behind it if it came again.
    id TEXT NOT NULL PRIMARY KEY,
    -- firing or resolved.
    state TEXT NOT NULL,
    -- warning or critical.
    severity TEXT NOT NULL,
    -- Job; empty: about a host, whatever runs there.
    job TEXT NOT NULL,
    -- Host of the culprit.
    host TEXT NOT NULL,
    -- When it truly began: nanoseconds since 1970, UTC.
    began_ns INTEGER NOT NULL,
    -- When it was last seen to go on: nanoseconds since 1970, UTC.
    last_seen_ns INTEGER NOT NULL,
    -- When it ended: nanoseconds since 1970, UTC. NULL: it goes on.
    resolved_ns INTEGER,
    -- The incident as the REST API shows it, with its timeline and notes: JSON.
    body TEXT NOT NULL
);
CREATE INDEX incidents_by_state ON incidents (state, last_seen_ns);
-- Webhooks are told of incidents from here on: what they were told of findings says nothing of those.
DELETE FROM told;
