"""One configuration of a training: commands, studies, references and plans of 0.1.0 lead to it."""

import dataclasses

import pytest

import recondite as rc
from recondite.configuration import CLIPPINGS, NORMS, SAMPLINGS, TrainingConfig, options, suited
from recondite.defences import NaturalNoise, PersonalizedNoise, defences, find
from recondite.mechanisms import NoNoise

torch = pytest.importorskip("torch")

from recondite.training.plan import Plan, fingerprint_of  # noqa: E402

# What version 0.1.0 wrote into a checkpoint.
OLD = {
    "data": "digits", "model": "mlp", "steps": None, "records": None, "batch_size": 128,
    "learning_rate": 0.005, "optimizer": "adamw", "momentum": 0.0, "weight_decay": 0.0,
    "clipping": "flat", "max_grad_norm": 1.0, "sampling": None, "max_batch_size": None,
    "physical_batch_size": None, "prepare": None, "pixels": "published", "standardise": False,
    "norm": "group", "weights": None, "device": "cpu", "secure": False, "channel": None,
    "capacity": None, "channel_noise": "once", "channel_data": None, "channel_method": "exact",
    "beta": None, "simulation": False, "mechanism": "vmf", "parameters": {"kappa": 50.0},
}  # fmt: skip


def test_every_field_is_an_option_or_what_is_trained():
    told = {field.name for field in dataclasses.fields(TrainingConfig)} - set(options())
    assert told == {"data", "model", "defence"}


def test_choices_are_those_of_the_parts_that_read_them():
    from recondite.gradients import clipping
    from recondite.models import networks
    from recondite.training import sampling

    assert set(CLIPPINGS) == {*clipping._RULES, "per-layer", "none"}
    assert set(SAMPLINGS) <= set(sampling.SAMPLINGS)
    assert set(NORMS) == set(networks.NORMS)


def test_the_command_and_the_study_have_the_options():
    pytest.importorskip("pydantic")
    import inspect

    from recondite.cli.train import train
    from recondite.studies.study import Training

    typed = inspect.signature(train).parameters
    assert set(options()) < set(typed)
    for name, option in options().items():
        assert typed[name].default == (None if option.chosen else option.default)
    assert set(Training.model_fields) == {n for n, option in options().items() if option.study}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"momentum": -1.0, "optimizer": "sgd"}, "momentum"),
        ({"clipping": "round"}, "clipping must be one of"),
        ({"sampling": "sometimes"}, "sampling must be one of"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"norm": "layer"}, "norm must be one of"),
        ({"defence": NaturalNoise(3.0)}, 'clipping="none"'),
    ],
)
def test_bad_values_are_refused_in_one_line(changes, words):
    with pytest.raises(ValueError, match=words) as caught:
        TrainingConfig("digits", "mlp", **changes)
    assert "\n" not in str(caught.value)


def test_every_defence_trains_with_what_suits_it():
    for name, kind in defences(unproven=True).items():
        made = kind.build(2.0)
        config = TrainingConfig("digits", "mlp", made, **suited(kind, {"clipping": None}))
        assert (config.clipping == "none") == (not kind.bounds), name
        assert config.mechanism.parameter == ("" if kind.on_records else made.parameter)


def test_a_plan_is_the_configuration():
    with pytest.warns(DeprecationWarning, match="TrainingConfig"):
        plan = Plan("digits", "mlp", NoNoise(), clipping="none", channel="natural", capacity=9.0)
    assert plan == TrainingConfig("digits", "mlp", NaturalNoise(9.0), clipping="none")
    with pytest.warns(DeprecationWarning, match="Plan is now"):
        assert Plan("digits", "mlp", rc.Gaussian(1.0)).defence == rc.Gaussian(1.0)


def test_fingerprints_of_the_last_version_are_read():
    assert (
        fingerprint_of(OLD)
        == TrainingConfig("digits", "mlp", rc.VonMisesFisher(50.0)).fingerprint()
    )
    first = {key: value for key, value in OLD.items() if key not in ("steps", "pixels", "beta")}
    assert fingerprint_of(first) == fingerprint_of(OLD)
    channel = {"channel": "personalized", "capacity": 9.0, "channel_noise": "per_step"}
    bare = {"clipping": "none", "mechanism": "none", "parameters": {"clip": False}}
    assert (
        fingerprint_of({**OLD, **bare, **channel})
        == TrainingConfig(
            "digits", "mlp", PersonalizedNoise(9.0, "per_step"), clipping="none"
        ).fingerprint()
    )
    assert fingerprint_of({**OLD, **bare}) != fingerprint_of(OLD)
    new = TrainingConfig("digits", "mlp", find("vmf").build(50.0), epochs=7, seed=3).fingerprint()
    assert fingerprint_of(new) == new
    assert "seed" not in new


def test_a_run_of_the_last_version_goes_on(tmp_path):
    from recondite.training.trainer import train

    config = TrainingConfig("digits", "mlp", rc.VonMisesFisher(50.0), epochs=2)
    seen = []

    class StoppedError(Exception):
        pass

    def stop(now):
        seen.append(now)
        if now.epoch == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(config, out=tmp_path, progress=stop, running_epsilon=False)
    path = tmp_path / "checkpoint.pt"
    state = torch.load(path, weights_only=True)
    torch.save({**state, "plan": OLD}, path)
    record, _ = train(config, out=tmp_path)
    assert record.training["steps"] >= 24
    assert not path.exists()


def test_references_are_trained_without_a_defence():
    from recondite.attacks.membership import Recipe, train_references

    assert Recipe(2, 8).defence == NoNoise()
    config = TrainingConfig(defence=rc.Gaussian(1.0))
    images, labels = torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.long)
    with pytest.raises(ValueError, match="recipe has a defence"):
        train_references(lambda: torch.nn.Linear(4, 2), images, labels, 1, config)
