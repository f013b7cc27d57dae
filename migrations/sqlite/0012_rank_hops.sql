-- A row of hops for each rank in place of one for each of its channels: registering a large job wrote sixteen times as many.
CREATE TABLE rank_hops (
    -- communicators.id.
    comm TEXT NOT NULL,
    -- Rank in the communicator.
    rank INTEGER NOT NULL,
    -- What it says of its place in the ring of each channel: JSON, an array of [channel, prev, next, transport, nic].
    hops TEXT NOT NULL,
    PRIMARY KEY (comm, rank)
);
INSERT INTO rank_hops (comm, rank, hops)
    SELECT comm, rank, json_group_array(json_array(channel, prev, next, transport, nic))
    FROM ring_hops GROUP BY comm, rank;
DROP TABLE ring_hops;

-- What each rank says of its place in the ring of each channel, a row for each.
CREATE VIEW ring_hops AS
    SELECT of_rank.comm AS comm,
        json_extract(hop.value, '$[0]') AS channel,
        of_rank.rank AS rank,
        json_extract(hop.value, '$[1]') AS prev,
        json_extract(hop.value, '$[2]') AS next,
        json_extract(hop.value, '$[3]') AS transport,
        json_extract(hop.value, '$[4]') AS nic
    FROM rank_hops of_rank, json_each(of_rank.hops) hop;
