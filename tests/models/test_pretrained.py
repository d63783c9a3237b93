"""Transformers from a folder: no download, whole or with LoRA, gradients by record."""

import json
from pathlib import Path

import pytest
import torch

from recondite.configuration import TrainingConfig
from recondite.defences import find
from recondite.mechanisms import Gaussian
from recondite.models import count_parameters, resolve
from recondite.models.pretrained import digest_of, wrapped
from recondite.records import load_records
from recondite.training.trainer import train

ids = torch.tensor([[2.0, 5, 6, 3, -1, -1], [2.0, 8, 9, 10, 11, 3]])


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_padding_changes_nothing(transformer, name):
    model = resolve(transformer(name), (6,), 2, seed=0).eval()
    both, alone = model(ids), model(ids[:1, :4])
    assert both.shape == (2, 2)
    assert torch.allclose(both[:1], alone, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("adapter", [None, "lora:4"])
def test_a_private_step_passes_the_first_step_s_check(
    transformer, reviews, first_steps, name, adapter
):
    record = first_steps(f"{reviews}#text,label", transformer(name), adapter, batch_size=12)
    assert record.training["steps"] == 2
    assert record.data["unit"] == "text"


def test_adapters_and_head_alone_are_trained(transformer):
    model = resolve(transformer("bert"), (6,), 2, seed=0, adapter="lora:4")
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert all("lora_" in name or "classifier" in name for name in names)
    # Two blocks, two projections, A and B of 32 by 4; a head of 32 by 2 with its bias.
    assert count_parameters(model) == 2 * 2 * 2 * 32 * 4 + 66


def test_the_head_follows_the_seed_and_the_rest_the_files(transformer):
    first, again, other = (resolve(transformer("bert"), (6,), 3, seed=s) for s in (0, 0, 1))
    assert torch.equal(first.network.classifier.weight, again.network.classifier.weight)
    assert not torch.equal(first.network.classifier.weight, other.network.classifier.weight)
    words = "network.bert.embeddings.word_embeddings.weight"
    assert torch.equal(first.state_dict()[words], other.state_dict()[words])


def test_what_cannot_be_used_is_refused_in_one_line(transformer, tmp_path):
    bert = transformer("bert")
    for model, options, said in (
        (bert, {"adapter": "lora"}, "adapter must be lora:RANK"),
        (bert, {"shape": (3, 8, 8)}, "takes texts"),
        (bert, {"shape": (64,)}, "give truncate 32"),
        (f"hf:{tmp_path}", {}, "no .safetensors"),
        (f"hf:{tmp_path}/nowhere", {}, "nothing is downloaded"),
        ("mlp", {"adapter": "lora:8"}, "adapter is for a Transformers model"),
    ):
        with pytest.raises(ValueError, match=".") as error:
            resolve(model, options.get("shape", (6,)), 2, adapter=options.get("adapter"))
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="takes no input_ids: its forward has"):
        wrapped(torch.nn.Linear(2, 2))


def test_code_in_a_folder_is_not_run(transformer, tmp_path):
    folder = Path(transformer("bert").removeprefix("hf:"))
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ValueError, match="has no config that can be read"):
        resolve(f"hf:{tmp_path}", (6,), 2)
    assert not (tmp_path / "ran").exists()
    assert digest_of(f"hf:{tmp_path}") != digest_of(transformer("bert"))


def test_records_of_people_train_by_person(transformer, reviews):
    config = TrainingConfig(
        f"{reviews}#text,label,who",
        transformer("gpt2"),
        Gaussian(1.0),
        steps=1,
        batch_size=8,
        seed=0,
    )
    record, _ = train(config, delta=1e-3)
    assert record.data["records"] == 20  # four fifths of 25 people
    assert any("ε is of a person" in note for note in record.notes)
    assert load_records(config.data, "all", model=config.model).left_out == 35


def test_noise_on_ids_is_refused(transformer, reviews):
    noise = find("natural").build(100.0)
    config = TrainingConfig(f"{reviews}#text,label", transformer("bert"), noise, clipping="none")
    with pytest.raises(ValueError, match="texts are no amounts: choose a defence on gradients"):
        train(config)
