import pytest

import recondite as rc

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def test_the_script_of_the_page(run_page):
    names = run_page("huggingface.md")
    engine = names["engine"]
    assert engine.steps == names["trainer"].state.global_step == 8
    assert engine.mechanism.dim == 4450
    expected = rc.epsilon(rc.VonMisesFisher(20, dim=4450), rc.Poisson(0.25, 8), 1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(expected, rel=1e-6)
    assert all(torch.isfinite(p).all() for p in names["model"].parameters())
    assert not any(key.startswith("_module") for key in names["model"].state_dict())


def test_positions_looked_up_once_count_for_every_record(run_page):
    names = run_page("huggingface.md")
    model, engine = names["model"], names["engine"]
    before, batch = engine.steps, next(iter(names["loader"]))
    names["optimizer"].zero_grad()
    model(input_ids=batch["input_ids"], labels=batch["labels"]).loss.backward()
    names["optimizer"].step()  # each record's gradient is held against torch.func by the engine
    assert engine.steps == before + 1
