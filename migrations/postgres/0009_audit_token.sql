ALTER TABLE audit ADD COLUMN token TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
COMMENT ON COLUMN audit.token IS 'Id of the token that it was done with; empty: none, or not known.';
COMMENT ON COLUMN audit.tenant IS 'Tenant of who did it; empty: none, or not known.';
