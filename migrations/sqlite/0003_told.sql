-- What webhooks were told of and is not over, so that a restart of the daemon tells nothing twice.
CREATE TABLE told (
    -- Name of the webhook: a digest of its address, which may be a secret.
    target TEXT NOT NULL,
    -- Kind, job, host and NIC that one message was about.
    subject TEXT NOT NULL,
    -- The finding as it was told: its JSON.
    body TEXT NOT NULL,
    PRIMARY KEY (target, subject)
);
