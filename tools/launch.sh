#!/usr/bin/env bash
# Trains on many devices: installs if needed, then starts the ranks with MindSpore's msrun.
#
#     bash tools/launch.sh --ranks N RECIPE --set data.train=DATA --out RUN [--resume]
#
# Options: bash tools/launch.sh --help
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
[[ -d $here ]] || here=.
source "$here/setup_env.sh"

ensure_env ""
exec "$python" -m hcma.launch "$@"
