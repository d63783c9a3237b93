"""`once` noise: bound to the record, whatever happens around it."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from recondite.channels import BudgetSpentError, NaturalChannel, Spectrum, WhiteChannel
from recondite.channels.noise import Noise
from recondite.channels.once import OnceNoise
from recondite.channels.secret import Secret

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
COUNT = 20
X = torch.from_numpy(np.random.default_rng(0).standard_normal((COUNT, 2, 3))).float()
Y = torch.arange(COUNT)


@pytest.fixture
def natural(build, build_spectrum):
    return build("natural", build_spectrum("exact"), 3.0)


def by_label(loader):
    """Returns the features of one epoch in the order of their labels."""
    batches = list(loader)
    x, y = torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])
    return x[torch.argsort(y)]


def noisy_set(channel, secret=KEY, **options):
    return torch.stack(
        [x for x, _ in channel.protect(TensorDataset(X, Y), secret=secret, **options)]
    )


@pytest.mark.parametrize("cache", [True, False])
def test_the_same_across_epochs_shuffles_and_resumes(channel, cache):
    """For every channel, on every kind of spectrum: bit by bit."""
    check_the_same(channel, cache, workers=0)


@pytest.mark.parametrize("cache", [True, False])
def test_the_same_with_workers(name, cache, build, build_spectrum):
    check_the_same(build(name, build_spectrum("gram"), 3.0), cache, workers=2)


def check_the_same(channel, cache, workers):
    expected = noisy_set(channel, cache=cache)
    loader = DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True, num_workers=workers)
    first = channel.protect(loader, secret=KEY, cache=cache)
    again = channel.protect(loader, secret=KEY, cache=cache)
    again.load_state_dict(first.state_dict())
    for protected in (first, again):
        for _ in range(2):
            assert torch.equal(by_label(protected), expected)
    assert again.uses == 1
    assert again.information()["per_record"] == channel.capacity_nats
    assert not torch.isclose(expected, X).all(dim=(1, 2)).any()


def test_kept_and_drawn_each_time_agree(channel):
    """To the last bit where no matrix product is in between."""
    kept, drawn = noisy_set(channel, cache=True), noisy_set(channel, cache=False)
    if channel.noise.along is None:
        assert torch.equal(kept, drawn)
    torch.testing.assert_close(kept, drawn, rtol=1e-5, atol=1e-6)


def test_the_same_in_another_process(tmp_path, natural):
    script = """
        import sys, numpy as np, torch
        from recondite.channels import NaturalChannel, Spectrum
        x = torch.from_numpy(np.random.default_rng(0).standard_normal((20, 2, 3))).float()
        spectrum = Spectrum.from_eigenvalues([3.0, 2.0, 1.0, 1.0, 1.0, 0.5])
        channel = NaturalChannel.from_spectrum(spectrum, 3.0)
        protected = channel.protect(x, secret=sys.argv[1])
        np.save(sys.argv[2], torch.stack(list(protected)).numpy())
        print(protected.uses)
    """
    key = tmp_path / "run.key"
    outs = []
    for name in ("a.npy", "b.npy"):
        arguments = [sys.executable, "-c", textwrap.dedent(script), str(key), str(tmp_path / name)]
        done = subprocess.run(arguments, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == "1"
        outs.append(np.load(tmp_path / name))
    spectrum = Spectrum.from_eigenvalues([3.0, 2.0, 1.0, 1.0, 1.0, 0.5])
    here = NaturalChannel.from_spectrum(spectrum, 3.0).protect(X, secret=key)
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_array_equal(outs[0], torch.stack(list(here)).numpy())


def test_spawned_workers(natural):
    """They get everything by pickling, the secret included only while they start."""
    loader = DataLoader(
        TensorDataset(X, Y), batch_size=7, num_workers=1, multiprocessing_context="spawn"
    )
    protected = natural.protect(loader, secret=KEY, cache=False)
    assert torch.equal(by_label(protected), noisy_set(natural))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(protected.dataset)


def test_another_secret_channel_record_place_or_precision_is_another_draw(natural, build):
    """Never the same normal numbers: those under another law, say, would give both away."""
    variances = {"noise": natural.noise, "more": Noise(6, natural.noise.variance * 1.001)}

    def normal(law="noise", key=KEY, index=0, shift=0.0, single=True):
        record = np.full((1, 6), shift, dtype=np.float32 if single else np.float64)
        source = OnceNoise(variances[law], Secret(key), single=single)
        noisy = source.added([index], [record[0]], [record[0]])
        return (noisy - record)[0] / math.sqrt(variances[law].variance)

    base = normal()
    np.testing.assert_array_equal(base, normal())
    others = [
        normal(law="more"),
        normal(key=OTHER_KEY),
        normal(index=1),
        normal(shift=1.0),
        normal(single=False),
    ]
    for one, other in zip([base, *others], [*others, base], strict=True):
        assert (np.abs(one - other) > 1e-6).all()


def test_eigenvectors_are_part_of_the_law():
    rotated = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    values = np.diag([3.0, 2.0, 1.0])
    channels = [
        WhiteChannel.from_spectrum(Spectrum.from_covariance(matrix), 2.0)
        for matrix in (values, rotated @ values @ rotated.T)
    ]
    prints = {channel.noise.fingerprint() for channel in channels}
    assert len(prints) == 2
    assert channels[0].noise.fingerprint() in prints


def test_identity_follows_the_record(natural):
    """The noise of a record that is found at another place."""
    order = list(range(COUNT))[::-1]
    straight = natural.protect(
        TensorDataset(X, Y), secret=KEY, identity=lambda _, item: int(item[1])
    )
    for options in (
        {"identity": lambda _, item: int(item[1])},
        {"identity": lambda i, _: order[i]},
    ):
        turned = natural.protect(Subset(TensorDataset(X, Y), order), secret=KEY, **options)
        for place in range(COUNT):
            assert torch.equal(turned[place][0], straight[order[place]][0])
    by_index = natural.protect(Subset(TensorDataset(X, Y), order), secret=KEY)
    assert not torch.equal(by_index[0][0], straight[order[0]][0])


def test_identities_of_different_kinds_differ(natural):
    copies = [
        natural.protect(X, secret=KEY, identity=lambda _, __, who=who: who)[0]
        for who in (7, "7", b"7", "number 7", 8)
    ]
    assert len({tuple(copy.flatten().tolist()) for copy in copies}) == 5
    with pytest.raises(ValueError, match="identity must return"):
        natural.protect(X, identity=lambda _, __: 7.5)[0]


def test_noise_has_the_covariance_of_the_channel_and_is_independent(name, build, build_spectrum):
    channel = build(name, build_spectrum("gram"), 3.0)
    zeros = np.zeros((8_000, 6))
    noise = np.stack(list(channel.protect(zeros, secret=KEY)))
    white = noise @ np.linalg.cholesky(np.linalg.inv(channel.noise.covariance()))
    bound = 6 / math.sqrt(len(white))
    assert np.abs(white.mean(axis=0)).max() < bound
    assert np.abs(white.T @ white / len(white) - np.eye(6)).max() < bound * math.sqrt(2)
    for shift in (1, 2, 100):
        assert np.abs(white[:-shift].T @ white[shift:] / (len(white) - shift)).max() < bound
    other = np.stack(list(channel.protect(zeros, secret=OTHER_KEY)))
    assert np.abs(white.T @ other / len(white)).max() < bound * np.sqrt(channel.noise.power)


class Counting(Dataset):
    """Counts how often its records are read."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        self.reads += 1
        return X[index], Y[index]


