#!/usr/bin/env bash
# All measurements of a GPU, in parts of at most ten minutes each:
#   OUT=FOLDER bash bench/gpu_round.sh tests|broad|rest|checks
# They print summaries; logs and figures, also those of a part that is cut off, are in the folder.
set -u
cd "$(dirname "$0")/.."
OUT=${OUT:-$(mktemp -d)}
PYTHON=${PYTHON:-python3}
export PYTHON PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" XLA_PYTHON_CLIENT_PREALLOCATE=false
mkdir -p "$OUT"

# Run a command for so many seconds at most; its log is kept, its last lines are printed.
part() {
    local name=$1 seconds=$2 lines=$3 code=0
    shift 3
    echo "== $name: $*"
    timeout "$seconds" "$@" >"$OUT/$name.log" 2>&1 || code=$?
    tail -n "$lines" "$OUT/$name.log" | cut -c1-180
    [ "$code" = 0 ] || echo "$name ended with $code"
}

case ${1:-} in
tests)
    # as ./weft-test --cuda does, with the Python at hand
    part tests 420 25 "$PYTHON" -m pytest -q -p no:benchmark -n "${WEFT_TEST_JOBS:-12}" --dist worksteal -rfE \
        tests/backends/cuda tests/compiler/test_attention.py
    part sanitize 160 25 "$PYTHON" tools/sanitize.py --tools "${TOOLS:-memcheck}" \
        --programs 500 --samples 100 --seconds 140 --logs "$OUT/sanitizer"
    ;;
broad)
    for seed in 1 2; do
        part "broad-$seed" 290 20 "$PYTHON" -m bench cuda --broad --seed "$seed" --worst 15 \
            --json "$OUT/broad-$seed.json"
    done
    ;;
rest)
    part steps 300 12 "$PYTHON" -m bench.gpu_steps --json "$OUT/steps.json"
    part rows 280 60 "$PYTHON" -m bench cuda --only weft --quick --json "$OUT/rows.json"
    ;;
checks)
    part checks 240 14 "$PYTHON" -m bench cuda --rows "checks" --only weft --json "$OUT/checks.json"
    ;;
*)
    echo "usage: OUT=FOLDER bash bench/gpu_round.sh tests|broad|rest|checks"
    exit 2
    ;;
esac
echo "in $OUT: $(ls "$OUT" | tr '\n' ' ')"
