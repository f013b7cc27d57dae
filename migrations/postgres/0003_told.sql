CREATE TABLE told (
    target TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (target, subject)
);
COMMENT ON TABLE told IS 'What webhooks were told of and is not over, so that a restart of the daemon tells nothing twice.';
COMMENT ON COLUMN told.target IS 'Name of the webhook: a digest of its address, which may be a secret.';
COMMENT ON COLUMN told.subject IS 'Kind, job, host and NIC that one message was about.';
COMMENT ON COLUMN told.body IS 'The finding as it was told: its JSON.';
