"""Speed and memory against peers, as ratios: ``python -m benchmarks`` (see README.md here)."""
