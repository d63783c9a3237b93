"""What test_distributed.py has two processes do: each writes what it saw as JSON.

python two_processes.py FOLDER RANK WORLD [SCENARIO …]
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine
from recondite.training.ledger import Ledger

torch.set_num_threads(1)
ROWS, LR = 40, 0.2
RANK, WORLD, FOLDER = 0, 1, Path()


def start(folder, rank, *scenarios):
    """One of the two processes."""
    command = [sys.executable, __file__, str(folder), str(rank), "2", *scenarios]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def records(rows=ROWS):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(rows, 5, generator=generator)
    return TensorDataset(inputs, (inputs[:, 0] > 0).long())


def network(kind=torch.float32):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)).to(kind)


def train(
    steps=10,
    *,
    wrapped=None,
    data=None,
    net=None,
    seed=None,
    secure=False,
    ledger=None,
    before=lambda engine: None,
    batch_size=10,
    lr=LR,
    max_epsilon=None,
    priced=True,
    **options,
):
    """Weights as bytes, ε and what else is compared, after so many steps."""
    net = network() if net is None else net
    wrapped = WORLD > 1 if wrapped is None else wrapped
    model = DistributedDataParallel(net) if wrapped else net
    engine = PrivacyEngine(
        seed=seed, secure=secure, ledger=ledger, max_epsilon=max_epsilon, delta=1e-3
    )
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5),
        data_loader=DataLoader(records() if data is None else data, batch_size=batch_size),
        **{"mechanism": rc.Gaussian(1.0), **options},
    )
    before(engine)
    rows, places = [], []
    done = 0
    while done < steps and (max_epsilon is None or engine._run.limit.allows()):
        for inputs, labels in loader:
            optimizer.zero_grad()
            if "compile" not in options:
                logits = model(inputs.to(net[0].weight.dtype))
                nn.functional.cross_entropy(logits, labels).backward()
            rows.append(loader.draw.rows if loader.draw.keep else 0)
            places.append(sorted(loader.draw.records))
            last = loader.draw.last
            optimizer.step()
            done += last
            if done == steps and last:
                break
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    found = {
        "weights": weights.double().numpy().tobytes().hex(),
        "steps": engine.steps,
        "epsilon": engine.get_epsilon(1e-3) if priced else None,
        "rows": rows,
        "places": places,
    }
    engine.detach()
    found["sharing"] = bool(wrapped and model.require_backward_grad_sync)
    engine.ledger.close()
    return found


def refused(run):
    """What is said, by whom it is said."""
    try:
        run()
    except (ValueError, RuntimeError) as error:
        return [type(error).__name__, str(error)]
    return None


# Every mechanism that acts on the sum, one on each record, uneven and empty parts.
QUIET = {"mechanism": rc.Gaussian(1e-9), "seed": 5, "priced": False}


def hundred():
    return train(100)


def secure():
    return train(4, secure=True, mechanism=rc.Gaussian(2.0))


def quiet():
    return train(20, **QUIET, sampling="shuffled")


def quiet_poisson():
    return train(20, **QUIET)


def allocated():
    return train(8, **QUIET, sampling="allocation")


def pieces():
    return train(8, **QUIET, sampling="shuffled", physical_batch_size=3)


def compiled():
    return train(
        8,
        **QUIET,
        sampling="shuffled",
        compile=nn.functional.cross_entropy,
    )


def one_by_one():
    return train(60, **QUIET, sampling="shuffled", batch_size=1, net=network(torch.float64))


def empty_parts():
    return train(20, batch_size=1)


def directional():
    return train(6, mechanism=rc.VonMisesFisher(kappa=20.0))


def each_record():
    return train(6, mechanism=rc.Directional(kappa=20.0), batch_size=9)


def per_layer():
    return train(6, clipping="per-layer", max_grad_norm=(1.0, 0.5))


def undefended():
    return train(8, **{**QUIET, "mechanism": rc.NoNoise()}, clipping="none", sampling="shuffled")


def a_subset():
    return train(4, data=Subset(records(), list(range(3, 33))))


def budget():
    return train(10_000, max_epsilon=3.0)


def observed():
    """The sum that the first process noises is that of the whole batch, and the noise is one."""
    seen = []
    watch = seen.append if RANK == 0 else None

    def before(engine):
        if watch is not None:
            engine.observe(watch)

    found = train(40, seed=9, mechanism=rc.Gaussian(3.0), before=before)
    noise = [float((turn.release - turn.total).std()) for turn in seen]
    batches = [sorted(turn.records) for turn in seen]
    return {**found, "noise": noise, "batches": batches}


def counted():
    """The first process keeps the file; the others know what it counts."""
    path = FOLDER / "ledger.json"
    first = train(3, ledger=path)
    second = train(2, ledger=path)
    distributed.barrier()
    return {"first": first, "second": second, "file": Ledger(path).taken}


def refusals():
    shifted = records()
    if RANK:
        shifted = TensorDataset(shifted.tensors[0] + 1, shifted.tensors[1])
    return {
        "unwrapped": refused(lambda: train(1, wrapped=False)),
        "mechanisms": refused(lambda: train(1, mechanism=rc.Gaussian(1.0 + RANK))),
        "rates": refused(lambda: train(1, lr=0.1 + RANK)),
        "records": refused(lambda: train(1, data=shifted)),
        "evaluation": refused(lambda: train(1, net=network().train(RANK == 0))),
        "at a step": refused(lambda: train(3, before=_break_at_first)),
        "ledger": refused(lambda: train(1, ledger=FOLDER / "missing" / "x" / "l.json")),
        "steps": refused(lambda: train(3 + 5 * RANK, sampling="shuffled")),
    }


def until_killed():
    """Steps until a process is killed; each is told, one line each, after it was taken."""
    log = (FOLDER / f"steps-{RANK}").open("w", buffering=1)
    net = network()
    engine = PrivacyEngine(ledger=FOLDER / "ledger.json")
    model, optimizer, loader = engine.make_private(
        module=DistributedDataParallel(net),
        optimizer=torch.optim.SGD(net.parameters(), lr=LR),
        data_loader=DataLoader(records(), batch_size=10),
        mechanism=rc.Gaussian(1.0),
    )
    try:
        while True:
            for inputs, labels in loader:
                nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                log.write(f"{engine.steps}\n")
    except RuntimeError as error:
        sys.exit(f"error: {error}")


def _break_at_first(engine):
    if RANK == 1:
        engine._run._guard._hooks = []  # as if hooks had been added


if __name__ == "__main__":
    FOLDER, RANK, WORLD = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("error", UserWarning)
    distributed.init_process_group(
        "gloo", init_method=f"file://{FOLDER / 'store'}", rank=RANK, world_size=WORLD
    )
    try:
        for scenario in sys.argv[4:]:
            result = globals()[scenario]()
            (FOLDER / f"{scenario}-{RANK}.json").write_text(json.dumps(result))
    finally:  # else a process that lost another may abort as it ends: gloo's threads still run
        distributed.destroy_process_group()
