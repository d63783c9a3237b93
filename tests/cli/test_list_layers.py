"""recondite layers."""

import json

import pytest
from typer.testing import CliRunner

from recondite.cli.layers import layers
from recondite.cli.main import app


def test_layers_are_listed_with_rule_and_cost():
    done = CliRunner().invoke(app, ["layers", "resnet10", "--norm", "batch", "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    rules = [layer["rule"] for layer in found["layers"]]
    assert {rule: rules.count(rule) for rule in set(rules)} == {"fast": 13, "refused": 12}
    assert "recondite.fix(model)" in found["layers"][1]["cost"]
    assert {layer["norms"] for layer in found["layers"]} == {"gradients", "products", ""}
    done = CliRunner().invoke(app, ["layers", "mlp", "--shape", "1,16,16"])
    assert done.stdout.splitlines()[0] == "Layers of mlp: 3 fast"


def test_a_wrong_shape_is_one_line():
    with pytest.raises(ValueError, match="--shape must be numbers with commas"):
        layers("mlp", shape="3x32")


def test_a_recurrent_layer_with_the_slow_rule_lists_its_cost():
    from torch import nn

    from recondite.gradients.layers.listing import list_layers

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(nn.init.ones_(nn.Linear(1, 1).weight.detach()))
            self.inner = nn.LSTM(3, 4, proj_size=2, batch_first=True)

    own, found = list_layers(Tagger())
    assert (own.kind, own.rule, own.parameters) == ("Tagger", "fast", 1)
    assert found.rule == "slow"
    assert "record after record for LSTM" in found.cost
