-- What was found, as it was told at each time: a row from when a finding or an incident began to hold, or to be told otherwise in a
-- way that matters, until it ended or was told otherwise again. What comes back has another row.
CREATE TABLE spans (
    -- finding or incident.
    kind TEXT NOT NULL,
    -- findings.id or incidents.id.
    subject TEXT NOT NULL,
    -- From when, nanoseconds since 1970, UTC.
    from_ns INTEGER NOT NULL,
    -- Until when. 9223372036854775807: it goes on.
    until_ns INTEGER NOT NULL,
    -- Job. Empty: none.
    job TEXT NOT NULL,
    -- Host. Empty: none.
    host TEXT NOT NULL,
    -- 0: from before there were such rows: pauses and earlier words are not known.
    whole INTEGER NOT NULL,
    -- JSON, as findings.body and incidents.body.
    body TEXT NOT NULL,
    PRIMARY KEY (kind, subject, from_ns)
) WITHOUT ROWID;

-- What held at a moment, and what retention deletes.
CREATE INDEX spans_by_end ON spans (kind, until_ns, subject, from_ns);

INSERT INTO spans (kind, subject, from_ns, until_ns, job, host, whole, body)
SELECT 'finding', id, first_seen_ns, COALESCE(resolved_ns, 9223372036854775807), job, host, 0, body FROM findings;
INSERT INTO spans (kind, subject, from_ns, until_ns, job, host, whole, body)
SELECT 'incident', id, began_ns, COALESCE(resolved_ns, 9223372036854775807), job, host, 0, body FROM incidents;
