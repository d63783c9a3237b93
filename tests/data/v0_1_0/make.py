"""Wrote the files beside it, with version 0.1.0: ledgers and the engine's part of checkpoints.

Run with that version on the import path: ``python tests/data/v0_1_0/make.py FOLDER``.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine

RUNS = {
    "gaussian": (rc.Gaussian(1.5), {"max_grad_norm": 0.5}),
    "gaussian-layers": (rc.Gaussian(1.5), {"clipping": "per-layer", "max_grad_norm": 0.5}),
    "gaussian-uneven": (rc.Gaussian(1.5), {"clipping": "per-layer", "max_grad_norm": (0.5, 2.0)}),
    "vmf": (rc.VonMisesFisher(5.0), {"max_grad_norm": 3.0}),
    "directional": (rc.Directional(2.0, blocks="rows"), {}),
    "none": (rc.NoNoise(clip=True), {}),
}


def private(name, **options):
    """An engine of a run, with what it made private."""
    torch.manual_seed(0)
    mechanism, how = RUNS[name]
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    data = TensorDataset(torch.randn(80, 6), torch.arange(80) % 2)
    engine = PrivacyEngine(**options)
    made = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=20),
        mechanism=mechanism,
        **how,
    )
    return (engine, *made)


def main(folder):
    """Trains one pass for each and writes what was counted, with what it cost."""
    for name in RUNS:
        path = folder / f"{name}.ledger.json"
        engine, net, optimizer, loader = private(name, ledger=path)
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
        engine.ledger.close()
        state = engine.state_dict()
        (folder / f"{name}.state.json").write_text(json.dumps(state) + "\n")
        (folder / f"{name}.account.json").write_text(json.dumps(engine.report(1e-3).to_dict()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
