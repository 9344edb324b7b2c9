# Sourced by weft-test and weft-demo: makes .venv and installs into it, once per state of pyproject.toml.
# Needs nothing but a Python of at least 3.11; where pip looks for packages is pip's own setting.

find_python() {
    local candidate
    for candidate in "${WEFT_PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "weft needs Python 3.11 or later; none found (set WEFT_PYTHON to name one)" >&2
    return 1
}

# quietly WHAT COMMAND...: runs the command with its output in a log, shown only when it fails.
quietly() {
    local what=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        echo "weft: $what failed:" >&2
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# environment NAME PIP-ARGUMENTS...: sets PYTHON, and installs unless the stamp NAME is fresh.
environment() {
    local name=$1 stamp state python
    shift
    PYTHON="$PWD/.venv/bin/python"
    if ! "$PYTHON" -c 'import pip' 2>/dev/null; then
        python=$(find_python) || return 1
        echo "weft: making .venv with $("$python" --version)"
        quietly "python -m venv .venv" "$python" -m venv .venv || return 1
    fi
    stamp=".venv/weft-$name.stamp"
    state="$(cksum <pyproject.toml) $PWD $*"
    if [ "$(cat "$stamp" 2>/dev/null)" != "$state" ]; then
        echo "weft: installing for $name"
        quietly "pip install $*" \
            "$PYTHON" -m pip install --disable-pip-version-check --no-input "$@" || return 1
        echo "$state" >"$stamp"
    fi
}
