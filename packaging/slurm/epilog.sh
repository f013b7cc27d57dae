#!/bin/sh
# Slurm's Epilog: runs as root on each node of a job when it has ended. Where an agent runs it looks after what ended processes
# leave, and there is nothing to do; where none does, what this user's ended processes have left is removed.
#
#   slurm.conf:  Epilog=/etc/slurm/ringscope/epilog.sh, a copy of call.sh
#
# Slurm drains a node whose Epilog fails, so this one does not. Settings of the site: /etc/ringscope/slurm.env

trap 'exit 0' EXIT HUP INT TERM

PATH=/usr/sbin:/usr/bin:/sbin:/bin

RINGSCOPE=/usr/bin/ringscope
RINGSCOPE_LIMIT=5
RINGSCOPE_DIR=/dev/shm/ringscope
settings=/etc/ringscope/slurm.env
# shellcheck source=/dev/null
[ -r "$settings" ] && . "$settings"

[ -n "${SLURM_JOB_UID:-}" ] || exit 0
timeout -k 1 "$RINGSCOPE_LIMIT" "$RINGSCOPE" sweep --user "$SLURM_JOB_UID" --dir "$RINGSCOPE_DIR" </dev/null >/dev/null 2>&1
