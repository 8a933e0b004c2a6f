#!/usr/bin/env bash
# From nothing to a report: makes .venv, installs, and runs the main job on generated scenes.
#
#     bash tools/quickstart.sh [--out DIR] [options of recipes/quickstart.py]
#
# DIR is runs/quickstart in the project when not given. Can be run again: what is there is reused.
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
[[ -d $here ]] || here=.
source "$here/setup_env.sh"

out=$root/runs/quickstart
arguments=()
while (($#)); do
    case $1 in
        --out) [[ $# -ge 2 ]] || stop '--out needs a folder, as in --out runs/first.'; out=$2; shift ;;
        --out=*) out=${1#--out=} ;;
        *) arguments+=("$1") ;;
    esac
    shift
done

ensure_env ""
need_space "$out" 512
exec "$python" "$root/recipes/quickstart.py" --out "$out" ${arguments[@]+"${arguments[@]}"}
