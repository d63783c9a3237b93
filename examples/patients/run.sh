#!/bin/sh
# From raw files to report.html: about a minute on two cores, nothing is downloaded.
#
#   sh examples/patients/run.sh        OUT=runs/patients, PYTHON=python3
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
out=${OUT:-runs/patients}
mkdir -p "$out"
cp "$here/study.yaml" "$out/"
"$python" "$here/make_table.py" "$out/patients.csv"
"$python" -m recondite data show "$out/patients.csv#diagnosis"
"$python" -m recondite compare "$out/study.yaml" --out "$out/run"
cp "$out/run/report.html" "$out/report.html"
echo "$out/report.html"
