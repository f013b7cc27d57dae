#!/bin/sh
# Holds ringscope against NCCL on this machine: ./run.sh [--out DIR] [--quick] [--engine]. See README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || {
    echo "run.sh: $python is missing or older than 3.8; name another with PYTHON=" >&2
    exit 64
}
# -B: the folder may be read-only, and stays as it is.
exec "$python" -B "$here/driver.py" "$@"
