-- Bytes on the wire that nobody counted are not zero.
ALTER TABLE samples ALTER COLUMN intra_bytes DROP NOT NULL;
ALTER TABLE samples ALTER COLUMN inter_bytes DROP NOT NULL;
COMMENT ON COLUMN samples.intra_bytes IS 'Bytes sent to ranks on the same host. NULL: not measured.';
COMMENT ON COLUMN samples.inter_bytes IS 'Bytes sent to ranks on other hosts. NULL: not measured.';
COMMENT ON COLUMN jobs.state IS 'running, stale, imported or ended.';
