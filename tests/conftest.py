"""Tiny transformers with random weights and a tokenizer of 25 words, and reviews in such words."""

import random
import warnings

import pytest

TEXT = """[PAD] [UNK] [CLS] [SEP] good bad film was the a plot very not and so long dull fun great
poor i it of to in"""
WORDS = TEXT.split()
SIZE = len(WORDS)


@pytest.fixture(scope="session")
def tokenizer():
    """Whole words, [CLS] before and [SEP] after them, at most 32 tokens."""
    pytest.importorskip("transformers", reason="transformers is not installed (extra text)")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=32,
    )


@pytest.fixture(scope="session")
def transformer(tokenizer, tmp_path_factory):
    """``transformer("bert")`` is ``hf:FOLDER`` of a random one of two blocks; gpt2, llama too."""
    import torch
    import transformers as tf

    # Weights large enough that attention looks at one token more than at another.
    wide = {"initializer_range": 0.3}
    ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    some = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    size = {"vocab_size": SIZE, "intermediate_size": 64, "max_position_embeddings": 32}
    gpt2 = {"vocab_size": SIZE, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}

    def llama(shape):
        config = tf.LlamaConfig(**size, **shape, **ends, **wide, num_key_value_heads=1)
        return tf.LlamaForSequenceClassification(config)

    makers = {
        "bert": lambda: tf.BertForSequenceClassification(tf.BertConfig(**size, **some, **wide)),
        "gpt2": lambda: tf.GPT2ForSequenceClassification(tf.GPT2Config(**gpt2, **ends, **wide)),
        "llama": lambda: llama(some),
        "llama-deep": lambda: llama({**some, "num_hidden_layers": 3}),
    }
    found = {}

    def make(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            with torch.random.fork_rng():
                torch.manual_seed(0)
                makers[name]().save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            found[name] = f"hf:{folder}"
        return found[name]

    return make


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """A CSV of 60 texts of 4 to 7 words with a label, by 25 people."""
    draw = random.Random(0)
    lines = ["text,label,who"]
    for number in range(60):
        words = draw.choices(WORDS[4:], k=draw.randint(3, 6))
        label = number % 2
        lines.append(f"{' '.join([*words, ('bad', 'good')[label]])},{label},p{number % 25}")
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def first_steps():
    """Takes two private steps on a text model; one whose gradients were not checked fails."""

    def take(data, model, adapter, batch_size):
        from recondite.configuration import TrainingConfig
        from recondite.mechanisms import Gaussian
        from recondite.training.trainer import train

        config = TrainingConfig(
            data, model, Gaussian(1.0), adapter=adapter, steps=2, batch_size=batch_size, seed=0
        )
        with warnings.catch_warnings():
            unchecked = "the first step's gradients were not checked"
            warnings.filterwarnings("error", message=unchecked)
            warnings.filterwarnings("ignore", message="no fast per-sample rule")
            return train(config, delta=1e-3)[0]

    return take
