#!/bin/sh
# The campaigns, and the tests that need no torch, on a machine of many cores without a network.
#
#   sh benchmarks/without_network.sh PACKAGES OUT [SECONDS]
#
# The machine has Python, torch, NumPy and SciPy. PACKAGES is a folder of tar archives of unpacked wheels for the
# rest (`pip download --no-deps --only-binary=:all: --python-version 3.12 …`, `python -m zipfile -e`):
# nothing is installed. Everything runs at once and ends after SECONDS; OUT holds the results, and
# *.jsonl of what was tried, from which a later run goes on.
set -u
packages=$1 out=$2 seconds=${3:-540}
python=${PYTHON:-python3}
here=$(mktemp -d "${TMPDIR:-/tmp}/packages.XXXXXX")
for archive in "$packages"/*.tar.*; do "$python" -m tarfile -e "$archive" "$here"; done
mkdir -p "$out"
export PYTHONPATH="$here:$PWD/src:$PWD/papers/src:$PWD" OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
export PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES=
# Every input and every kill has a folder of its own: in memory where there is such a place.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
"$python" -c 'import sys, numpy, scipy, torch, typer; print(sys.version, numpy.__version__, scipy.__version__, torch.__version__, typer.__version__)'
run() { # NAME COMMAND…: its last lines in NAME.txt
    name=$1; shift
    timeout "$seconds" "$python" -m "$@" >"$out/$name.all" 2>&1
    echo "$name: exit code $?"
    tail -n 60 "$out/$name.all" | cut -c 1-600 >"$out/$name.txt"; rm "$out/$name.all"
}
cp results/audits.json "$here/audits.json"
cp results/kills.json "$here/kills.json"
run tests pytest tests -n 3 --base -p no:cacheprovider &
run fuzz benchmarks.fuzz --inputs 100000 --workers 6 --work "$here/fuzz.jsonl" --out "$here/fuzz.json" &
run audits benchmarks.audits --workers 3 --out "$here/audits.json" &
run differential benchmarks.differential --settings 660 --workers 3 \
    --work "$here/differential.jsonl" --out "$here/differential.json" &
run study benchmarks.kills study --kills 50 --out "$here/kills-study.json" &
run training benchmarks.kills training --kills 50 --out "$here/kills-training.json" &
run explorer benchmarks.kills_explorer --kills 50 --out "$here/kills-explorer.json" &
run federated benchmarks.kills_federated --server-kills 50 --out "$here/kills-federated.json" &
wait
# One archive: what may be brought back is few files.
(cd "$here" && tar czf "$out/results.tar.gz" ./*.json ./*.jsonl)
cat "$out"/*.txt >"$out/log" && rm "$out"/*.txt
cat "$out/log"
rm -rf "$here"
