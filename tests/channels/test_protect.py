"""Protected loaders and data sets: what goes in, what comes out, what they say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import recondite as rc
from recondite.channels import NaturalChannel, ProtectedDataset
from recondite.channels.loader import ProtectedLoader

COUNT = 12
X = np.random.default_rng(0).standard_normal((COUNT, 2, 3))
Pair = namedtuple("Pair", ["x", "y"])
MODES = ("once", "per_step")


@pytest.fixture(scope="module")
def channel():
    return rc.NaturalChannel.fit(X, capacity=3.0)


@pytest.fixture(params=MODES)
def noise(request):
    return request.param


@pytest.fixture(params=[True, False])
def cache(request):
    return request.param


class Records:
    """A plain map-style data set of one kind of record."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.make(index)


KINDS = {
    "tensor": (lambda i: torch.tensor(X[i]), None, lambda r: r),
    "single": (lambda i: torch.tensor(X[i]).float(), None, lambda r: r),
    "half": (lambda i: torch.tensor(X[i]).bfloat16(), None, lambda r: r),
    "array": (lambda i: X[i], None, lambda r: r),
    "tuple": (lambda i: (torch.tensor(X[i]), i), None, lambda r: r[0]),
    "second": (lambda i: (i, torch.tensor(X[i])), 1, lambda r: r[1]),
    "last": (lambda i: (i, torch.tensor(X[i])), -1, lambda r: r[-1]),
    "list": (lambda i: [torch.tensor(X[i]), "label"], None, lambda r: r[0]),
    "namedtuple": (lambda i: Pair(torch.tensor(X[i]), i), None, lambda r: r.x),
    "dict": (lambda i: {"id": i, "pixels": X[i]}, "pixels", lambda r: r["pixels"]),
    "nested": (lambda i: (torch.tensor(X[i]), {"a": i, "b": torch.ones(2)}), None, lambda r: r[0]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_records(channel, noise, cache, kind):
    """A record keeps its kind, its type and all but its features; so does a batch of them."""
    make, features, get = KINDS[kind]
    records = Records(make)
    options = {"features": features, "cache": cache}
    protected = channel.protect(records, noise, **options)
    assert len(protected) == COUNT
    for index in (0, 5, -1):
        raw, noisy = records[index % COUNT], protected[index]
        assert type(noisy) is type(raw)
        assert type(get(noisy)) is type(get(raw))
        assert get(noisy).dtype == get(raw).dtype
        assert get(noisy).shape == (2, 3)
        assert not (get(noisy) == get(raw)).all()
    plain = DataLoader(records, batch_size=5)
    for raw, noisy in zip(plain, channel.protect(plain, noise, **options), strict=True):
        assert type(noisy) is type(raw)
        assert get(noisy).shape == get(raw).shape
        assert get(noisy).dtype == get(raw).dtype
        assert rest(noisy, features) == rest(raw, features)


def rest(batch, features):
    """Returns what is not features, for comparison."""
    if isinstance(batch, (np.ndarray, torch.Tensor)):
        return None
    if isinstance(batch, dict):
        return {key: str(value) for key, value in batch.items() if key != features}
    place = range(len(batch))[features or 0]
    return [str(part) for index, part in enumerate(batch) if index != place]


def test_whole_numbers_become_real(channel, noise, cache):
    for records, expected in (
        (torch.zeros(COUNT, 6, dtype=torch.uint8), torch.float32),
        (np.zeros((COUNT, 6), dtype=np.uint8), np.float64),
    ):
        assert channel.protect(records, noise, cache=cache)[0].dtype == expected
        (batch,) = channel.protect(DataLoader(records, batch_size=COUNT), noise, cache=cache)
        assert batch.is_floating_point()


def test_a_loader_stays_what_it_was(channel, noise):
    class Loader(DataLoader):
        def hello(self):
            return "hello"

    def collate(items):
        return len(items), torch.stack([x for x, _ in items])

    def started(_):
        return None

    generator = torch.Generator().manual_seed(1)
    records = TensorDataset(torch.from_numpy(X), torch.arange(COUNT))
    loader = Loader(
        records,
        batch_size=5,
        shuffle=True,
        collate_fn=collate,
        drop_last=True,
        generator=generator,
        worker_init_fn=started,
        timeout=0,
    )
    protected = channel.protect(loader, noise)
    assert isinstance(protected, Loader)
    assert isinstance(protected, ProtectedLoader)
    assert protected.hello() == "hello"
    assert len(protected) == len(loader) == 2
    for name in ("batch_size", "drop_last", "collate_fn", "sampler", "batch_sampler", "generator"):
        assert getattr(protected, name) is getattr(loader, name)
    assert [size for size, _ in protected] == [5, 5]
    # The loader it came from serves raw records as before.
    assert loader.dataset is records
    assert isinstance(protected.dataset, ProtectedDataset)


def test_order_of_a_seeded_loader_is_kept(channel, noise):
    records = TensorDataset(torch.from_numpy(X), torch.arange(COUNT))
    orders = []
    for protect in (False, True):
        loader = DataLoader(
            records, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3)
        )
        loader = channel.protect(loader, noise) if protect else loader
        orders.append(torch.cat([y for _ in range(2) for _, y in loader]))
    assert torch.equal(*orders)


def test_loader_without_batches(channel, noise):
    loader = DataLoader(torch.from_numpy(X), batch_size=None, shuffle=True)
    protected = channel.protect(loader, noise)
    assert [tuple(x.shape) for x in protected] == [(2, 3)] * COUNT
    assert protected.uses == 1


def test_persistent_workers(channel, noise):
    loader = DataLoader(torch.from_numpy(X), batch_size=5, num_workers=1, persistent_workers=True)
    protected = channel.protect(loader, noise)
    first, second = torch.cat(list(protected)), torch.cat(list(protected))
    assert torch.equal(first, second) == (noise == "once")
    assert protected.uses == (1 if noise == "once" else 2)


def test_information(channel, noise):
    protected = channel.protect(DataLoader(torch.from_numpy(X), batch_size=5), noise)
    for _ in range(3):
        list(protected)
    info = json.loads(json.dumps(protected.information(), allow_nan=False))
    nats = channel.information(3, noise)
    assert info["per_record"] == nats
    assert info["per_dimension"] == nats / 6
    assert info["against_log_records"] == nats / math.log(COUNT)
    assert info["data_set"] == nats * COUNT
    assert info["uses"] == protected.uses == (1 if noise == "once" else 3)
    assert (info["noise"], info["channel"], info["records"]) == (noise, "natural", COUNT)
    assert info["labels"].startswith("not protected")
    assert info["guarantee"] is True
    assert info["limits"] == list(channel.limits)
    assert f"noise='{noise}', uses={info['uses']}" in repr(protected)


def test_a_single_record(channel, noise):
    protected = channel.protect(X[:1], noise)
    assert protected[0].shape == (2, 3)
    assert protected.information()["against_log_records"] is None
    with pytest.raises(IndexError):
        _ = protected[1]


def test_too_large_to_keep(channel, monkeypatch):
    monkeypatch.setattr("recondite.channels.loader._CACHE_BYTES", 100)
    reads = []

    def make(index):
        reads.append(index)
        return X[index]

    protected = channel.protect(Records(make))
    del reads[:]
    first, second = protected[3], protected[3]
    assert reads == [3, 3]
    np.testing.assert_array_equal(first, second)


def test_channels_do_not_import_torch():
    code = (
        "import sys, numpy as np, recondite.channels as c; "
        "x = np.random.default_rng(0).standard_normal((9, 4)); "
        "p = c.NaturalChannel.fit(x, 2.0).protect(x, 'per_step'); p[0]; list(p); "
        "q = c.WhiteChannel.fit(x, 2.0).protect(x); q[0]; "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(X)


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (X, {"noise": "twice"}, "noise must be one of once, per_step"),
        (X, {"seed": 1}, "seed is for per_step"),
        (X, {"noise": "per_step", "secret": bytes(32)}, "secret and identity are for once"),
        (X, {"noise": "per_step", "seed": -1}, "seed must be 0 or more"),
        (X, {"secret": b"short"}, "secret must be 32 bytes"),
        (X, {"total_information": 1.0}, "less than the capacity of a single use"),
        (X, {"features": "x"}, "features='x' is not in a record"),
        (X[:, 0], {}, "6 features each, got 3"),
        (X[:0], {}, "holds no records"),
        (iter(X), {}, "map-style"),
        (Stream(), {}, "map-style"),
        (DataLoader(Stream()), {}, "map-style"),
        (np.where(X > 9, X, np.nan), {}, "finite"),
        (X.astype(complex), {}, "real numbers"),
        (torch.tensor(X).to(torch.complex64), {}, "real numbers"),
        ([{"x": X[0], "y": 1}] * 3, {}, "one of: x, y"),
        ([(1.0, 2.0)] * 3, {}, "must be an array or a tensor, got float"),
        ([(X[0], 1)] * 3, {"features": 2}, "features=2"),
    ],
)
def test_bad_arguments(channel, data, options, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        channel.protect(data, **options)
    assert "\n" not in str(caught.value)


def test_records_that_turn_out_bad(channel, noise):
    class Ragged(Records):
        def __getitem__(self, index):
            return X[index] if index != 4 else self.make

    for bad, reason in (
        (np.zeros(5), "equal shape"),
        (np.full((2, 3), np.inf), "finite"),
        (torch.zeros(2, 3), "equal shape and type"),
    ):
        with pytest.raises(ValueError, match=reason):
            list(channel.protect(DataLoader(Ragged(bad), batch_size=6), noise))
    protected = channel.protect(Ragged(np.zeros(5)), noise, cache=False)
    with pytest.raises(ValueError, match="6 features each"):
        _ = protected[4]
    with pytest.raises(ValueError, match="by number"):
        _ = protected["a"]


def test_what_is_protected_is_not_protected_again(channel, noise):
    for data in (X, DataLoader(torch.from_numpy(X))):
        with pytest.raises(ValueError, match="protected already"):
            channel.protect(channel.protect(data, noise))


def test_a_loader_with_a_state_of_its_own_is_refused(channel):
    class Stateful(DataLoader):
        def state_dict(self):
            return {}

    with pytest.raises(ValueError, match="state of its own"):
        channel.protect(Stateful(torch.from_numpy(X)))


def test_embeddings(noise):
    """A channel that was fitted on embeddings protects a set of embeddings."""
    encoder = torch.nn.Linear(6, 2).double()
    channel = NaturalChannel.fit(torch.from_numpy(X).reshape(COUNT, 6), 2.0, transform=encoder)
    embedded = encoder(torch.from_numpy(X).reshape(COUNT, 6))
    protected = channel.protect(embedded, noise)
    assert protected[0].shape == (2,)
    assert not protected[0].requires_grad
