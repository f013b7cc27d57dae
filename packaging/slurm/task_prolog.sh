#!/bin/sh
# Slurm's TaskProlog: what it prints is what Slurm sets in the environment of the task that is about to start. It runs as
# the user, on the task's node, before the batch script and before every task of every step.
#
#   slurm.conf:  TaskProlog=/etc/slurm/ringscope/task_prolog.sh, a copy of call.sh
#
# No task fails or waits by it: whatever goes wrong it ends with 0 within RINGSCOPE_LIMIT seconds, and the task starts
# unwatched. Settings of the site: /etc/ringscope/slurm.env. A user who does not want it: export RINGSCOPE_OFF=1

trap 'exit 0' EXIT HUP INT TERM

RINGSCOPE=/usr/bin/ringscope
RINGSCOPE_LIMIT=5
RINGSCOPE_PARTITIONS=
RINGSCOPE_SAY_WHY=
RINGSCOPE_ENV_OPTIONS=
settings=/etc/ringscope/slurm.env
# shellcheck source=/dev/null
[ -r "$settings" ] && . "$settings"

[ -z "${RINGSCOPE_DIR:-}" ] || export RINGSCOPE_DIR

is_wanted() {
    [ -z "${RINGSCOPE_OFF:-}" ] || return 1
    [ -n "$RINGSCOPE_PARTITIONS" ] || return 0
    case " $RINGSCOPE_PARTITIONS " in
        *" ${SLURM_JOB_PARTITION:-} "*) return 0 ;;
    esac
    return 1
}

# What the prolog of another node, or of the batch script, has set does not stay where nothing of ringscope is, or where it is
# not wanted: a loader that does not find a library says so in every process. What the user has set stays.
take_back() {
    [ "${RINGSCOPE_SET_BY:-}" = env ] || return 0
    set -f
    rest= found=
    IFS=': '
    for library in ${LD_PRELOAD:-}; do
        case $library in
            */libringscope_preload.so) found=1 ;;
            *) rest=${rest:+$rest:}$library ;;
        esac
    done
    unset IFS
    [ -z "$found" ] || change LD_PRELOAD "$rest"
    case ${NCCL_PROFILER_PLUGIN:-} in
        */libringscope.so) change NCCL_PROFILER_PLUGIN "${RINGSCOPE_CHAIN_PLUGIN:-}" ;;
    esac
    case ${RSUM_OBSERVER:-} in
        */libringscope.so) echo "unset RSUM_OBSERVER" ;;
    esac
    for name in RINGSCOPE_SET_BY RINGSCOPE_COLLECTOR RINGSCOPE_CHAIN_PLUGIN RINGSCOPE_RUN_ID; do
        echo "unset $name"
    done
    if [ -n "${RINGSCOPE_SET_HOST:-}" ]; then
        [ "${RINGSCOPE_HOST:-}" != "$RINGSCOPE_SET_HOST" ] || echo "unset RINGSCOPE_HOST"
        echo "unset RINGSCOPE_SET_HOST"
    fi
    [ -n "${RINGSCOPE_LENT_LOG:-}" ] || return 0
    [ "${NCCL_DEBUG:-}" != Info ] || echo "unset NCCL_DEBUG"
    [ "${NCCL_DEBUG_SUBSYS:-}" != Init,Graph,Env ] || echo "unset NCCL_DEBUG_SUBSYS"
    [ "${NCCL_DEBUG_FILE:-}" != "$RINGSCOPE_LENT_LOG" ] || echo "unset NCCL_DEBUG_FILE"
    echo "unset RINGSCOPE_LENT_LOG"
}

change() {
    if [ -n "$2" ]; then printf 'export %s=%s\n' "$1" "$2"; else echo "unset $1"; fi
}

variables=
if is_wanted; then
    # shellcheck disable=SC2086 # several options are several words
    # By its path: a folder of the user's PATH may lie on a server that does not answer.
    variables=$(/usr/bin/timeout -k 1 "$RINGSCOPE_LIMIT" "$RINGSCOPE" env --format slurm --quiet-on-error \
        ${RINGSCOPE_SAY_WHY:+--say-why} $RINGSCOPE_ENV_OPTIONS </dev/null 2>/dev/null) || variables=
fi
case $variables in
    *"export RINGSCOPE_DIR="*) printf '%s\n' "$variables" ;;
    *)
        [ -z "$variables" ] || printf '%s\n' "$variables"
        take_back
        ;;
esac
