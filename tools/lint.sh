#!/usr/bin/env bash
# Installs if needed and checks the style that setup.cfg asks for; `--fix` sorts the imports first.
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
[[ -d $here ]] || here=.
source "$here/setup_env.sh"

ensure_env test
cd "$root"
if [[ ${1:-} == --fix ]]; then
    "$python" -m isort --quiet .
fi
"$python" -m isort --check-only --diff .
"$python" -m flake8
echo 'lint: nothing to complain about'
