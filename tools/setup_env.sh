# shellcheck shell=bash
# Finds a Python, makes .venv in the project root and installs hcma there. Source it, then call `ensure_env`.
#
# Sets `root` (the project's folder) and `python` (the one in .venv). Whatever the user can put right (no Python, no
# space, no network) ends the script with exit code 2 and one sentence. pip keeps the user's own settings.

root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
venv=$root/.venv
python=$venv/bin/python
stamp=$venv/hcma-installed
log=$venv/install.log
started=$SECONDS

say() { printf '[%3d s] %s\n' $((SECONDS - started)) "$1" >&2; }

stop() { printf 'error: %s\n' "$1" >&2; exit "${2:-2}"; }

# ensure_env [EXTRA]: on return, .venv holds hcma as setup.cfg asks for it (with the extra).
ensure_env() {
    local extra=${1:-}
    installed "$extra" && return
    lock
    installed "$extra" || make_and_install "$extra"
    unlock
}

make_and_install() {
    if venv_usable; then
        need_space "$root" 512
        # A .venv without a stamp was made by hand: it is used, but never marked for removal.
        [[ ! -e $stamp ]] || mark_unfinished
    else
        find_python
        discard_venv
        # 2.9 GB installed, 0.8 GB unpacked for it, and as much again in pip's cache.
        need_space "$root" 4608
        make_venv
    fi
    install_hcma "$1"
    fingerprint "$1" >"$stamp"
    say 'installed'
}

# One installation at a time. pip inherits the lock, so one that outlived its script is waited for as well.
lock() {
    type flock >/dev/null 2>&1 || return 0
    exec 9<"$root/setup.cfg"
    flock -n 9 || { say 'waiting for another installation in .venv to end'; flock 9; }
}

unlock() {
    if type flock >/dev/null 2>&1; then flock -u 9; exec 9<&-; fi
}

# The stamp holds what was installed, so that a changed setup.cfg, Python or folder installs again.
fingerprint() {
    "$python" - "$root" "$1" <<'PYTHON'
import hashlib
import pathlib
import sys

root, extra = sys.argv[1:]
files = b''.join(pathlib.Path(root, name).read_bytes() for name in ('setup.cfg', 'pyproject.toml'))
print(hashlib.sha256(files + f'{root} {sys.version}'.encode()).hexdigest(), extra)
PYTHON
}

installed() {
    [[ -s $stamp && -x $python ]] && matches_choice || return 1
    local have want
    have=$(<"$stamp")
    want=$(fingerprint "$1" 2>/dev/null) || return 1
    # An installation with the extra also serves whoever asks for none.
    [[ $have == "$want" || ( -z $1 && ${have%% *} == "${want%% *}" ) ]]
}

mark_unfinished() { echo unfinished >"$stamp"; }

# Can the .venv that is there be built upon? An unfinished one may hold half a package, so it cannot.
venv_usable() {
    [[ -d $venv ]] || return 1
    if [[ -e $stamp ]]; then
        [[ $(<"$stamp") != unfinished ]] && python_fits "$python" && matches_choice
    else
        python_fits "$python" || stop "$venv was not made by this script and holds no usable Python: move it away."
    fi
}

# $PYTHON, where set, must be of the version that .venv was made with.
matches_choice() {
    [[ -z ${PYTHON:-} || $(python_version "$PYTHON") == "$(python_version "$python")" ]]
}

# Empty when the program does not run at all, as pyenv's shims for versions that are not switched on.
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null || true; }

python_fits() {
    [[ $(python_version "$1") =~ ^3\.1[012]$ ]] && "$1" -c 'import venv, ensurepip' >/dev/null 2>&1 </dev/null
}

# Sets base_python to the first candidate that works.
find_python() {
    local candidate version found=''
    for candidate in ${PYTHON:+"$PYTHON"} $([[ -n ${PYTHON:-} ]] || echo python3.12 python3.11 python3.10 python3 python); do
        if python_fits "$candidate"; then base_python=$candidate; return; fi
        version=$(python_version "$candidate")
        case $version in
            '') ;;
            3.1[012]) found+=", $candidate lacks the venv and ensurepip modules" ;;
            *) found+=", $candidate is $version" ;;
        esac
    done
    [[ -z ${PYTHON:-} || -n $found ]] || found=", PYTHON=$PYTHON does not run"
    stop "no usable Python: hcma needs Python 3.10, 3.11 or 3.12 with its venv module${found:+ (${found#, })}; \
install one, or set PYTHON to its path."
}

