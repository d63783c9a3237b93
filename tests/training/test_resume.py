"""A count of steps is taken over only by an engine that makes its steps in the same way."""

import json

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine

torch.set_num_threads(1)

MECHANISMS = [rc.Gaussian(1.0), rc.VonMisesFisher(5.0)]
CHANGES = [
    ({"batch": 8}, "batch_size=40"),
    ({"records": 320}, "records=80"),
    ({"sampling": "shuffled"}, "sampling='poisson'"),
    ({"sampling": "fixed-size"}, "sampling='poisson'"),
    ({"mechanism": rc.VonMisesFisher(1.0)}, "mechanism=|kappa=5.0"),
    ({"mechanism": rc.Gaussian(9.0)}, "mechanism=|noise_multiplier=1.0"),
]


def private(mechanism, batch=40, records=80, sampling="poisson", norm=1.0, **options):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(records, 6), torch.arange(records) % 2)
    net = nn.Linear(6, 2)
    engine = PrivacyEngine(**options)
    _, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=batch),
        mechanism=mechanism,
        max_grad_norm=norm,
        sampling=sampling,
    )
    return engine, net, optimizer, loader


def trained(mechanism, **options):
    engine, net, optimizer, loader = private(mechanism, **options)
    for _ in range(2):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
    return engine


@pytest.mark.parametrize(("change", "words"), CHANGES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_checkpoint_of_other_steps_is_refused(mechanism, change, words):
    state = trained(mechanism).state_dict()
    other, *_ = private(**{"mechanism": mechanism, **change})
    with pytest.raises(ValueError, match=words) as caught:
        other.load_state_dict(state)
    assert "\n" not in str(caught.value)
    assert "recondite.accounting.compose" in str(caught.value)
    assert other.steps == 0


@pytest.mark.parametrize(("change", "words"), CHANGES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_ledger_of_other_steps_is_refused(mechanism, change, words, tmp_path):
    path = tmp_path / "ledger.json"
    trained(mechanism, ledger=path)
    kept = path.read_text()
    with pytest.raises(ValueError, match=words) as caught:
        private(**{"mechanism": mechanism, **change}, ledger=path)
    assert str(caught.value).startswith("ledger ledger.json has steps taken with")
    assert path.read_text() == kept


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, rc.Directional(2.0, blocks="rows")])
def test_the_same_settings_go_on_and_cost_no_less(mechanism, sampling, tmp_path):
    first = trained(mechanism, sampling=sampling, ledger=tmp_path / "ledger.json")
    cost = first.get_epsilon(1e-3)
    first.ledger.close()
    again, *_ = private(mechanism, sampling=sampling, ledger=tmp_path / "ledger.json")
    assert again.steps == 4
    assert again.get_epsilon(1e-3) == cost
    loaded, *_ = private(mechanism, sampling=sampling)
    loaded.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert loaded.get_epsilon(1e-3) == cost


def test_the_clipping_bound_counts_where_the_noise_is_scaled_by_it():
    other, *_ = private(MECHANISMS[0], norm=2.0)
    with pytest.raises(ValueError, match=r"clip_norm=1\.0, not clip_norm=2\.0"):
        other.load_state_dict(trained(MECHANISMS[0]).state_dict())
    # A direction has no length: its cost is the same under any bound.
    other, *_ = private(MECHANISMS[1], norm=2.0)
    other.load_state_dict(trained(MECHANISMS[1]).state_dict())
    assert other.steps == 4


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_files_of_older_versions_do_not_say_enough(mechanism, tmp_path):
    path = tmp_path / "ledger.json"
    engine = trained(mechanism, ledger=path)
    old = engine.state_dict()
    engine.ledger.close()
    for key in ("sampling", "batch_size", "records"):
        del old[key]
    other, *_ = private(mechanism)
    with pytest.raises(ValueError, match="does not say with which sampling, batch_size, records"):
        other.load_state_dict(old)
    path.write_text(json.dumps({"schema_version": 1, "reserved": 50, "epochs": 2}))
    with pytest.raises(ValueError, match="does not say with which mechanism"):
        private(mechanism, ledger=path)
    # One that counts nothing yet makes nothing cheaper.
    path.write_text(json.dumps({"schema_version": 1, "reserved": 0, "epochs": 0}))
    assert private(mechanism, ledger=path)[0].steps == 0
