"""Span check: exact texts without a defence, the blind guess behind one."""

from dataclasses import replace

import pytest
import torch

from recondite.attacks.registry import build
from recondite.attacks.text.search import UNKNOWN
from recondite.attacks.text.sites import Sites
from recondite.attacks.text.span_check import SpanCheck, completed
from recondite.attacks.text.spans import Seen, span_of
from recondite.gradients.leaked import leaked_gradients
from recondite.models import resolve
from recondite.records import load_records
from recondite.studies.one_attack import attack_victim


def attacked(model, reviews, **settings):
    attack = {"name": "span-check", "images": 3, "batch_size": 1} | settings.pop("attack", {})
    attack = {key: value for key, value in attack.items() if value is not None}
    study = {
        "name": "attack",
        "data": f"{reviews}#text,label",
        "model": model,
        "seeds": [0],
        "training": settings.pop("training", {}),
        "defences": [settings.pop("defence", {"name": "none"})],
        "attacks": [attack],
    }
    return attack_victim(study).record


def test_inputs_of_the_batch_lie_in_the_span_and_others_do_not():
    generator = torch.Generator().manual_seed(0)
    inputs, slopes = (torch.randn(5, n, generator=generator) for n in (16, 12))
    down = torch.randn(8, 16, generator=generator)
    others = torch.randn(5, 16, generator=generator)
    for seen in (Seen(slopes.mT @ inputs), Seen(slopes.mT @ inputs @ down.mT, down)):
        span = span_of([seen])
        assert span.rank == 5
        assert float(span.distance(inputs).max()) < 1e-5
        assert float(span.distance(others).min()) > 0.05


