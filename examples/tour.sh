#!/bin/sh
# What a person can ask today, on the setting of the papers: an MLP with 13,700 parameters,
# 60,000 records, batches of 128 on average, three epochs (1,407 steps).
set -eu
run="--rate 128/60000 --steps 1407 --delta 1/60000"
say() { printf '\n\033[1m$ %s\033[0m\n' "$*" | if [ -n "${NO_COLOR:-}" ] || [ ! -t 1 ]; then sed 's/\x1b\[[0-9;]*m//g'; else cat; fi; "$@"; }

echo "1. What does directional (von Mises-Fisher) noise cost, in every notion of privacy?"
say recondite account vmf --kappa 75 --dim 13700 $run

echo; echo "2. And Gaussian noise, which the paper calls its equal?"
say recondite account gaussian --noise-multiplier 1.23 --dim 13700 --batch-size 128 \
  --max-batch-size 160 $run

echo; echo "3. It is not. This much directional noise has the same epsilon:"
say recondite match gaussian --noise-multiplier 1.23 --to vmf --by epsilon --dim 13700 $run

echo; echo "4. The weakest directional noise for epsilon = 8, and for a reconstruction risk of 1/2:"
say recondite calibrate vmf --dim 13700 --epsilon 8 $run
say recondite calibrate vmf --dim 13700 --rero 1/2 $run

echo; echo "5. Noise on every record's gradient (DirDP-SGD), shuffled batches:"
say recondite account directional --kappa 10 --dim 62006 --blocks 5 --epochs 30 \
  --batch-size 512 --records 50000 --delta 1e-5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo; echo "6. Two ways to answer a sensitive question: which leaks less?"
printf '0.75,0.25\n0.25,0.75\n' > "$work/coin.csv"
printf '0.9,0.1\n0.3,0.7\n' > "$work/biased.csv"
say recondite leakage "$work/coin.csv" "$work/biased.csv"

echo; echo "7. Noise on records instead of gradients: at most 10 nats through a Natural channel."
python -c 'import sys, numpy as np
rng = np.random.default_rng(0)
np.save(sys.argv[1], rng.standard_normal((1000, 64)) * np.geomspace(4, 0.05, 64))' "$work/data.npy"
say recondite channel natural --capacity 10 --data "$work/data.npy" --uses 30
