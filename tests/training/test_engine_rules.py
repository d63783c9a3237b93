"""What the engine promises around the update: counting, refusing, stopping, resuming."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import recondite as rc
from recondite.mechanisms.none import NoNoise
from recondite.training import BudgetSpentError, PrivacyEngine, PrivateLoader
from recondite.training.ledger import Ledger
from recondite.training.sampling import Draw, default_max_batch

torch.set_num_threads(1)


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def data(rows=60):
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(rows, 6, generator=generator), torch.randint(0, 2, (rows,), generator=generator)
    )


def private(mechanism, net=None, engine=None, rows=60, batch=6, **options):
    net = net or model()
    engine = engine or PrivacyEngine()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data(rows), batch_size=batch)
    made = engine.make_private(
        module=net, optimizer=optimizer, data_loader=loader, mechanism=mechanism, **options
    )
    return (engine, *made)


def train(net, optimizer, loader, epochs=1):
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()


@pytest.mark.parametrize(
    "mechanism",
    [
        rc.Gaussian(1.0),
        rc.VonMisesFisher(5.0),
        rc.PartitionedVonMisesFisher(5.0, blocks="layers"),
        rc.Directional(2.0),
        rc.Directional(2.0, blocks="rows"),
    ],
)
@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
def test_report_accounts_for_what_really_ran(mechanism, sampling):
    engine, net, optimizer, loader = private(mechanism, sampling=sampling)
    train(net, optimizer, loader, epochs=2)
    assert engine.steps == 20
    report = engine.report(delta=1e-3)
    assert report.schedule.to_dict()["sampling"] == sampling
    assert report.mechanism.dim == 47
    expected = rc.epsilon(engine.mechanism, loader.schedule(20), 1e-3)
    assert report.epsilon["pld"] == pytest.approx(expected, rel=1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(expected, rel=1e-3)
    assert report.delta == 1e-3
    json.dumps(report.to_dict(), allow_nan=False)


def test_the_model_and_the_optimizer_stay_the_persons_own():
    net = model()
    keys = list(net.state_dict())
    engine, same, optimizer, _ = private(rc.VonMisesFisher(5.0), net)
    assert same is net
    assert list(net.state_dict()) == keys
    assert type(optimizer) is torch.optim.SGD
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert scheduler.get_last_lr() == [0.1]
    engine.detach()
    assert all("forward" not in vars(layer) for layer in net.modules())


@pytest.mark.parametrize(
    "mechanism", [rc.Gaussian(1.0), rc.VonMisesFisher(5.0), rc.Directional(5.0)]
)
def test_empty_batches_release_noise_and_are_counted(mechanism):
    engine, net, optimizer, loader = private(mechanism, rows=40, batch=1, sampling="poisson")
    empty = 0
    for inputs, labels in loader:
        before = torch.cat([p.detach().reshape(-1).clone() for p in net.parameters()])
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        moved = torch.cat([p.detach().reshape(-1) for p in net.parameters()]) - before
        assert torch.isfinite(moved).all()
        if not loader.draw.keep:
            empty += 1
            assert mechanism.stage == "record" or float(moved.norm()) > 0
    assert empty > 0
    assert engine.steps == 40


def test_an_empty_batch_does_not_depend_on_its_placeholder():
    released = []
    for value in (0.0, 1e6):
        engine = PrivacyEngine(seed=5)
        inputs = torch.full((30, 6), value)
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        loader = DataLoader(TensorDataset(inputs, torch.zeros(30, dtype=torch.long)), batch_size=1)
        net, optimizer, private_loader = engine.make_private(
            module=net, optimizer=optimizer, data_loader=loader, mechanism=rc.VonMisesFisher(5.0)
        )
        for x, y in private_loader:
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if not private_loader.draw.keep:
                break
        released.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
        assert float(released[-1].norm()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "mechanism", [rc.Gaussian(1e-3), rc.VonMisesFisher(1e6), rc.Directional(1e3)]
)
def test_records_without_a_finite_gradient_count_for_nothing(mechanism, bad):
    inputs = torch.randn(8, 6)
    inputs[3] = bad
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    engine = PrivacyEngine(seed=0)
    loader = DataLoader(TensorDataset(inputs, torch.zeros(8, dtype=torch.long)), batch_size=8)
    net, optimizer, private_loader = engine.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=loader,
        mechanism=mechanism,
        sampling="shuffled",
    )
    train(net, optimizer, private_loader)
    assert all(torch.isfinite(p).all() for p in net.parameters())
    assert engine.steps == 1


def test_zero_gradients_release_a_uniform_direction():
    net = nn.Sequential(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    released = []
    for seed in range(200):
        engine = PrivacyEngine(seed=seed)
        copy = nn.Sequential(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
        copy.load_state_dict(net.state_dict())
        optimizer = torch.optim.SGD(copy.parameters(), lr=1.0)
        loader = DataLoader(data(6), batch_size=6)
        copy, optimizer, private_loader = engine.make_private(
            module=copy,
            optimizer=optimizer,
            data_loader=loader,
            mechanism=rc.VonMisesFisher(1e6),
            sampling="shuffled",
        )
        train(copy, optimizer, private_loader)
        released.append(torch.cat([p.grad.reshape(-1) for p in copy.parameters()]))
    stacked = torch.stack(released)
    assert torch.allclose(stacked.norm(dim=1), torch.ones(200), atol=1e-4)
    assert float(stacked.mean(0).norm()) < 0.2


def test_poisson_batches_have_the_law_they_claim():
    loader = PrivateLoader(DataLoader(data(200), batch_size=20), seed=1)
    sizes, seen = [], np.zeros(200)
    for _ in range(60):
        for indices, draw in loader._pieces(loader._batches()):
            sizes.append(draw.rows if draw.keep else 0)
            if draw.keep:
                assert len(set(indices)) == len(indices)
                seen[indices] += 1
    steps = len(sizes)
    assert np.mean(sizes) == pytest.approx(20, abs=5 * np.sqrt(18 / steps))
    assert np.var(sizes) == pytest.approx(18, rel=0.25)
    assert np.abs(seen - 0.1 * steps).max() < 6 * np.sqrt(0.09 * steps)


@pytest.mark.parametrize("clipping", ["scale", "per-layer"])
def test_sums_of_too_large_batches_are_projected_not_cut(clipping):
    engine, net, optimizer, loader = private(
        NoNoise(), rows=200, batch=20, max_batch_size=2, clipping=clipping, max_grad_norm=0.05
    )
    for inputs, labels in loader:
        assert len(labels) == loader.draw.rows
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        released = [p.grad.reshape(-1) for p in net.parameters()]
        if clipping == "scale":
            assert float(torch.cat(released).norm()) <= 2 * 0.05 / 20 + 1e-7
        else:
            for layer in (net[0], net[2]):
                grads = torch.cat([p.grad.reshape(-1) for p in layer.parameters()])
                assert float(grads.norm()) <= 2 * 0.05 / 20 + 1e-7
    assert engine.steps == 10


def test_weak_noise_still_has_a_report():
    engine, net, optimizer, loader = private(rc.Gaussian(0.05))
    train(net, optimizer, loader)
    assert engine.report(1e-5).epsilon["pld"] > 50


@pytest.mark.parametrize(("records", "rate"), [(60_000, 128 / 60_000), (100, 0.5), (1_000, 0.001)])
def test_the_default_maximum_is_practically_never_reached(records, rate):
    from scipy.stats import binom

    most = default_max_batch(records, rate)
    assert binom.sf(most, records, rate) <= 1e-12
    assert most <= records


def test_shuffled_and_fixed_batches_are_what_they_say():
    shuffled = PrivateLoader(DataLoader(data(50), batch_size=8), sampling="shuffled", seed=0)
    batches = [indices for indices, _ in shuffled._pieces(shuffled._batches())]
    assert sorted(i for batch in batches for i in batch) == list(range(50))
    fixed = PrivateLoader(DataLoader(data(50), batch_size=8), sampling="fixed-size", seed=0)
    for indices, _ in fixed._pieces(fixed._batches()):
        assert len(set(indices)) == 8


def test_workers_and_collation_are_kept():
    loader = PrivateLoader(
        DataLoader(
            data(40), batch_size=10, num_workers=2, collate_fn=lambda rows: ("mine", len(rows))
        ),
        sampling="shuffled",
    )
    assert list(loader) == [("mine", 10)] * 4


def test_training_ends_before_the_budget_is_overspent():
    engine = PrivacyEngine(max_epsilon=1.0, delta=1e-3)
    _, net, optimizer, loader = private(rc.Gaussian(2.0), engine=engine)
    train(net, optimizer, loader, epochs=50)
    assert 0 < engine.steps < 500
    assert engine.get_epsilon(1e-3) <= 1.0
    assert rc.epsilon(engine.mechanism, loader.schedule(engine.steps + 1), 1e-3) > 0.999
    inputs, labels = data()[:6]
    loader.draw = Draw(6, True, True, list(range(6)))
    nn.functional.cross_entropy(net(inputs), labels).backward()
    with pytest.raises(BudgetSpentError, match="max_epsilon"):
        optimizer.step()


@pytest.mark.parametrize(
    "mechanism", [rc.Gaussian(1.0), rc.VonMisesFisher(1.0), rc.Directional(1.0, blocks="layers")]
)
def test_make_private_with_epsilon_meets_its_target(mechanism):
    engine = PrivacyEngine()
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer, loader = engine.make_private_with_epsilon(
        module=net,
        optimizer=optimizer,
        data_loader=DataLoader(data(), batch_size=6),
        mechanism=mechanism,
        target_epsilon=3.0,
        target_delta=1e-3,
        epochs=4,
    )
    train(net, optimizer, loader, epochs=4)
    assert 2.9 <= engine.get_epsilon(1e-3) <= 3.0


def test_seeded_runs_repeat_and_are_labelled():
    weights = []
    for _ in range(2):
        engine, net, optimizer, loader = private(
            rc.VonMisesFisher(5.0), engine=PrivacyEngine(seed=7)
        )
        train(net, optimizer, loader)
        weights.append(torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
        assert "simulation: no guarantee" in engine.report(1e-3).assumptions[0]
    assert torch.equal(*weights)
    fresh = []
    for _ in range(2):
        torch.manual_seed(0)
        engine, net, optimizer, loader = private(rc.VonMisesFisher(5.0))
        train(net, optimizer, loader)
        fresh.append(torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
        assert not any("simulation" in line for line in engine.report(1e-3).assumptions)
    assert not torch.equal(*fresh)


def test_checkpoints_carry_the_count_and_no_seed():
    engine, net, optimizer, loader = private(
        rc.VonMisesFisher(5.0), engine=PrivacyEngine(seed=1234567)
    )
    train(net, optimizer, loader)
    state = engine.state_dict()
    assert "1234567" not in json.dumps(state)
    other, *_ = private(rc.VonMisesFisher(5.0))
    other.load_state_dict(state)
    assert other.steps == 10
    other.load_state_dict({**state, "steps": 3})
    assert other.steps == 10
    stranger, *_ = private(rc.VonMisesFisher(6.0))
    with pytest.raises(ValueError, match=r"kappa=5\.0, not kappa=6\.0"):
        stranger.load_state_dict(state)


def test_ledger_never_counts_too_few(tmp_path):
    path = tmp_path / "ledger.json"
    for taken in (0, 1, 49, 50, 51, 120):
        path.unlink(missing_ok=True)
        ledger = Ledger(path)
        for _ in range(taken):
            ledger.before_release()
        if path.exists():  # what a crash would leave
            left = tmp_path / "left.json"
            left.write_bytes(path.read_bytes())
            assert taken <= Ledger(left).taken <= taken + 50
        ledger.close()
        assert Ledger(path).taken == taken
    path.write_text("{broken")
    with pytest.raises(ValueError, match="ledger"):
        Ledger(path)


def test_a_killed_run_resumes_with_at_least_its_steps(tmp_path):
    code = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(os.path.dirname(__file__))!r})
        from test_engine_rules import *
        engine = PrivacyEngine(ledger={str(tmp_path / "ledger.json")!r})
        _, net, optimizer, loader = private(rc.VonMisesFisher(5.0), engine=engine)
        while True:
            train(net, optimizer, loader)
            print(engine.steps, flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    seen = 0
    for line in process.stdout:
        seen = int(line)
        if seen >= 130:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    rest = process.stdout.read().split()
    seen = max([seen, *map(int, rest)])
    assert PrivacyEngine(ledger=tmp_path / "ledger.json").steps >= seen


REFUSED = [
    (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "group"),
    (nn.Sequential(nn.Linear(6, 4), nn.Embedding(4, 2, max_norm=1.0)), "max_norm"),
]


@pytest.mark.parametrize(("net", "words"), REFUSED)
def test_layers_that_mix_or_store_are_refused_with_the_remedy(net, words):
    with pytest.raises(ValueError, match=words) as caught:
        private(rc.VonMisesFisher(1.0), net)
    assert "\n" not in str(caught.value)


def test_tied_weights_are_clipped_by_the_norm_of_their_sum():
    """Two uses of one weight add up before a record is clipped: by parts it would move further."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 2)).double()
    net[2].weight = net[0].weight
    seen, engine = [], PrivacyEngine(seed=0)
    with pytest.warns(UserWarning, match=r"0 \(Linear\)"):
        net, optimizer, loader = engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=DataLoader(
                TensorDataset(50 * torch.randn(6, 6).double(), torch.arange(6) % 2), batch_size=1
            ),
            mechanism=rc.Gaussian(1.0),
            sampling="shuffled",
            max_grad_norm=0.5,
        )
    engine.observe(lambda turn: seen.append(float(turn.total.norm())))
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    assert len(seen) == 6
    assert max(seen) <= 1.0
    assert max(seen) > 0.99  # in units of the bound: clipped, and no more than needed