# need_space DIR MB: DIR may not exist yet.
need_space() {
    local folder=$1 free
    until [[ -d $folder ]]; do folder=$(dirname "$folder"); done
    # The number before the percentage; names of devices and folders may hold spaces.
    free=$(df -Pk "$folder" 2>/dev/null |
        awk 'match($0, /[0-9]+ +[0-9]+%/) {print int(substr($0, RSTART) / 1024); exit}') || return 0
    [[ $free =~ ^[0-9]+$ ]] || return 0
    ((free >= $2)) || stop "not enough disk space: $folder has $free MB free and $2 MB are needed; free some space."
}

# Renamed first: were the removal itself cut short, half an environment would look like a whole one.
discard_venv() {
    rm -rf "$venv.discarded"
    [[ ! -d $venv ]] || mv "$venv" "$venv.discarded"
    rm -rf "$venv.discarded"
}

make_venv() {
    mkdir "$venv" 2>/dev/null || stop "cannot write to $root: make it writable, or copy the project elsewhere."
    mark_unfinished
    watched "making .venv with Python $(python_version "$base_python")" "$base_python" -m venv "$venv" ||
        failed 'the environment could not be made'
}

install_hcma() {
    local pip=("$python" -m pip install --no-input --disable-pip-version-check)
    # A user-wide "user = true" cannot work inside an environment, hence PIP_USER=0. The 0.8 GB wheel is unpacked where
    # the space was checked; /tmp is often too small for it.
    local -x PIP_USER=0 TMPDIR=$venv/tmp
    mkdir -p "$TMPDIR"
    # An editable install without a setup.py needs pip 21.3, which Python before 3.10.5 does not bring.
    watched 'checking pip' "${pip[@]}" 'pip>=22.0' || failed 'pip could not be upgraded'
    watched 'installing hcma and what it needs (MindSpore alone is 0.8 GB); details in .venv/install.log' \
        "${pip[@]}" -e "$root${1:+[$1]}" || failed 'pip could not install hcma'
    watched 'importing MindSpore' "$python" -c 'import hcma, mindspore, scipy.stats' ||
        failed 'MindSpore was installed but cannot be imported'
    rm -rf "$TMPDIR"
}

# watched LABEL COMMAND…: runs it with its output in the log, and says every ten seconds how far it is.
watched() {
    local status=0 job reporter
    say "$1"
    shift
    # In the background, for a signal to be acted upon at once.
    "$@" >>"$log" 2>&1 </dev/null &
    job=$!
    report_progress "$job" 9<&- &
    reporter=$!
    trap 'kill "$job" "$reporter" 2>/dev/null; echo interrupted >&2; exit 130' INT TERM
    wait "$job" || status=$?
    trap - INT TERM
    kill "$reporter" 2>/dev/null || true
    wait "$reporter" 2>/dev/null || true
    return "$status"
}

# Ends with the process $1; what sleeps holds none of the caller's pipes open.
report_progress() {
    while sleep 10 >/dev/null 2>&1 && kill -0 "$1" 2>/dev/null; do
        say "  $(du -sm "$venv" 2>/dev/null | cut -f 1) MB in .venv: $(tail -n 1 "$log" | cut -c 1-80)"
    done
}

# failed WHAT: says which thing of the user's is missing, or shows the end of the log when nothing known is.
failed() {
    if grep -qiE 'No space left on device|Errno 28|Disk quota exceeded' "$log"; then
        stop "the disk is full: about 4.5 GB are needed in $root; free some space and run this again."
    elif grep -qE 'Retrying \(Retry|Max retries exceeded|ConnectionError|[Tt]imed out|name resolution|ProxyError' "$log"; then
        stop "pip cannot reach its package index: check the network, the proxy or pip's index-url, and run this again \
(details: $log)."
    fi
    tail -n 15 "$log" >&2
    stop "$1: see the lines above and $log." 1
}
