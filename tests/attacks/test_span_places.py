"""Texts of an encoder's batch by equations: the block as functions, places, contexts, texts."""

from types import SimpleNamespace

import pytest
import torch

from recondite.attacks.text.blocks import EncoderBlock
from recondite.attacks.text.places import PlacedTexts
from recondite.attacks.text.sites import Sites
from recondite.attacks.text.span_check import SpanCheck
from recondite.gradients.leaked import leaked_gradients
from recondite.models import resolve
from recondite.models.pretrained import quiet, wrapped

VOCABULARY, LENGTH = 300, 9


def encoder(kind="Bert", width=64):
    """A random encoder of two blocks, untrained, wide enough for a few texts."""
    tf = pytest.importorskip("transformers", reason="transformers is not installed (extra text)")
    settings = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 24,
        "pad_token_id": 1 if kind == "Roberta" else 0,
        "initializer_range": 0.2,
        "attn_implementation": "eager",
    }
    if kind == "DistilBert":
        settings |= {"dim": width, "n_layers": 2, "n_heads": 4, "hidden_dim": 4 * width}
    else:
        settings |= {"hidden_size": width, "intermediate_size": 4 * width}
        settings |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    config = getattr(tf, f"{kind}Config")(**settings)
    quiet(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return wrapped(getattr(tf, f"{kind}ForSequenceClassification")(config)).eval()


def drawn(count, seed=0, short=False):
    """Texts of ids, 2 before and 3 after them; small ids are frequent, as words are."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.full((count, LENGTH), -1.0)
    for row in rows:
        size = LENGTH - int(torch.randint(4, (), generator=generator)) if short else LENGTH
        scale = torch.rand(size, generator=generator)
        row[:size] = 4 + (scale**3 * (VOCABULARY - 4)).floor()
        row[0], row[size - 1] = 2, 3
    return rows, torch.arange(count) % 2


def leak(model, rows, labels):
    given = leaked_gradients(model, rows[None], labels[None])
    return {name: value[0] for name, value in given.items()}


def same(texts, rows):
    """Whether each text is one of the batch, and each of the batch is there."""
    wanted = sorted(row[row >= 0].long().tolist() for row in rows)
    return sorted(text[text >= 0].long().tolist() for text in texts) == wanted


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DistilBert"])
def test_the_first_block_is_the_model_s_own(kind):
    sites = Sites(encoder(kind))
    block = EncoderBlock.of(sites)
    tokens = torch.tensor([[2, 9, 17, 4, 3]])
    values = [sites.inputs(site, tokens)[0].double() for site in sites.sites[:4]]
    query, key, value = block.projected(values[0])
    weights = torch.einsum("ihd,jhd->hij", query, key).softmax(-1)
    mine = torch.einsum("hij,jhd->ihd", weights, value).flatten(1)
    assert torch.allclose(mine, values[1], atol=1e-5)
    assert torch.allclose(block.bent(values[2])[0], values[3], atol=1e-5)
    raw, normed = block.sums(sites, tokens[0], 3)
    assert torch.allclose(block.embedding.double()(raw), normed, atol=1e-5)


def test_the_slope_is_the_derivative():
    block = EncoderBlock.of(Sites(encoder()))
    here = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    along = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tangent = block.bent(here)[1] * (block.up.weight.double() @ along)
    ahead, behind = (block.bent(here + sign * 1e-5 * along)[0] for sign in (1, -1))
    assert torch.allclose((ahead - behind) / 2e-5, tangent, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_other_models_have_no_such_block(transformer, name):
    assert EncoderBlock.of(Sites(resolve(transformer(name), (8,), 2, seed=0).eval())) is None


def test_an_adapter_s_block_is_left_to_the_sweeps(transformer):
    model = resolve(transformer("bert"), (8,), 2, adapter="lora:4", seed=0).eval()
    assert EncoderBlock.of(Sites(model)) is None


def test_words_that_occur_once_tell_their_place():
    model = encoder()
    rows, labels = drawn(4)
    sites, gradients = Sites(model), leak(model, rows, labels)
    tokens = torch.unique(rows).long()
    placed = PlacedTexts.of(sites, gradients, tokens, LENGTH, torch.Generator().manual_seed(0))
    ids = rows.long()
    told = 0
    for token, place in zip(tokens.tolist(), placed.place.tolist(), strict=True):
        places = set((ids == token).nonzero()[:, 1].tolist())
        assert place == -1 or places == {place}
        told += place >= 0 and int((ids == token).sum()) == 1
    singles = sum(int((ids == token).sum()) == 1 for token in tokens.tolist())
    assert told >= 0.9 * singles
    for at, kept in enumerate(placed.candidates()):
        assert set(ids[:, at].tolist()) <= set(kept.tolist())


@pytest.mark.parametrize(
    ("kind", "count", "short"),
    [
        ("Bert", 2, False),
        ("Bert", 5, False),
        ("Bert", 4, True),
        ("Roberta", 3, False),  # counts its places on from the padding's id
        ("DistilBert", 3, True),
    ],
)
def test_batches_come_out_whole(kind, count, short):
    model = encoder(kind)
    rows, labels = drawn(count, seed=count, short=short)
    records = SimpleNamespace(features=rows, shape=(LENGTH,))
    gradients = leak(model, rows, labels)
    texts, sure = SpanCheck().rebuilt(model, gradients, records, batch_size=count)
    assert sure == count
    assert same(texts, rows)


def test_what_is_no_text_of_the_batch_is_not_called_sure():
    # More tokens than the model is wide: no span has room.
    model = encoder(width=16)
    rows, labels = drawn(6)
    records = SimpleNamespace(features=rows, shape=(LENGTH,))
    texts, sure = SpanCheck(rounds=1).rebuilt(
        model, leak(model, rows, labels), records, batch_size=6
    )
    assert sure == 0
    assert not same(texts, rows)


def test_a_model_that_takes_no_masks_of_pairs_is_refused_by_its_name():
    with pytest.raises(ValueError, match="masks of pairs: DebertaV2ForSequenceClassification"):
        Sites(encoder("DebertaV2"))