def test_only_trainable_parameters_are_released():
    net = model()
    net[0].weight.requires_grad_(False)
    frozen = net[0].weight.detach().clone()
    engine = PrivacyEngine()
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    net, optimizer, loader = engine.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=DataLoader(data(), batch_size=6),
        mechanism=rc.VonMisesFisher(5.0),
    )
    train(net, optimizer, loader)
    assert engine.mechanism.dim == 5 + 10 + 2
    assert torch.equal(net[0].weight, frozen)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
        ({"max_grad_norm": (1.0, 2.0, 3.0), "clipping": "per-layer"}, "max_grad_norm"),
        ({"clipping": "hard"}, "clipping"),
        ({"clipping": "none"}, "sensitivity"),
        ({"sampling": "sequential"}, "sampling"),
        ({"loss_reduction": "max"}, "loss_reduction"),
        ({"batch_size": 1000}, "batch_size"),
        ({"data_loader": DataLoader(Stream())}, "map-style"),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)}, "optimizer"),
    ],
)
def test_bad_requests_are_one_line(change, words):
    net = model()
    arguments = {
        "module": net,
        "optimizer": torch.optim.SGD(net.parameters(), lr=0.1),
        "data_loader": DataLoader(data(), batch_size=6),
        "mechanism": rc.Gaussian(1.0),
        **change,
    }
    with pytest.raises(ValueError, match=words) as caught:
        PrivacyEngine().make_private(**arguments)
    assert "\n" not in str(caught.value)


