"""Causal language models: each record's own loss, trained privately, attacked, refused."""

import math

import pytest
import torch

from recondite.attacks.text.span_check import SpanCheck
from recondite.cli.main import run
from recondite.configuration import TrainingConfig
from recondite.gradients.losses import usual_loss
from recondite.mechanisms.none import NoNoise
from recondite.models import count_parameters, resolve
from recondite.models.pretrained import LanguageModel
from recondite.records import load_records
from recondite.training.trainer import train

ids = torch.tensor([[2.0, 5, 6, 3, -1, -1], [2.0, 8, 9, 10, 11, 3]])


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_loss_of_a_record_is_that_of_its_own_tokens(transformer, name):
    from transformers import AutoModelForCausalLM

    model = resolve(transformer(name), (6,), 1, seed=0).eval()
    assert isinstance(model, LanguageModel)
    losses = model(ids).detach()
    assert losses.shape == (2, 1)
    plain = AutoModelForCausalLM.from_pretrained(transformer(name).removeprefix("hf:")).eval()
    plain.load_state_dict(model.network.state_dict())
    for row, length in ((0, 4), (1, 6)):
        own = ids[row : row + 1, :length].long()
        assert float(losses[row]) == pytest.approx(
            float(plain(own, labels=own).loss.detach()), rel=1e-4
        )
    assert float(usual_loss(losses, torch.zeros(2).long())) == pytest.approx(float(losses.mean()))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("adapter", [None, "lora:4"])
def test_private_training_passes_the_checks_of_the_first_step(
    transformer, reviews, first_steps, name, adapter
):
    record = first_steps(f"{reviews}#text,,who", transformer(name), adapter, batch_size=8)
    assert record.training["steps"] == 2
    assert record.data["unit"] == "person"
    assert record.data["classes"] == 0
    mean = record.results["test_loss"]
    assert record.results["test_perplexity"] == pytest.approx(math.exp(mean))
    assert "test_accuracy" not in record.results


def test_training_without_a_defence_learns_the_texts(transformer, reviews):
    config = TrainingConfig(
        f"{reviews}#text,",
        transformer("llama"),
        NoNoise(),
        clipping="none",
        optimizer="adamw",
        learning_rate=0.01,
        epochs=10,
        batch_size=16,
        seed=0,
    )
    record, _ = train(config)
    assert record.results["train_perplexity"] < 20  # of 25 words, drawn evenly


def test_adapters_alone_are_trained(transformer):
    model = resolve(transformer("llama"), (6,), 1, seed=0, adapter="lora:4")
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert names
    assert all("lora_" in name for name in names)
    assert count_parameters(model) > 0


@pytest.mark.parametrize("kind", ["csv", "people", "folder", "jsonl"])
def test_every_way_to_name_them(transformer, reviews, tmp_path, kind):
    (tmp_path / "notes").mkdir()
    for number in range(5):
        (tmp_path / "notes" / f"{number}.txt").write_text("good film very bad", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text('{"text": "good film"}\n' * 5, encoding="utf-8")
    data = {
        "csv": f"{reviews}#text,",
        "people": f"{reviews}#text,,who",
        "folder": str(tmp_path / "notes"),
        "jsonl": f"{tmp_path / 'a.jsonl'}#text",
    }[kind]
    records = load_records(data, "all", model=transformer("gpt2"))
    assert records.classes == ()
    assert records.outputs == 1
    assert not records.labels.any()
    assert len(records) == {"csv": 60, "people": 25, "folder": 5, "jsonl": 5}[kind]
    assert records.summary()["classes"] == 0


@pytest.mark.parametrize(
    ("data", "model", "said"),
    [
        ("{reviews}#text,", "bert", "is no causal language model"),
        ("{folder}", "gpt2", "in subfolders, one for each class, and beside them"),
        ("{reviews}#,label", "gpt2", "name the columns as reviews.csv#TEXT,LABEL"),
    ],
)
def test_what_cannot_be_continued_is_refused_in_one_line(
    transformer, reviews, tmp_path, capsys, data, model, said
):
    (tmp_path / "a").mkdir()
    for name in ("a/1.txt", "a/2.txt", "3.txt"):
        (tmp_path / name).write_text("good film", encoding="utf-8")
    words = ["train", "--data", data.format(reviews=reviews, folder=tmp_path)]
    words += ["--model", transformer(model), "--defence", "gaussian", "--noise-multiplier", "1"]
    assert run([*words, "--steps", "1", "--batch-size", "4", "--delta", "1e-3"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert said in told


def test_span_check_reads_texts_from_a_language_model_s_gradient(transformer, reviews):
    records = load_records(f"{reviews}#text,", "all", model=transformer("gpt2"))
    model = resolve(transformer("gpt2"), records.shape, 1, seed=0)
    batch = records.subset([0, 7])
    loss = usual_loss(model(batch.features), batch.labels)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    found, _ = SpanCheck().rebuilt(model, gradients, records, batch_size=2)
    right = {tuple(text) for text in records.texts(torch.stack(found))}
    assert right == {tuple(text) for text in batch.texts()}
