#!/bin/sh
# For `ringscope drain --run`: takes a node out of service, once its jobs have ended. Copy it to /etc/ringscope/drain.sh and
# change it as you like. `ringscope drain` says in the environment:
#
#   RINGSCOPE_DRAIN_HOST      the host, as its agent calls itself
#   RINGSCOPE_DRAIN_FINDING   what was found, e.g. channel_shortfall
#   RINGSCOPE_DRAIN_SENTENCE  the same in words
#   RINGSCOPE_DRAIN_SINCE     since when, e.g. 2026-01-31T12:00:00Z

set -eu
host=$RINGSCOPE_DRAIN_HOST
# A node of Slurm may have another name than its machine has.
nodes=$(sinfo --noheader --Node --format '%N %n %o' | awk -v host="$host" '
    $1 == host { exact = $1 }
    $2 == host || $3 == host { named[$1] = 1 }
    END { if (exact) print exact; else for (node in named) print node }')
case $(printf '%s' "$nodes" | grep -c .) in
    1) ;;
    0) echo "no node of Slurm is called $host, nor has its host name" >&2; exit 1 ;;
    *) echo "several nodes of Slurm are on $host: $(echo "$nodes" | tr '\n' ' ')" >&2; exit 1 ;;
esac
scontrol update NodeName="$nodes" State=DRAIN \
    Reason="ringscope: $RINGSCOPE_DRAIN_FINDING since $RINGSCOPE_DRAIN_SINCE: $RINGSCOPE_DRAIN_SENTENCE"
