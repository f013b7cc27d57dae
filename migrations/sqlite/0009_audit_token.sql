-- Id of the token that it was done with; empty: none, or not known.
ALTER TABLE audit ADD COLUMN token TEXT NOT NULL DEFAULT '';
-- Tenant of who did it; empty: none, or not known.
ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