def test_other_misuse_is_named():
    with pytest.raises(ValueError, match="make_private"):
        PrivacyEngine().schedule()
    with pytest.raises(ValueError, match="delta"):
        PrivacyEngine(max_epsilon=1.0)
    engine, net, optimizer, loader = private(rc.Gaussian(1.0))
    with pytest.raises(ValueError, match="train first"):
        engine.report(1e-3)
    with pytest.raises(ValueError, match="in use"):
        private(rc.Gaussian(1.0), engine=engine)
    next(iter(loader))
    nn.functional.cross_entropy(net(torch.randn(3, 6)), torch.zeros(3, dtype=torch.long)).backward()
    if loader.draw.rows != 3:
        with pytest.raises(ValueError, match="rows"):
            optimizer.step()
    evaluating = model().eval()
    with pytest.raises(ValueError, match="evaluation mode"):
        private(rc.Gaussian(1.0), evaluating)


def test_closures_run_once_and_their_loss_comes_back():
    engine, net, optimizer, loader = private(rc.Gaussian(1.0))
    for inputs, labels in loader:

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            return loss

        assert float(optimizer.step(closure).detach()) > 0
    assert engine.steps == 10


def test_accumulating_gradients_over_batches_is_refused():
    _, net, optimizer, loader = private(rc.Gaussian(1.0), sampling="fixed-size")
    for count, (inputs, labels) in enumerate(loader):
        nn.functional.cross_entropy(net(inputs), labels).backward()
        if count == 1:
            break
    with pytest.raises(ValueError, match="accumulated"):
        optimizer.step()


