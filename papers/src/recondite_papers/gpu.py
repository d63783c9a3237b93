"""The long jobs from the command line: ``python -m recondite_papers.gpu JOB …``.

Every job writes its rows after each block and takes up where it was, so that a call that is cut
short loses one block at most.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

__all__ = ["JOBS", "main"]

_HOME = "recondite_papers.jobs"
# Name: module and function.
JOBS = {
    "compare-accuracy": ("compare", "accuracy"),
    "compare-iga": ("compare_attacks", "iga"),
    "compare-dlg": ("compare_attacks", "dlg"),
    "channel-accuracy": ("channel", "accuracy"),
    "channel-inversion": ("channel_attacks", "figure_14"),
    "channel-guidelines": ("channel_attacks", "guidelines"),
    "dirdp-accuracy": ("dirdp", "accuracy"),
    "dirdp-puzzle": ("dirdp", "puzzle"),
    "dirdp-variants": ("dirdp_variants", "sweep"),
    "dirdp-usual": ("dirdp", "with_usual_weights"),
    "dirdp-norms": ("dirdp_variants", "norms"),
    "dirdp-again": ("dirdp_variants", "again"),
    "dirdp-moved": ("dirdp_variants", "moved"),
    "dirdp-iga": ("dirdp_attacks", "table_4"),
    "dirdp-iga-relu": ("dirdp_attacks", "relu"),
    "dirdp-v1-attacks": ("dirdp_attacks", "early"),
    "dirdp-membership": ("membership", "table_3"),
    "dirdp-decided": ("membership", "decided"),
    "dirdp-v1-accuracy": ("dirdp_v1", "accuracy"),
    "dirdp-v1-usual": ("dirdp_v1", "with_usual_weights"),
    "dirdp-v1-pictures": ("gallery", "reconstructions"),
    "channel-pictures": ("gallery", "faces"),
    "channel-defence": ("defence", "planes"),
    "channel-embedding": ("embedding", "guideline"),
    "channel-taylor": ("taylor", "first_order"),
    "channel-times": ("networks", "times"),
    "channel-networks": ("networks", "accuracy"),
    "channel-networks-inversion": ("networks", "inversion"),
    "compare-signal": ("compare_signal", "signal"),
    "compare-noise-size": ("reasons", "noise_size"),
    "frontier": ("frontier", "measured"),
    "frontier-accounts": ("frontier_accounts", "accounts"),
    "intruder": ("intruder", "intruder"),
    "blind": ("blind", "blind"),
}


def main(arguments: list[str] | None = None) -> None:
    """Runs jobs one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="+", choices=sorted(JOBS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--minutes", type=float, default=8.5, help="for all jobs together")
    parser.add_argument("--only", default="", help="parts of block names, joined by commas")
    parser.add_argument("--tag", default="", help="part of the result files' names")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--small", action="store_true", help="between quick and full")
    given = parser.parse_args(arguments)
    import torch

    from recondite_papers.jobs.sink import Context

    torch.backends.cuda.matmul.allow_tf32 = False
    context = Context(
        device=given.device,
        data_dir=given.data_dir,
        out=given.out,
        quick=given.quick,
        small=given.small,
        minutes=given.minutes,
        only=tuple(part for part in given.only.split(",") if part),
        tag=given.tag,
        say=lambda line: print(line, flush=True),
    )
    for job in given.jobs:
        module, function = JOBS[job]
        getattr(import_module(f"{_HOME}.{module}"), function)(context)


if __name__ == "__main__":
    main()