def test_a_gradient_without_room_shows_nothing():
    generator = torch.Generator().manual_seed(0)
    full = torch.randn(40, 12, generator=generator).mT @ torch.randn(40, 16, generator=generator)
    assert span_of([Seen(full)]) is None
    assert span_of([Seen(torch.zeros(12, 16))]) is None
    noise = 100 * torch.randn(12, 16, generator=generator)
    low = torch.randn(2, 12, generator=generator).mT @ torch.randn(2, 16, generator=generator)
    assert span_of([Seen(low + noise, noise=noise)]) is None


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_sites_are_found_in_every_architecture(transformer, name):
    sites = Sites(resolve(transformer(name), (8,), 2, seed=0).eval())
    assert sites.causal == (name != "bert")
    assert len(sites.sites) == 8  # two blocks: attention in and out, MLP in and out
    with pytest.raises(ValueError, match="needs a Transformers model"):
        Sites(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(("name", "batch"), [("bert", 1), ("gpt2", 3), ("llama", 2)])
def test_texts_are_exact_without_a_defence(transformer, reviews, name, batch):
    row = attacked(transformer(name), reviews, attack={"batch_size": batch})
    found = row["reconstruction"]
    assert found["tokens_mean"] == found["rougeL_mean"] == 1.0
    assert found["texts_verified"] == 1.0
    assert found["blind"]["tokens_mean"] < 0.5
    assert found["metrics"][0]["label"] == "tokens in place"


def test_an_encoder_s_batch_is_told_apart(transformer, reviews):
    model = resolve(transformer("bert"), (9,), 2, seed=0).eval()
    records = load_records(f"{reviews}#text,label", "all", model=transformer("bert"))
    batch = records.subset([0, 7])
    given = leaked_gradients(model, batch.features[None], batch.labels[None])
    gradients = {name: value[0] for name, value in given.items()}
    texts, sure = SpanCheck().rebuilt(model, gradients, records, batch_size=2, seed=1)
    assert sure == 2
    assert batch.score(torch.stack(texts)).mean("tokens") == 1.0


def test_adapters_alone_give_short_texts_away(transformer, reviews):
    row = attacked(transformer("gpt2"), reviews, training={"adapter": "lora:16", "truncate": 6})
    assert row["reconstruction"]["tokens_mean"] == 1.0


@pytest.mark.parametrize("rank", [8, 16])
def test_a_first_token_without_a_query_gradient_is_found_by_its_value(transformer, reviews, rank):
    # A decoder's first token attends to itself alone: of q_proj's and v_proj's adapters only the
    # latter saw it.
    training = {"adapter": f"lora:{rank}", "truncate": 6}
    row = attacked(transformer("llama-deep"), reviews, training=training)
    assert row["reconstruction"]["tokens_mean"] == 1.0
    assert row["reconstruction"]["texts_verified"] == 1.0


def test_where_no_span_tells_the_order_the_tokens_come_out_each_once(transformer, reviews):
    # Two blocks: the second sees what the head looks at, the last token, and nothing else.
    training = {"adapter": "lora:16", "truncate": 6}
    found = attacked(transformer("llama"), reviews, training=training)["reconstruction"]
    assert found["rouge1_mean"] > 0.8  # a token that occurs twice leaves one trace
    assert found["texts_verified"] == 0.0


def test_an_input_of_zero_lies_in_no_span():
    span = span_of([Seen(torch.eye(8)[:3].repeat(2, 1))])
    assert float(span.distance(torch.zeros(8))) == 1.0


def test_holes_are_filled_by_the_blind_guess():
    blind = torch.tensor([[5.0, 6.0, 7.0, -1.0], [8.0, 9.0, -1.0, -1.0]])
    found = completed([torch.tensor([UNKNOWN, 4, UNKNOWN, UNKNOWN])], blind)
    assert found.tolist() == [[5.0, 4.0, 7.0, -1.0], [8.0, 9.0, -1.0, -1.0]]
    assert completed([torch.tensor([2, 4, -1, -1])], blind)[0].tolist() == [2.0, 4.0, -1.0, -1.0]


def test_behind_noise_the_answer_is_the_blind_guess(transformer, reviews):
    for defence in ({"name": "gaussian", "noise_multiplier": 1.0}, {"name": "vmf", "kappa": 100.0}):
        row = attacked(transformer("gpt2"), reviews, defence=defence)
        found = row["reconstruction"]
        assert found["texts_verified"] == 0.0
        for key in ("tokens", "rouge1", "rouge2", "rougeL", "passage"):
            assert found[f"{key}_mean"] == pytest.approx(found["blind"][f"{key}_mean"])
            assert found["gain"][key]["value"] == pytest.approx(0.0, abs=1e-6)
        assert any("the answer is the blind guess" in note for note in row["notes"])


def test_noise_too_weak_to_hide_does_not_save_a_text(transformer, reviews):
    row = attacked(transformer("gpt2"), reviews, defence={"name": "vmf", "kappa": 1e12})
    assert row["reconstruction"]["tokens_mean"] == 1.0
    assert row["reconstruction"]["texts_verified"] == 0.0  # nothing is sure behind noise


def test_images_are_refused_before_anything_is_trained():
    study = {
        "name": "attack",
        "data": "digits",
        "model": "mlp",
        "prepare": "none",
        "defences": [{"name": "none"}],
        "attacks": [{"name": "span-check"}],
    }
    with pytest.raises(ValueError, match="takes texts: digits holds images"):
        attack_victim(study)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="threshold must be above 0"):
        build("span-check", threshold=0.0)
    assert replace(SpanCheck(), rounds=2).rounds == 2


def test_the_identification_game_is_played_with_texts(transformer, reviews):
    row = attacked(
        transformer("bert"),
        reviews,
        defence={"name": "gaussian", "noise_multiplier": 1e-3},
        attack={
            "name": "identification",
            "candidates": 5,
            "games": 6,
            "images": None,
            "batch_size": None,
        },
    )
    game = row["identification"][0]
    assert game["candidates"] == 5
    assert game["rate"] > 0.9  # next to no noise: the record is picked out
