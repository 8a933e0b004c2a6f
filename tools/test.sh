#!/usr/bin/env bash
# Installs if needed and runs the tests from the project's folder.
#
#     bash tools/test.sh [pytest's arguments, as -m graph or tests/data]
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
[[ -d $here ]] || here=.
source "$here/setup_env.sh"

ensure_env test
# Threads that spin while they wait slow each other down wherever the cores are shared.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
# Files of tests side by side, a core each: models this small gain nothing from more.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cd "$root"
exec "$python" -m pytest -n auto --maxprocesses 4 --dist loadfile "$@"
