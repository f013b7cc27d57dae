-- A row of hops for each rank in place of one for each of its channels: registering a large job wrote sixteen times as many.
CREATE TABLE rank_hops (
    comm TEXT NOT NULL,
    rank BIGINT NOT NULL,
    hops TEXT NOT NULL,
    PRIMARY KEY (comm, rank)
);
COMMENT ON TABLE rank_hops IS 'What each rank says of its places in rings. Derived from processes. ring_hops shows a row for each place.';
COMMENT ON COLUMN rank_hops.comm IS 'communicators.id.';
COMMENT ON COLUMN rank_hops.rank IS 'Rank in the communicator.';
COMMENT ON COLUMN rank_hops.hops IS 'JSON: an array of [channel, prev, next, transport, nic].';
INSERT INTO rank_hops (comm, rank, hops)
    SELECT comm, rank, json_agg(json_build_array(channel, prev, next, transport, nic) ORDER BY channel)::text
    FROM ring_hops GROUP BY comm, rank;
DROP TABLE ring_hops;

CREATE VIEW ring_hops AS
    SELECT of_rank.comm AS comm,
        (hop.value ->> 0)::bigint AS channel,
        of_rank.rank AS rank,
        (hop.value ->> 1)::bigint AS prev,
        (hop.value ->> 2)::bigint AS next,
        hop.value ->> 3 AS transport,
        hop.value ->> 4 AS nic
    FROM rank_hops of_rank CROSS JOIN LATERAL json_array_elements(of_rank.hops::json) AS hop (value);
COMMENT ON VIEW ring_hops IS 'What each rank says of its place in the ring of each channel, a row for each.';
COMMENT ON COLUMN ring_hops.comm IS 'communicators.id.';
COMMENT ON COLUMN ring_hops.channel IS 'Channel.';
COMMENT ON COLUMN ring_hops.rank IS 'Rank in the communicator.';
COMMENT ON COLUMN ring_hops.prev IS 'Rank before it.';
COMMENT ON COLUMN ring_hops.next IS 'Rank after it.';
COMMENT ON COLUMN ring_hops.transport IS 'Transport to the next rank, e.g. NET/IB. NULL: not known.';
COMMENT ON COLUMN ring_hops.nic IS 'NIC of that hop. NULL: none, or not known.';
