#!/bin/sh
# The fuzzer, and the tests that need no torch, on a machine without a network.
#
#   sh benchmarks/without_network.sh WHEELS OUT [WORKERS] [INPUTS] [SECONDS]
#
# The machine has Python (3.12), torch, NumPy and SciPy. WHEELS is a folder of wheels for the rest
# (`pip download --no-deps --only-binary=:all: --python-version 3.12 …`): they are unpacked into a
# temporary folder, nothing is installed. What was tried is kept in OUT/fuzz.jsonl, and what is in
# WHEELS/fuzz.jsonl is not tried again; OUT/fuzz.json is written when all inputs were tried, and
# OUT/tests.txt and OUT/tests.xml say how the tests went.
set -u
wheels=$1 out=$2 workers=${3:-14} inputs=${4:-100000} seconds=${5:-400}
python=${PYTHON:-python3}
here=$(mktemp -d "${TMPDIR:-/tmp}/wheels.XXXXXX")
for wheel in "$wheels"/*.whl; do "$python" -m zipfile -e "$wheel" "$here"; done
mkdir -p "$out"
[ -e "$wheels/fuzz.jsonl" ] && cp "$wheels/fuzz.jsonl" "$out/fuzz.jsonl"
export PYTHONPATH="$here:src:papers/src:." OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Every input has a folder of its own: in memory where there is such a place.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
"$python" -c 'import sys, numpy, scipy, typer, pydantic, flwr; print(sys.version)' || exit 1
timeout "$seconds" "$python" -m benchmarks.fuzz --inputs "$inputs" --workers "$workers" \
    --work "$out/fuzz.jsonl" --out "$out/fuzz.json" 2>&1 | tee "$out/fuzz.txt" | tail -n 40
wc -l "$out/fuzz.jsonl"
timeout 170 "$python" -m pytest tests -n "$workers" --base -p no:cacheprovider \
    --junitxml="$out/tests.xml" 2>&1 | tee "$out/tests.txt" | tail -n 60
rm -rf "$here"