def test_a_batch_that_was_broken_off_does_not_reach_the_next():
    _, net, optimizer, loader = private(
        NoNoise(), sampling="shuffled", batch=6, physical_batch_size=2, clipping="scale"
    )
    inputs, labels = next(iter(loader))
    nn.functional.cross_entropy(net(inputs), labels).backward()
    optimizer.step()
    for inputs, labels in loader:
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        if loader.draw.last:
            break
    total = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    assert float(total.norm()) <= 1.0 + 1e-5


def test_epochs_that_were_begun_are_counted_whole():
    engine, net, optimizer, loader = private(rc.VonMisesFisher(2.0), sampling="shuffled")
    for _ in range(3):
        for inputs, labels in loader:
            nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
            break
    assert engine.steps == 3
    assert engine.schedule().epochs == 3
    expected = rc.epsilon(engine.mechanism, rc.Shuffled(3, 6, 60), 1e-3)
    assert engine.report(1e-3).epsilon["pld"] == pytest.approx(expected)


def test_a_budget_below_one_step_is_refused():
    with pytest.raises(ValueError, match="single step"):
        private(rc.Gaussian(0.1), engine=PrivacyEngine(max_epsilon=0.01, delta=1e-5))


def test_reports_can_be_printed():
    engine, net, optimizer, loader = private(rc.VonMisesFisher(2.0))
    train(net, optimizer, loader)
    text = str(engine.report(1e-3))
    assert "epsilon at delta 0.001" in text
    assert "reconstruction success" in text


