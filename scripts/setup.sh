# shellcheck shell=sh
# Sourced by scripts/test and scripts/demo from the project's root: `environment` makes the environment they run in.

say() { printf '%s\n' "$*" >&2; }

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Sets `python` to a Python that is new enough and can make environments.
find_python() {
    old=
    for python in ${PYTHON-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        recent "$python" || continue
        "$python" -c 'import ensurepip, venv' 2>/dev/null && return
        old=$python
    done
    if [ -n "$old" ]; then
        say "$old cannot make environments: its venv or ensurepip module is missing." \
            "(Debian, Ubuntu: apt install python3-venv.)"
    else
        say "No Python 3.11 or newer found (tried python3, python3.14 to python3.11 and python; PYTHON=/path/to/it names one)."
    fi
    exit 1
}

# environment DIR LOCK [PIP OPTION...]: an environment in DIR that holds what LOCK (in lock/) pins, checked by hash, and
# this project as an editable install unless LOCK is `model`. Costs nothing while neither the locks, pyproject.toml nor
# the project's place have changed since.
environment() {
    venv=$1 lock=$2
    shift 2

    if ! recent "$venv/bin/python"; then
        find_python
        say "Making $venv with $("$python" --version) ..."
        "$python" -m venv --clear "$venv"
    fi

    wanted=$(pwd && cat pyproject.toml lock/*.txt | cksum)
    [ "$(cat "$venv/.installed-$lock" 2>/dev/null)" = "$wanted" ] && return

    say "Installing lock/$lock.txt into $venv (once, about half a minute) ..."
    rm -f "$venv"/.installed-*
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    install --require-hashes -r "lock/$lock.txt" "$@"
    [ "$lock" = model ] || install --no-deps --no-build-isolation --editable .
    [ "$lock" != test ] || printf '%s\n' "$wanted" >"$venv/.installed-demo" # lock/test.txt holds all of lock/demo.txt
    printf '%s\n' "$wanted" >"$venv/.installed-$lock"
}

install() { "$venv/bin/python" -m pip install -qq --no-input --disable-pip-version-check "$@"; }
