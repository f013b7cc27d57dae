CREATE TABLE spans (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    from_ns BIGINT NOT NULL,
    until_ns BIGINT NOT NULL,
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    whole BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, subject, from_ns)
);
CREATE INDEX spans_by_end ON spans (kind, until_ns, subject, from_ns);
COMMENT ON TABLE spans IS 'What was found, as it was told at each time: a row from when a finding or an incident began to hold, or to be told otherwise in a way that matters, until it ended or was told otherwise again. What comes back has another row.';
COMMENT ON COLUMN spans.kind IS 'finding or incident.';
COMMENT ON COLUMN spans.subject IS 'findings.id or incidents.id.';
COMMENT ON COLUMN spans.from_ns IS 'From when, nanoseconds since 1970, UTC.';
COMMENT ON COLUMN spans.until_ns IS 'Until when. 9223372036854775807: it goes on.';
COMMENT ON COLUMN spans.job IS 'Job. Empty: none.';
COMMENT ON COLUMN spans.host IS 'Host. Empty: none.';
COMMENT ON COLUMN spans.whole IS '0: from before there were such rows: pauses and earlier words are not known.';
COMMENT ON COLUMN spans.body IS 'JSON, as findings.body and incidents.body.';

INSERT INTO spans (kind, subject, from_ns, until_ns, job, host, whole, body)
SELECT 'finding', id, first_seen_ns, COALESCE(resolved_ns, 9223372036854775807), job, host, 0, body FROM findings;
INSERT INTO spans (kind, subject, from_ns, until_ns, job, host, whole, body)
SELECT 'incident', id, began_ns, COALESCE(resolved_ns, 9223372036854775807), job, host, 0, body FROM incidents;