def test_kept_copies_leave_the_raw_records_and_the_secret_alone(natural):
    records = Counting()
    protected = natural.protect(DataLoader(records, batch_size=4), secret=KEY)
    before = records.reads
    for _ in range(3):
        list(protected)
    assert records.reads == before + COUNT
    # Nothing in the set leads back: a copy of it holds noisy records only.
    copied = pickle.dumps(protected.dataset)
    assert KEY not in copied
    assert X[3].numpy().tobytes() not in copied
    torch.testing.assert_close(pickle.loads(copied)[3][0], protected.dataset[3][0])
    with pytest.raises(ValueError, match="no ledger"):
        _ = pickle.loads(copied).uses


@pytest.mark.parametrize("cache", [True, False])
def test_a_transform_comes_after_the_noise_and_changes_nothing_for_good(natural, cache):
    plain = noisy_set(natural)

    def in_place(x):
        return x.mul_(2).add_(torch.rand(()))

    loader = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True)
    protected = natural.protect(loader, secret=KEY, transform=in_place, cache=cache)
    for _ in range(2):
        moved = by_label(protected) - 2 * plain
        assert (moved.amax((1, 2)) - moved.amin((1, 2))).max() < 1e-4
        assert moved.min() > -1e-4
        assert moved.max() < 1 + 1e-4


