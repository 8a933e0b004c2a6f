#!/usr/bin/env bash
# Runs the tests with the oldest or the newest releases that setup.cfg allows, in a throw-away environment.
#
#     bash tools/bounds.sh lowest python3.10 [pytest's arguments]
#     bash tools/bounds.sh highest python3.12 [pytest's arguments]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $# -ge 2 && $1 =~ ^(lowest|highest)$ ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
end=$1 base=$2
shift 2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$base" -m venv "$folder/venv"
python=$folder/venv/bin/python
if [[ $end == lowest ]]; then
    # "name>=1.2,<=3.4" becomes the constraint "name==1.2".
    sed -nE 's/^ +([a-z0-9-]+)>=([0-9.]+),.*/\1==\2/p' "$root/setup.cfg" >"$folder/constraints.txt"
else
    : >"$folder/constraints.txt"
fi
"$python" -m pip install --constraint "$folder/constraints.txt" -e "${root}[test]"
"$python" -m pip list
cd "$root"
"$python" -m pytest "$@"
