"""Arguments of another library get a pointer."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.attacks import Recipe
from recondite.training.engine import PrivacyEngine


@pytest.mark.parametrize("given", [{"noise_multiplier": 1.0}, {}])
def test_a_noise_multiplier_is_pointed_to_the_mechanism(given):
    model = torch.nn.Linear(4, 2)
    loader = DataLoader(TensorDataset(torch.zeros(8, 4), torch.zeros(8).long()), batch_size=2)
    with pytest.raises(TypeError, match=r"mechanism=recondite.Gaussian\(noise_multiplier\)"):
        PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader,
            **given,
        )


@pytest.mark.parametrize("given", [{"noise_multiplier": 1.0}, {}])
def test_what_is_missing_is_named_in_one_line(given):
    with pytest.raises(TypeError, match="needs module, optimizer, data_loader, by name; the noise"):
        PrivacyEngine().make_private(**given)


def test_the_recipe_of_reference_models_is_among_the_attacks():
    assert rc.attacks.Recipe is Recipe
    assert Recipe(epochs=2).epochs == 2
