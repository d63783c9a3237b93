"""One training over two real processes: one batch, one noise, one account, the same weights."""

import json
import math

import numpy as np
import pytest
import torch
import two_processes
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import recondite as rc
from recondite.training import PrivacyEngine
from recondite.training.distributed import Ranks, join, records_digest

torch.set_num_threads(1)
# What two processes must do as one does, to the rounding of a sum.
LIKE_ONE = ("quiet", "quiet_poisson", "allocated", "pieces", "compiled", "one_by_one", "undefended")
NOISED = ("hundred", "secure", "directional", "each_record", "per_layer", "a_subset", "empty_parts")
OTHERS = ("budget", "observed", "counted", "refusals")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of the two processes saw, by scenario."""
    folder = tmp_path_factory.mktemp("ranks")
    names = (*LIKE_ONE, *NOISED, *OTHERS)
    processes = [two_processes.start(folder, rank, *names) for rank in (0, 1)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "".join(said)
    return {
        name: [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]
        for name in names
    }


def weights(result):
    return np.frombuffer(bytes.fromhex(result["weights"]))


@pytest.mark.parametrize("name", [*LIKE_ONE, *NOISED, "budget", "observed"])
def test_weights_steps_and_epsilon_are_the_same_bit_by_bit(found, name):
    first, second = found[name]
    assert first["weights"] == second["weights"]
    assert first["steps"] == second["steps"] > 0
    assert first["epsilon"] == second["epsilon"]
    assert first["sharing"]  # given back as it was


@pytest.mark.parametrize("name", LIKE_ONE)
def test_without_noise_two_processes_are_one(found, name):
    alone = getattr(two_processes, name)()
    assert found[name][0]["steps"] == alone["steps"]
    np.testing.assert_allclose(weights(found[name][0]), weights(alone), rtol=2e-4, atol=2e-6)


def test_a_hundred_steps_cost_what_they_cost_in_one_process(found):
    first, second = found["hundred"]
    assert first["steps"] == second["steps"] == 100
    expected = rc.epsilon(rc.Gaussian(1.0), rc.Poisson(0.25, 100), 1e-3)
    assert first["epsilon"] == second["epsilon"] == pytest.approx(expected, rel=1e-9)


def test_each_batch_is_split_evenly_and_no_record_is_on_both(found):
    for name in ("hundred", "quiet_poisson", "allocated", "empty_parts"):
        first, second = found[name]
        assert all(0 <= a - b <= 1 for a, b in zip(first["rows"], second["rows"], strict=True))
        for one, other in zip(first["places"], second["places"], strict=True):
            assert not set(one) & set(other)
    assert 0 in found["empty_parts"][1]["rows"]
    once = [place for part in found["allocated"] for batch in part["places"][:4] for place in batch]
    assert sorted(once) == list(range(two_processes.ROWS))


def test_the_noise_is_drawn_once_on_the_sum_of_all(found):
    first, second = found["observed"]
    dim = len(weights(first))
    # Of 40·dim normal variates: six standard errors of their standard deviation.
    spread = math.sqrt(np.mean(np.square(first["noise"])))
    assert spread == pytest.approx(3.0, rel=6 / math.sqrt(2 * 40 * dim))
    assert second["noise"] == []
    both = zip(first["places"], second["places"], strict=True)
    assert first["batches"] == [sorted(one + other) for one, other in both]


def test_the_first_process_keeps_the_ledger(found):
    for result in found["counted"]:
        assert (result["first"]["steps"], result["second"]["steps"], result["file"]) == (3, 5, 5)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("unwrapped", "wrap it in torch.nn", "wrap it in torch.nn"),
        ("mechanisms", "differ in mechanism", "differ in mechanism"),
        ("rates", "differ in the optimizer", "differ in the optimizer"),
        ("records", "differ in the records", "differ in the records"),
        ("evaluation", "process 1 refused", "in evaluation mode"),
        ("at a step", "process 1 refused", "hooks of the module"),
        ("ledger", "cannot be locked", "process 0 refused"),
        ("steps", None, "ended or cannot be reached"),
    ],
)
def test_one_that_refuses_stops_all_in_one_line(found, name, first, second):
    for result, expected in zip(found["refusals"], (first, second), strict=True):
        said = result[name]
        assert (said is None) == (expected is None)
        if expected is not None:
            assert expected in said[1]
            assert "\n" not in said[1]


@pytest.fixture
def one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    place = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("gloo", init_method=place, rank=0, world_size=1)
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


def refuse(module):
    with pytest.raises(ValueError, match=r"module|DistributedDataParallel") as caught:
        join(module)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_ways_to_share_a_model_are_refused_with_the_reason(one_process):
    from torch.distributed.fsdp import fully_shard

    net = two_processes.network
    wrapped = DistributedDataParallel(net())
    assert join(wrapped)[0] is wrapped.module
    assert "splits weights over devices" in refuse(fully_shard(net()))
    assert "past the layers" in refuse(nn.DataParallel(net()))
    assert "whole model" in refuse(nn.Sequential(wrapped, nn.Linear(2, 2)))
    assert "static_graph" in refuse(DistributedDataParallel(net(), static_graph=True))
    distributed.destroy_process_group()
    assert "init_process_group" in refuse(wrapped)


def test_a_wrapper_that_shares_gradients_again_is_refused(one_process):
    model = DistributedDataParallel(two_processes.network())
    engine = PrivacyEngine()
    _, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(two_processes.records(), batch_size=10),
        mechanism=rc.Gaussian(1.0),
    )
    inputs, labels = next(iter(loader))
    nn.functional.cross_entropy(model(inputs), labels).backward()
    model.require_backward_grad_sync = True
    with pytest.raises(ValueError, match="without noise"):
        optimizer.step()


def test_seeds_parts_and_digests():
    ranks = Ranks()
    ranks.world, ranks.rank = 3, 1
    assert ranks.seed(7) not in (None, 7)
    assert ranks.seed(None) is None
    assert [ranks.part_size(count) for count in (0, 1, 2, 7)] == [0, 0, 1, 2]
    data = two_processes.records()
    assert records_digest(data) == records_digest(two_processes.records())
    assert records_digest(data) != records_digest(two_processes.records(30))