def test_random_augmentation_below_is_refused(natural):
    class Random(Counting):
        def __getitem__(self, index):
            return X[index] + torch.rand(()), Y[index]

    for noise in ("once", "per_step"):
        with pytest.raises(ValueError, match="changes from one reading.*transform="):
            natural.protect(Random(), noise)


def test_large_records_without_a_large_matrix():
    dim = 150_528
    data = np.random.default_rng(0).standard_normal((6, dim)).astype(np.float32)
    for kind in (NaturalChannel, WhiteChannel):
        channel = kind.fit(data, 20.0)
        protected = channel.protect(torch.from_numpy(data).reshape(6, 3, 224, 224), secret=KEY)
        noise = (torch.stack(list(protected)).reshape(6, dim) - torch.from_numpy(data)).double()
        # White noise has most of its power along five directions, where six draws tell little: in
        # the whitened frame all directions count alike, and the mean of 900,000 squares is near 1.
        white = channel.noise.whitened(noise.numpy())
        assert float((white**2).mean()) == pytest.approx(1.0, rel=0.01)
        assert protected[2].dtype == torch.float32


def test_a_second_draw_counts(natural, tmp_path):
    first = natural.protect(X, secret=KEY)
    limited = natural.protect(X, secret=OTHER_KEY, total_information=3.5)
    limited.load_state_dict(first.state_dict())
    with pytest.warns(UserWarning, match="spent"), pytest.raises(BudgetSpentError, match="spent"):
        _ = limited[0]
    second = natural.protect(X, secret=OTHER_KEY)
    second.load_state_dict(first.state_dict())
    assert second.uses == 2
    assert second.information()["per_record"] == natural.information(2, "per_step")
    second.load_state_dict(natural.protect(X, secret=KEY).state_dict())
    assert second.uses == 2
    # A ledger's file sees it at once.
    path = tmp_path / "uses"
    assert natural.protect(X, secret=KEY, ledger=path).uses == 1
    assert natural.protect(X, secret=KEY, ledger=path).uses == 1
    with pytest.warns(UserWarning, match="not the first draw"):
        assert natural.protect(X, secret=OTHER_KEY, ledger=path).uses == 2
    with pytest.raises(BudgetSpentError, match="does not allow this draw"):
        natural.protect(X, ledger=path, total_information=4.0)
    # A draw that was refused was not made.
    with pytest.warns(UserWarning, match="2 uses"):
        assert natural.protect(X, secret=KEY, ledger=path).uses == 2


def test_the_file_of_a_secret_sees_another_channel(build, build_spectrum, tmp_path):
    spectrum, path = build_spectrum("exact"), tmp_path / "run.key"
    natural, white = (build(name, spectrum, 3.0) for name in ("natural", "white"))
    assert natural.protect(X, secret=path).uses == 1
    assert natural.protect(X[:5], secret=path).uses == 1
    with pytest.warns(UserWarning, match="not the first draw"):
        protected = white.protect(X, secret=path)
    assert protected.uses == 2
    assert protected.information()["per_record"] == pytest.approx(6.0, rel=1e-6)


def test_a_loader_ends_where_the_budget_is_spent(natural):
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    spent, used = natural.protect(loader, total_information=3.0), natural.protect(loader)
    assert len(list(spent)) == 5
    assert not spent.budget_spent
    spent.load_state_dict(used.state_dict())
    with pytest.warns(UserWarning, match="total_information=3 is spent"):
        assert list(spent) == []
    assert spent.budget_spent
    assert spent.information()["budget_spent"]


def test_nothing_that_is_written_holds_the_secret_or_a_record(natural, tmp_path):
    path = tmp_path / "run.key"
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    protected = natural.protect(loader, secret=path, ledger=tmp_path / "uses")
    key = path.read_text().split()[2]
    list(protected)
    report = json.dumps([protected.information(), protected.state_dict()], allow_nan=False)
    written = report + repr(protected) + repr(protected.dataset) + (tmp_path / "uses").read_text()
    torch.save(protected.state_dict(), tmp_path / "state.pt")
    blob = pickle.dumps(protected.information()) + (tmp_path / "state.pt").read_bytes()
    assert len(key) == 64
    assert key not in written
    for secret in (bytes.fromhex(key), key.encode()):
        assert secret not in blob
