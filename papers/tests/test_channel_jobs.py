"""Jobs on Tan et al. (2024): many runs at once are what each would be alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.inversion import ModelInversion
from recondite.attacks.membership import WhiteBox
from recondite.attacks.membership.features import features_of
from recondite.channels import Spectrum
from recondite.models import build
from recondite_papers.jobs import channel_victims, networks
from recondite_papers.jobs.channel_membership import (
    features_all,
    membership_areas,
)
from recondite_papers.jobs.channel_models import inversion_errors, invert_all
from recondite_papers.jobs.channel_training import (
    drawn_from,
    right_share,
    train_all,
)
from recondite_papers.jobs.channels import ChannelInputs, ChannelSetting, Fitter
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Context
from recondite_papers.stacked import Stack
from recondite_papers.tables.channel import networks as network_cells
from recondite_papers.tables.channel import without_small
from recondite_papers.tables.channel_verdicts import verdicts


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(120, 1, 32, 32, generator=generator) * 2 - 1
    labels = torch.arange(120) % 10
    # A class shows as a bright row.
    for place, label in enumerate(labels.tolist()):
        images[place, 0, 3 * label] += 1.0
    images = images.clamp(-1, 1)
    return Split(images[:80], labels[:80], images[80:], labels[80:], 0.5, 0.5, "toy", 10)


@pytest.fixture(scope="module")
def trained(data):
    """Two LeNets that know the training records by heart, and the stack of both."""
    nets = [build("lenet", data.shape, 10, seed=seed) for seed in (0, 1)]
    draws = [drawn_from(data.images, data.labels, 16)] * 2
    assert train_all(nets, draws, 60, seeds=(0, 1), device="cpu", rate=0.002) == 60
    return nets, Stack(nets)


def test_training_side_by_side_is_the_ordinary_loop(data):
    nets = [build("lenet", data.shape, 10, seed=0) for _ in range(2)]
    alone = [build("lenet", data.shape, 10, seed=0) for _ in range(2)]
    settings = [ChannelSetting(), ChannelSetting("natural", 30.0)]
    noise = torch.Generator().manual_seed(7)
    spectrum = Spectrum.from_covariance(np.diag(np.linspace(1.0, 0.1, 1024)))
    inputs = ChannelInputs(data, Fitter(spectrum, data.shape), settings, noise)
    draws = [networks.noisy_batches(inputs, run, 8) for run in range(2)]
    train_all(nets, draws, 4, seeds=(5, 6), device="cpu")
    for run, net in enumerate(alone):
        generator = torch.Generator().manual_seed(5 + run)
        optimizer = torch.optim.Adam(net.parameters(), 0.001)
        for _ in range(4):
            index = torch.randint(80, (8,), generator=generator)
            seen = data.images[index]
            if run:
                spread = inputs.channels["natural", 30.0].noise.variance ** 0.5
                seen = seen + spread * torch.randn(8, 1024, generator=generator).view_as(seen)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(seen), data.labels[index]).backward()
            optimizer.step()
    for mine, theirs in zip(nets, alone, strict=True):
        for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)


def test_a_rate_that_does_not_learn_is_not_used(data, monkeypatch):
    monkeypatch.setattr(networks, "_RATES", (30.0, 0.003))
    draws = [drawn_from(data.images, data.labels, 64)] * 2
    found = networks.tried("lenet", data, "cpu", 40, draws)
    assert found[30.0] <= 0.15 < found[0.003]
    assert networks.chosen(found) == 0.003
    assert networks.chosen({}) == networks.chosen({0.003: 0.1}) == 30.0


def test_training_stops_when_its_time_is_up(data, monkeypatch):
    monkeypatch.setattr("recondite_papers.jobs.channel_training._LOOK", 2)
    net = build("mlp", data.shape, 10, seed=0)
    draw = drawn_from(data.images, data.labels, 4)
    assert train_all([net], [draw], 50, seeds=[0], device="cpu", deadline=0.0) == 2


def test_models_of_a_stack_are_inverted_as_each_alone(data, trained):
    nets, stack = trained
    attack = ModelInversion(iterations=8)
    start = data.test_images.double().mean(0).float()
    found = invert_all(stack, start, torch.arange(10), attack, data.bounds)
    errors, before = inversion_errors(stack, data, 80, attack)
    for run, net in enumerate(nets):
        alone = attack.invert(net, (data.test_images, data.test_labels), bounds=data.bounds)
        torch.testing.assert_close(found[run], alone.images, atol=1e-4, rtol=1e-4)
        scores = alone.score((data.images, data.labels))
        assert errors[run] == pytest.approx(scores.median, abs=1e-4)
        assert before == pytest.approx(scores.start, abs=1e-6)


def test_membership_of_a_stack_is_that_of_each_alone(data, trained):
    nets, stack = trained
    members, others = (data.images[:40], data.labels[:40]), (data.test_images, data.test_labels)
    images, labels = torch.cat([members[0], others[0]]), torch.cat([members[1], others[1]])
    together = features_all(stack, images, labels, batch=30)
    for run, net in enumerate(nets):
        for mine, theirs in zip(together, features_of(net, images, labels).parts, strict=True):
            torch.testing.assert_close(mine[run], theirs, atol=2e-3, rtol=2e-3)
    # 40 known records, 32 learnt: a whole batch and a smaller one.
    attack = WhiteBox(epochs=12, batch_size=20, learning_rate=3e-3)
    areas = membership_areas(stack, members, others, attack)
    alone = [attack.infer(net, members, others, seed=0).auc for net in nets]
    assert areas == pytest.approx(alone, abs=0.02)
    assert right_share(nets[0], *members) > 0.5


def test_gradients_of_many_victims_are_those_of_each(data, trained):
    nets, _ = trained
    labels = data.labels[:3, None]
    gradients = channel_victims.leaked(nets[0], data.images[:3], labels)
    loss = nn.functional.cross_entropy(nets[0](data.images[1:2]), labels[1])
    wanted = torch.autograd.grad(loss, list(nets[0].parameters()))
    for mine, theirs in zip(gradients.values(), wanted, strict=True):
        torch.testing.assert_close(mine[1], theirs)


def test_an_attack_plans_for_what_fits():
    calls = []

    def attack(method, time_limit, progress):
        calls.append(method.steps)
        for step in (0, 25, 50):
            progress(AttackProgress(step, method.steps, 0.0))
        return SimpleNamespace(by_user=False)

    slow = channel_victims._afforded(attack, InvertingGradients(steps=4000), 1e-12)
    fast = channel_victims._afforded(attack, InvertingGradients(steps=4000), 1e9)
    assert (slow, fast) == (100, 4000)
    assert calls == [60, 60]
    assert channel_victims._cut(8, 900, 4000) == "8 images instead of 30, 900 of 4,000 iterations"
    assert channel_victims._cut(30, 4000, 4000) == ""


def test_victims_are_attacked_in_groups_that_fit(data, monkeypatch):
    settings = [ChannelSetting(), ChannelSetting("natural", 50.0), ChannelSetting("natural", 300.0)]
    monkeypatch.setattr(channel_victims, "_settings", lambda context: settings)
    monkeypatch.setattr(channel_victims, "_BYTES", 4 * 62_006 * 2.0)
    monkeypatch.setattr(channel_victims, "records", lambda *_: data)
    monkeypatch.setattr(
        channel_victims, "build", lambda *_, **__: build("lenet", data.shape, seed=0)
    )
    rows = channel_victims._inverted(Context(quick=True), [], "resnet10")
    assert [(r["defence"], r["value"]) for r in rows] == [(s.kind, s.capacity) for s in settings]
    assert all(r["iterations"] == 2 and r["images"] == 1 for r in rows)
    # Quick versions add no noise, so victims are the same in every group.
    assert rows[0]["mse_scaled"] == pytest.approx(rows[2]["mse_scaled"], rel=0.5)


def test_runs_in_full_come_before_small_ones():
    small = {"data": "cifar10", "model": "resnet10", "defence": "natural", "value": 50.0,
             "accuracy": [0.1], "steps": 30, "batch": 16, "run": "small run on a CPU"}  # fmt: skip
    full = {**small, "accuracy": [0.5], "steps": 10_000, "run": ""}
    more = {**full, "value": 300.0, "accuracy": [0.7], "cut": "time was up"}
    alone = {**small, "model": "vgg16"}
    rows = without_small([small, full, more, alone])
    assert rows == [full, more, alone]
    cells = {cell.name: cell for cell in network_cells(rows)}
    assert len(cells) == 3 * 2 * 13
    assert cells["resnet10, cifar10, natural 50"].ours == pytest.approx(50.0)
    assert "time was up" in cells["resnet10, cifar10, natural 300"].why
    assert cells["alexnet, cifar10, none"].ours is None
    (found,) = verdicts([], [], [], [], [full, more])
    assert found.stands == "stands"
    assert "50.0 → 70.0 %" in found.evidence


def test_verdicts_keep_data_sets_apart():
    rows = []
    for data, sign in (("fashion-mnist", 1), ("cifar10", -1)):
        row = {"data": data, "accuracy": [0.5], "mse_start": 0.45, "auc": 0.6}
        rows.append({**row, "defence": "none", "value": 0.0, "mse_inversion": 0.1})
        for kappa in (50.0, 300.0):
            error = 0.2 - sign * kappa / 3000
            steps = {"1": 0.4, "2": error}
            rows.append({**row, "defence": "natural", "value": kappa, "mse_inversion": error,
                         "by_steps": steps, "auc": 0.55})  # fmt: skip
        rows.append({**row, "defence": "dp-flat", "value": 0.8, "mse_inversion": 0.15, "auc": 0.5})
    found = {v.claim: v for v in verdicts(rows, [], [], [])}
    assert found["Model inversion gets closer as κ rises (Figure 10)."].stands == "in part"
    assert found["Model inversion gets closer as n rises (Figure 13)."].stands == "stands"
    both = next(v for claim, v in found.items() if "membership" in claim)
    assert both.stands == "stands"
    assert "cifar10" in both.evidence
    # An attack that ends farther off than it began shows a trend at most, and a tie nothing.
    far = [{**row, "mse_start": 0.01, "auc": 0.55} for row in rows]
    found = {v.claim: v for v in verdicts(far, [], [], [])}
    assert found["Model inversion gets closer as n rises (Figure 13)."].stands == "in part"
    both = next(v for claim, v in found.items() if "membership" in claim)
    assert both.stands == "falls for membership; undecided for reconstruction"
