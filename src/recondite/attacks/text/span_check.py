"""Span check: whole texts from the gradients of a transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, DefenceFacts, Threat
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.text.places import PlacedTexts
from recondite.attacks.text.search import UNKNOWN, TextSearch
from recondite.attacks.text.sites import LayerSite, Sites
from recondite.attacks.text.spans import Span, span_of
from recondite.gradients.leaked import leaked_gradients

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome, RecordScores
    from recondite.attacks.victim import Victim
    from recondite.records import Records

__all__ = ["SpanCheck", "completed"]

_APART = 15_485_863  # the attacker's own noise is not the victim's
_NOTHING = "nothing of a text stands out of the gradients: the answer is the blind guess"


@dataclass(frozen=True)
class SpanCheck(Attack):
    """Rebuilds the texts of a batch from the gradients of one step.

    After Petrov et al., *DAGER: Exact gradient inversion for large language models* (2024): tokens
    are those whose first inputs lie in the span of the attention projections' gradients. Which
    belong together is decided by the deeper layer whose gradient leaves most room outside its span
    (mostly the second one of the first block's MLP). Exact while the batch has fewer tokens than
    the model is wide; from LoRA's gradients while it has fewer than their ranks together. An
    encoder's whole texts come from equations of its first block where that is built as BERT's is
    and the embeddings are trained (:mod:`recondite.attacks.text.places`, ours). Behind noise, whose
    law the attacker knows, only what exceeds a draw of it counts.

    Attributes:
      threshold: Largest relative distance to a span that counts as inside, without noise.
      rounds: For encoders: of four random starts each, at most, where equations do not tell.
    """

    name: ClassVar[str] = "span-check"
    title: ClassVar[str] = "texts whose inputs lie in the span of the gradients"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.DEFENCE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update"})
    reads: ClassVar[tuple[str, ...]] = ("images", "batch_size", "victim", "threat")
    takes: ClassVar[tuple[str, ...]] = ("texts",)

    amounts: ClassVar[bool] = True  # and texts without a class

    threshold: float = 0.02
    rounds: int = 24

    def __post_init__(self) -> None:
        _validate.positive("threshold", self.threshold)
        _validate.at_least("rounds", self.rounds, 1)

    @classmethod
    def applies(cls, defence: DefenceFacts) -> bool:
        """Noise on records changes texts before they have a gradient."""
        return not defence.on_records

    def trains(self, asked: AttackRequest) -> bool:
        """Only where the gradients of the trained model are asked for."""
        return asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out records are attacked, and others of them are the public ones."""
        wanted = asked.images * asked.batch_size
        if wanted >= there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"needs more than {wanted} held-out records: {has}"

    def check_model(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        """Refuses a model that is no transformer of texts."""
        del shape
        Sites(model)

    def _evaluate(self, victim: Victim) -> Outcome:
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.scoring import compared, picked, public_records, scored_records

        asked, test = victim.asked, victim.records.test
        count = asked.images * asked.batch_size
        chosen = picked(test, count, victim.seed)
        true = test.subset(chosen)
        features = true.features.reshape(asked.images, asked.batch_size, *test.shape)
        labels = true.labels.reshape(asked.images, asked.batch_size)
        public = public_records(victim, chosen)
        model = victim.target()
        leaked = victim.leak(model, features, labels)
        noise = self._noise(victim, model, public or test, asked.batch_size)
        guess = None if public is None else true.blind(public)
        fallback = (
            test.typical().expand(count, -1) if guess is None else guess.guesses[true.exposure]
        )
        rebuilt, found, silent = [], 0, set[int]()
        for place in range(asked.images):
            mine = {name: value[place] for name, value in leaked.items()}
            texts, sure = self.rebuilt(
                model,
                mine,
                test,
                batch_size=asked.batch_size,
                noise=noise,
                seed=victim.seed + place,
                told=partial(self._told, victim, place),
            )
            blind = fallback[place * asked.batch_size :][: asked.batch_size].to(features)
            rebuilt.append(completed(texts, blind))
            found += sure
            silent |= set() if texts else {place}
        guesses = None if guess is None else guess.guesses[true.exposure]
        scores, gallery = scored_records(true, torch.stack(rebuilt), features, guesses)
        if guess is not None:
            scores = _handed_in(scores, guess.scores.values, silent, asked.batch_size)
        note = f"{found} of {count} texts lie in the spans: right unless rounding misleads"
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="held-out records",
                batch_size=asked.batch_size,
                victim=asked.victim,
                figures={"texts_verified": found / count},
                blind=None if guess is None else compared(scores, guess, asked.batch_size),
            ),
            gallery=gallery,
            notes=(note if len(silent) < asked.images else _NOTHING,),
        )

    def _told(self, victim: Victim, place: int, done: float) -> None:
        victim.progress(self.name, (place + done) / victim.asked.images)

    def rebuilt(
        self,
        model: nn.Module,
        gradients: Mapping[str, Tensor],
        records: Records,
        *,
        batch_size: int,
        noise: Mapping[str, Tensor] | None = None,
        seed: int = 0,
        told: Any = lambda _: None,
    ) -> tuple[list[Tensor], int]:
        """The texts behind one gradient, at most ``batch_size``, and how many of them are sure.

        Behind noise a text may have holes, :data:`~recondite.attacks.text.search.UNKNOWN` where no
        token stands out: :func:`completed` fills them.

        Args:
          model: As :mod:`recondite.models.pretrained` makes it, at the step's weights.
          gradients: By parameter name; frozen ones may be missing.
          records: Texts of the same vocabulary, for the shape and the end of a text.
          batch_size: Texts behind the gradient.
          noise: A draw of the defence's noise, by parameter name; None without noise.
          seed: Of random starts.
          told: Called with the share that is done.
        """
        sites, drawn = Sites(model), noise or {}
        first = span_of(sites.sites[0].seen(gradients, drawn))
        if first is None:
            return [], 0
        tokenizer = getattr(records, "tokenizer", None)
        allowed = _allowed(sites, gradients, drawn, records.features.device)
        length = records.shape[0]
        generator = torch.Generator().manual_seed(seed)
        placed = None
        if not first.noisy and not sites.causal:
            placed = PlacedTexts.of(sites, gradients, allowed, length, generator)
        search = TextSearch(
            sites,
            first,
            self._deep(sites, gradients, drawn, first.rank),
            self.threshold,
            getattr(tokenizer, "sep_token_id", None),
            generator,
            placed,
            told,
        )
        texts = search.texts(allowed, batch_size, length, self.rounds) if len(allowed) else []
        out = []
        special = {UNKNOWN, *getattr(tokenizer, "all_special_ids", ())}
        for text in texts:
            if special.issuperset(text.tolist()):
                continue  # what every text has
            row = torch.full((length,), -1.0, device=records.features.device)
            row[: len(text)] = text.to(row)
            out.append(row)
        return out, search.verified

    def _deep(
        self,
        sites: Sites,
        gradients: Mapping[str, Tensor],
        noise: Mapping[str, Tensor],
        tokens: int,
    ) -> tuple[LayerSite, Span] | None:
        """The later site that sees most tokens, and of those the one with most room outside."""
        found = []
        for site in sites.sites[1:]:
            span = span_of(site.seen(gradients, noise))
            # The last block's gradients show only what the head looks at.
            if span is not None and span.rank >= tokens:
                found.append((site, span))
        return max(found, key=lambda one: (one[1].rank, one[1].room)) if found else None

    def _noise(
        self, victim: Victim, model: nn.Module, public: Records, batch_size: int
    ) -> dict[str, Tensor] | None:
        """The attacker's own draw of the noise: a release of public texts, less their gradient."""
        if not victim.defence.mechanism.parameter:
            return None
        batch = public.subset(torch.arange(batch_size) % len(public))
        given = batch.features[None], batch.labels[None]
        own = replace(victim, seed=victim.seed + _APART)
        released = {k: v[0] for k, v in own.leak(model, *given).items()}
        clean = {k: v[0] for k, v in leaked_gradients(model, *given).items()}
        inner = sum(float((released[k] * clean[k]).sum()) for k in clean)
        size = sum(float(value.square().sum()) for value in clean.values())
        return {k: released[k] - (inner / size) * clean[k] for k in clean}