def test_evaluation_between_steps_changes_nothing():
    engine, net, optimizer, loader = private(NoNoise(), sampling="shuffled")
    for inputs, labels in loader:
        optimizer.zero_grad()
        with torch.no_grad():
            net(torch.randn(4, 6))
        nn.functional.cross_entropy(net(inputs), labels).backward()
        net.eval()
        net(torch.randn(4, 6))
        net.train()
        optimizer.step()
    assert engine.steps == 10


@pytest.mark.parametrize("sampling", ["shuffled", "fixed-size", "poisson"])
def test_the_length_of_a_loader_counts_what_it_hands_out(sampling):
    data = TensorDataset(torch.randn(45, 3), torch.zeros(45))
    whole = PrivateLoader(DataLoader(data, batch_size=10), sampling=sampling)
    assert len(whole) == whole.batches == len(list(whole)) == 5
    cut = PrivateLoader(DataLoader(data, batch_size=10), sampling=sampling, physical_batch_size=3)
    assert cut.batches == 5
    if sampling == "poisson":
        with pytest.raises(TypeError, match=r"loader\.batches"):
            len(cut)
        assert len(list(cut)) >= 5
    else:
        assert len(cut) == len(list(cut))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_grad_scaler_is_refused_in_one_line():
    model = nn.Linear(3, 2)
    data = TensorDataset(torch.randn(20, 3))
    _, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=5),
        mechanism=rc.Gaussian(1.0),
    )
    scaler = torch.amp.GradScaler("cpu")
    (inputs,) = next(iter(loader))
    scaler.scale(model(inputs).square().mean()).backward()
    with pytest.raises(ValueError, match="bfloat16 autocast") as error:
        scaler.step(optimizer)
    assert "\n" not in str(error.value)
    off = torch.amp.GradScaler("cpu", enabled=False)
    off.step(optimizer)


@pytest.mark.parametrize("clipping", ["none", "flat"])
def test_batch_normalisation_trains_undefended_and_no_other_way(clipping):
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    engine = PrivacyEngine(seed=0)

    def made(mechanism):
        return engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=DataLoader(data(), batch_size=6),
            mechanism=mechanism,
            clipping=clipping,
            sampling="fixed-size",
        )

    for refused in (rc.VonMisesFisher(2.0), *([rc.NoNoise()] if clipping == "flat" else [])):
        with pytest.raises(ValueError, match=r"layer 1 \(BatchNorm1d\) mixes.*fix"):
            made(refused)
    if clipping == "none":
        before = net[1].running_mean.clone()
        train(*made(rc.NoNoise()))
        assert not torch.equal(net[1].running_mean, before)
        assert engine.get_epsilon(1e-3) == float("inf")
