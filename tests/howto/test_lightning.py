import pytest

import recondite as rc

pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")


def test_the_script_of_the_page(run_page):
    names = run_page("lightning.md")
    engine, trainer = names["model"].engine, names["trainer"]
    assert engine.steps == trainer.global_step == 30
    expected = rc.epsilon(rc.VonMisesFisher(5, dim=370), rc.Poisson(0.1, 30), 1e-3)
    assert engine.get_epsilon(1e-3) == pytest.approx(expected, rel=1e-6)
    assert set(names["model"].state_dict()) == {
        "net.0.weight",
        "net.0.bias",
        "net.2.weight",
        "net.2.bias",
    }


def test_checkpoints_carry_the_count(run_page, tmp_path):
    names = run_page("lightning.md")
    path = tmp_path / "last.ckpt"
    names["trainer"].save_checkpoint(path)
    checkpoint = {}
    names["model"].on_save_checkpoint(checkpoint)
    assert checkpoint["privacy"]["steps"] == 30
    again = run_page("lightning.md")
    more = lightning.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False
    )
    more.fit(again["model"], again["loader"], ckpt_path=path)
    assert again["model"].engine.steps == 40