def completed(texts: Sequence[Tensor], blind: Tensor) -> Tensor:
    """The texts of a batch: blind guesses where there is none, and their tokens in its holes.

    Args:
      texts: At most as many as the batch has.
      blind: (batch, length).
    """
    rows = []
    for at, guess in enumerate(blind):
        row = guess
        if at < len(texts):
            row = torch.where(texts[at].to(guess) == UNKNOWN, guess, texts[at].to(guess))
        rows.append(row)
    return torch.stack(rows)


def _handed_in(
    scores: RecordScores, blind: Mapping[str, Any], silent: set[int], batch_size: int
) -> RecordScores:
    """Scores where the blind guess stands for what was not found: by each metric its own guess."""
    values = {
        key: tuple(
            float(f"{blind[key][at]:.6g}") if at // batch_size in silent else value
            for at, value in enumerate(each)
        )
        for key, each in scores.values.items()
    }
    if batch_size > 1 and len(silent) * batch_size < len(next(iter(values.values()))):
        return replace(scores, values=values)  # by position, some were rebuilt
    means = {key: sum(each) / len(each) for key, each in values.items()}
    placed = means if silent else scores.placed
    return replace(scores, values=values, placed=placed)


def _allowed(
    sites: Sites, gradients: Mapping[str, Tensor], noise: Mapping[str, Tensor], device: Any
) -> Tensor:
    """Tokens that may occur: rows of the embeddings' gradient that are not 0, where it is there."""
    everything = torch.arange(sites.vocabulary, device=device)
    table = gradients.get(sites.table)
    if table is None:
        return everything
    drawn = noise.get(sites.table)
    edge = 0.0 if drawn is None else float(drawn.norm(dim=1).max())
    return everything[table.norm(dim=1) > edge]
