#!/bin/sh
# Slurm's Prolog: runs as root on each node of a job before its first task. Makes the folder that agent and jobs share, and
# looks whether an agent reads it.
#
#   slurm.conf:  Prolog=/etc/slurm/ringscope/prolog.sh, a copy of call.sh
#
# Slurm drains a node whose Prolog fails, so this one does not: it ends with 0, whatever goes wrong.
# Settings of the site: /etc/ringscope/slurm.env

trap 'exit 0' EXIT HUP INT TERM

PATH=/usr/sbin:/usr/bin:/sbin:/bin

RINGSCOPE_LIMIT=5
RINGSCOPE_DIR=/dev/shm/ringscope
RINGSCOPE_START_AGENT=yes
settings=/etc/ringscope/slurm.env
# shellcheck source=/dev/null
[ -r "$settings" ] && . "$settings"

say() {
    timeout -k 1 1 logger -t ringscope-prolog -- "job ${SLURM_JOB_ID:-?}: $*" </dev/null >/dev/null 2>&1
}

# Root's, open to all, and nobody removes what is another's. One that is a user's own could be exchanged under the others.
if [ ! -e "$RINGSCOPE_DIR" ] && [ ! -L "$RINGSCOPE_DIR" ]; then
    mkdir -p "${RINGSCOPE_DIR%/*}" && mkdir "$RINGSCOPE_DIR" && chmod 1777 "$RINGSCOPE_DIR"
fi
if [ -L "$RINGSCOPE_DIR" ] || [ ! -d "$RINGSCOPE_DIR" ] || [ ! -O "$RINGSCOPE_DIR" ]; then
    say "$RINGSCOPE_DIR is not a folder of root's; remove it, and it is made anew: jobs here are not seen well until then"
fi

# An agent has its mark in the folder locked as long as it lives: root's, or that of the package's user.
agent_is_there() {
    for mark in "$RINGSCOPE_DIR"/.agent-*; do
        case $(timeout -k 1 1 stat --format %U "$mark" 2>/dev/null) in
            root | ringscope-agent) ;;
            *) continue ;;
        esac
        # In a process of its own: what is opened here by name could be a pipe by then.
        timeout -k 1 "$RINGSCOPE_LIMIT" sh -c 'exec 9<"$1" && flock --nonblock --exclusive --conflict-exit-code 9 9' sh \
            "$mark" </dev/null >/dev/null 2>&1
        [ $? -eq 9 ] && return 0
    done
    return 1
}

if ! agent_is_there; then
    say "no agent reads $RINGSCOPE_DIR on this node; see: systemctl status ringscope-agent"
    if [ "$RINGSCOPE_START_AGENT" = yes ] && [ -d /run/systemd/system ]; then
        timeout -k 1 "$RINGSCOPE_LIMIT" systemctl --no-block start ringscope-agent </dev/null >/dev/null 2>&1
    fi
fi
