"""Transformers from a folder, ``hf:FOLDER``: classifiers and causal language models, LoRA too.

Only safetensors and JSON are read; nothing is downloaded and no code of a folder is run. Dropout is
off: it adds noise to what private training measures, and an attacker would know its law anyway.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from recondite.models.weights import seeded
from recondite.records.arrays import needed
from recondite.records.text import PADDING
from recondite.records.text_files import HUB

__all__ = ["LanguageModel", "TextModel", "digest_of", "is_folder", "pretrained", "wrapped"]

_DROPOUT = re.compile(r"drop(out)?|_pdrop$")
_EXTRA = "recondite[text]"


def is_folder(model: str) -> bool:
    """Tells whether a name has the form ``hf:FOLDER``."""
    return model.startswith(HUB)


class TextModel(nn.Module):
    """A Transformers classifier that takes token ids as records have them.

    Attributes:
      network: The model of Transformers, with adapters where there are any.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of (n, length) ids, floats or not, padded at their end with -1."""
        return self.logits(tokens)[0]

    def logits(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says, and the ids as whole numbers with -1 where there is none."""
        ids = tokens.long()
        there = ids != PADDING
        given = torch.where(there, ids, int(self.config.pad_token_id))
        return self.network(input_ids=given, attention_mask=there.long()).logits, ids

    @property
    def config(self) -> Any:
        """Of the Transformers model."""
        return self.network.config


class LanguageModel(TextModel):
    """A causal language model of Transformers, for texts without a class.

    Relation: a record's loss is the mean over its own tokens, from the second on, of -log of the
    probability that the model gives them after those before. No record's length is another's.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        """Each record's loss, (n, 1), of (n, length) ids padded at their end with -1."""
        logits, ids = self.logits(tokens)
        wanted = ids[:, 1:]
        each = functional.cross_entropy(
            logits[:, :-1].mT, wanted, ignore_index=PADDING, reduction="none"
        )
        return each.sum(1, keepdim=True) / (wanted != PADDING).sum(1, keepdim=True).clamp(min=1)


def pretrained(
    model: str,
    shape: tuple[int, ...],
    classes: int,
    *,
    adapter: str | None = None,
    seed: int | None = None,
) -> TextModel:
    """The model of a folder, with its weights; a head that the folder lacks is drawn.

    Args:
      model: ``hf:FOLDER`` with config.json and model.safetensors.
      shape: Of one record: (tokens,).
      classes: How many; 1 for texts without a class, which a causal language model learns.
      adapter: ``lora:RANK`` trains low-rank adapters of the attention projections, and a
        classifier's head, and leaves all else as it is; None trains everything.
      seed: Of what is drawn; None for torch's own generator.
    """
    library = needed("transformers", _EXTRA)
    if len(shape) != 1:
        raise ValueError(f"model {model} takes texts: records of shape {shape} are none")
    rank = None if adapter is None else _rank(adapter)
    folder = _folder(model)
    try:
        config = library.AutoConfig.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the library raises whatever it stumbles over in the files
        raise ValueError(f"model {model} has no config that can be read: {_line(error)}") from error
    quiet(config)
    language = classes == 1
    if not language:
        config.num_labels = classes
    elif type(config) not in library.AutoModelForCausalLM._model_mapping or not _causal(config):
        raise ValueError(
            f"model {model} ({config.model_type}) is no causal language model, and the texts have "
            "no classes: name a column of labels, or give a decoder such as GPT-2"
        )
    most = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if most is not None and shape[0] > most:
        raise ValueError(
            f"model {model} takes {most} tokens, and a text has {shape[0]}: give truncate {most}"
        )
    if getattr(config, "pad_token_id", None) is None:
        # Any id will do: padding is masked, and this only marks a text's end.
        last = config.eos_token_id
        config.pad_token_id = last[0] if isinstance(last, list) else last or 0
    try:
        with seeded(seed), _silent(library.utils.logging):
            kind = library.AutoModelForSequenceClassification
            kind = library.AutoModelForCausalLM if language else kind
            network, found = kind.from_pretrained(
                str(folder),
                config=config,
                dtype=torch.float32,
                attn_implementation="eager",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # a head of other classes is drawn anew
                output_loading_info=True,
            )
            inside = f"{network.base_model_prefix}."
            wrong = [key for key, *_ in found["mismatched_keys"] if key.startswith(inside)]
            if wrong:
                raise ValueError(f"model {model}: {min(wrong)} is not as large as its config says")
            if language and any(key.startswith(inside) for key in found["missing_keys"]):
                raise ValueError(f"model {model} lacks weights of its decoder: nothing is drawn")
            return wrapped(network, rank=rank, name=model, language=language)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"model {model} cannot be loaded: {_line(error)}") from error


@contextmanager
def _silent(logs: Any) -> Iterator[None]:
    """Without a bar for each file, nor a report that a head is drawn: it is what was asked for."""
    verbosity, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # PEFT says that it found GPT-2's Conv1D, and does the right thing.
            warnings.filterwarnings("ignore", message="fan_in_fan_out")
            yield
    finally:
        logs.set_verbosity(verbosity)
        if bars:
            logs.enable_progress_bar()


def wrapped(
    network: nn.Module,
    *,
    rank: int | None = None,
    name: str = "the model",
    language: bool = False,
) -> TextModel:
    """A Transformers model for records of texts, with LoRA adapters where a rank is given."""
    model = LanguageModel if language else TextModel
    takes = inspect.signature(network.forward).parameters
    for argument in ("input_ids", "attention_mask"):
        if argument not in takes:
            raise ValueError(
                f"model {name} takes no {argument}: its forward has {', '.join(list(takes)[:4])}"
            )
    if rank is None:
        return model(network)
    peft = needed("peft", _EXTRA)
    settings = peft.LoraConfig(
        task_type="CAUSAL_LM" if language else "SEQ_CLS",
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        bias="none",
    )
    try:
        adapted = peft.get_peft_model(network, settings)
    except ValueError as error:
        raise ValueError(f"adapter is not possible for model {name}: {_line(error)}") from error
    return model(adapted.base_model.model)


def quiet(config: Any) -> None:
    """Sets every dropout of a configuration to 0."""
    for key, value in copy.copy(vars(config)).items():
        if isinstance(value, float) and _DROPOUT.search(key):
            setattr(config, key, 0.0)


def _causal(config: Any) -> bool:
    """Whether it reads from left to right: BERT's kin can be told to, and are encoders as saved."""
    encoders = {"bert", "roberta", "electra", "xlm-roberta", "camembert", "rembert", "roformer"}
    return config.model_type not in encoders or bool(getattr(config, "is_decoder", False))


def digest_of(model: str) -> str:
    """Of the weights and the configuration in a folder."""
    whole = hashlib.sha256()
    for path in sorted(_folder(model).glob("*")):
        if path.suffix in (".safetensors", ".json") and path.is_file():
            with path.open("rb") as file:
                whole.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def _folder(model: str) -> Path:
    folder = Path(model.removeprefix(HUB)).expanduser()
    if not folder.is_dir():
        raise ValueError(f"model {model}: there is no folder {folder}; nothing is downloaded")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(
            f"model {model} has no .safetensors: pickles are not read, convert the weights first"
        )
    return folder


def _rank(adapter: str) -> int:
    kind, _, rank = adapter.partition(":")
    if kind != "lora" or not rank.isdecimal() or not 1 <= int(rank) <= 1024:
        raise ValueError(f"adapter must be lora:RANK, such as lora:8, got {adapter!r}")
    return int(rank)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
