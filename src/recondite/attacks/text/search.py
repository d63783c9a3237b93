"""From spans to texts: tokens whose inputs lie in them, joined into sequences that do throughout.

In the first layer an input depends on its token and place alone; deeper, on all tokens it attends
to. A decoder's texts are found from left to right: a prefix is extended by every token whose deeper
input lies in the span. An encoder's depend on the whole text: where its first block is known, its
equations give whole texts (:mod:`recondite.attacks.text.places`). For what they leave, sweeps that
put the nearest token into each place, the others held, come to a text of the batch from random
starts. One whose inputs all lie in the span is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recondite.attacks.text.places import PlacedTexts
from recondite.attacks.text.sites import LayerSite, Sites
from recondite.attacks.text.spans import Span

__all__ = ["UNKNOWN", "TextSearch"]

UNKNOWN = -2  # no token of a place is told; -1 is the end of a text
_QUARTER = 0.6745  # standard deviations from a normal law's middle to its first quarter
_AT_ONCE = 4_096  # tokens that go through the model at once
_SWEEPS = 8
_STARTS = 4  # at once
_CONTEXTS = 8  # that a word's equations are tried in
_EXACT = 1e-3  # relative distance to the span of a text that equations gave
_DETOUR = (
    0.1  # of the usual distance, that a token of a text that is found already must make up for
)


def _outstanding(near: Tensor) -> float:
    """Below which of many distances one is no accident, were they normal, with some room.

    The middle and the first quarter give their law: few tokens of a vocabulary are in a text. An
    estimate, no test at a level: distances of tokens are only about normal.
    """
    middle, low = (float(near[int(share * (len(near) - 1))]) for share in (0.5, 0.25))
    return middle - (middle - low) / _QUARTER * (math.sqrt(2 * math.log(len(near) + 1)) + 1)


@dataclass(eq=False)
class TextSearch:
    """Finds the texts behind one gradient.

    Attributes:
      sites: Of the model.
      first: The span at the first site.
      deep: The site and span that decide which tokens belong together; None for tokens by place.
      threshold: Largest relative distance to a span that counts as inside, without noise.
      end: The token that texts end with; None where they end with any.
      generator: Of random starts.
      placed: The equations of an encoder's first block, where it is known.
      told: Called with the share that is done.
      verified: How many texts lie in the spans throughout.
    """

    sites: Sites
    first: Span
    deep: tuple[LayerSite, Span] | None
    threshold: float
    end: int | None
    generator: torch.Generator
    placed: PlacedTexts | None = None
    told: Callable[[float], None] = lambda _: None
    verified: int = field(default=0, init=False)

    def texts(self, allowed: Tensor, batch: int, length: int, rounds: int) -> list[Tensor]:
        """At most ``batch`` texts of at most ``length`` tokens, the surest first.

        Args:
          allowed: Tokens that may occur.
          batch: Texts behind the gradient.
          length: Of the longest one.
          rounds: Of starts, at most.
        """
        places = self._candidates(allowed, length)
        if not any(map(len, places)):
            return []
        if self.first.noisy or self.deep is None:
            return self._by_place(places, batch)
        if self.sites.causal:
            return self._decoded(places, batch)
        return self._encoded(places, batch, rounds)

    def _by_place(self, places: list[Tensor], batch: int) -> list[Tensor]:
        """The nearest tokens of each place: what is left where no deeper span tells more.

        A place where none lies near enough has UNKNOWN. Where inputs do not depend on the place
        (rotary embeddings), the tokens are known and their order is not: each stands once.
        """
        blank = places[0].new_full((), UNKNOWN)
        if len(places) > 1 and all(torch.equal(places[0], one) for one in places[1:]):
            spread = [*places[0], *[blank] * (batch * len(places))]
            rows = [spread[at * len(places) : (at + 1) * len(places)] for at in range(batch)]
        else:
            rows = [[one[at] if at < len(one) else blank for one in places] for at in range(batch)]
        found = [torch.stack(row) for row in rows]
        return [row for row in found if bool((row != UNKNOWN).any())]

    def _candidates(self, allowed: Tensor, length: int) -> list[Tensor]:
        """Tokens for each place whose first input lies in the span, the nearest first.

        Behind noise: those that stand out, by more than the nearest of as many that have nothing
        to do with the text would. A place may then have none.
        """
        site, out = self.sites.sites[0], []
        known: tuple[Tensor, Tensor] | None = None
        # What stands out does so among all tokens, not among those that may occur.
        looked = torch.arange(self.sites.vocabulary) if self.first.noisy else allowed
        looked = looked.to(allowed.device)
        for place in range(length):
            at = torch.full((1,), place, device=allowed.device)
            probe = self.sites.inputs(site, allowed[:1, None], at)
            if known is None or not torch.equal(known[0], probe):
                parts = [
                    self.first.distance(self.sites.inputs(site, part[:, None], at)[:, 0])
                    for part in torch.split(looked, _AT_ONCE)
                ]
                known = probe, torch.cat(parts)
            near, order = known[1].sort()
            edge = _outstanding(near) if self.first.noisy else self.threshold
            kept = looked[order[near <= edge]]
            if not len(kept) and not self.first.noisy:
                break
            out.append(kept[torch.isin(kept, allowed)] if self.first.noisy else kept)
            self.told(0.2 * place / length)
        return out

    def _decoded(self, places: list[Tensor], batch: int) -> list[Tensor]:
        """Prefixes, extended token by token; those that cannot be are whole."""
        assert self.deep is not None
        prefixes = torch.zeros((1, 0), dtype=torch.long, device=places[0].device)
        whole: list[Tensor] = []
        for place, tokens in enumerate(places):
            far = self._local(prefixes, place, tokens)
            near = (far <= self.threshold).nonzero()
            ended = set(range(len(prefixes))) - set(near[:, 0].tolist())
            whole += [prefixes[one] for one in ended if place]
            if not len(near):
                prefixes = prefixes[:0]
                break
            best = far[near[:, 0], near[:, 1]].argsort()[: 4 * batch]
            near = near[best]
            prefixes = torch.cat([prefixes[near[:, 0]], tokens[near[:, 1], None]], 1)
            self.told(0.2 + 0.8 * place / len(places))
        whole += list(prefixes)
        # Without places in its inputs, a token repeated is the token alone to a model: texts with
        # more independent inputs explain more of the gradient.
        whole.sort(key=self._independent, reverse=True)
        self.verified = min(len(whole), batch)
        return whole[:batch]

    def _independent(self, text: Tensor) -> tuple[int, int]:
        assert self.deep is not None
        inputs = self.sites.inputs(self.deep[0], text[None])[0].double()
        even = inputs / inputs.norm(dim=1, keepdim=True)
        return int(torch.linalg.matrix_rank(even, rtol=1e-3)), len(text)

    def _encoded(self, places: list[Tensor], batch: int, rounds: int) -> list[Tensor]:
        assert self.deep is not None
        total, span = self.deep[1].rank, self.deep[1]
        found: list[Tensor] = []
        others: list[tuple[float, Tensor]] = []
        if self.placed is not None:
            tries = min(rounds, _CONTEXTS)
            found, near = self.placed.texts(batch, self._exact, tries, self.told)
            others = [(self._far(text), text) for text in near]
            narrow = zip(places, self.placed.candidates(), strict=False)
            places = [tokens[torch.isin(tokens, few)] for tokens, few in narrow]
        if len(found) == batch or not all(map(len, places)):
            rounds = 0
        likely = self._ends(places) if rounds else torch.ones(1)
        for number in range(rounds):
            left = total - sum(map(len, found))
            length = self._length(likely, batch - len(found), left, number)
            starts = self._swept(places[:length], found)
            far = span.distance(self.sites.inputs(self.deep[0], starts)).amax(1)
            for start, value in sorted(zip(starts, far.tolist(), strict=True), key=lambda x: x[1]):
                known = any(torch.equal(start, one) for one in (*found, *(o for _, o in others)))
                if not known and value <= self.threshold and len(found) < batch:
                    found.append(start)
                elif not known:
                    others.append((value, start))
            self.told(0.2 + 0.8 * max(number / rounds, len(found) / batch))
            if len(found) == batch:
                break
        self.verified = len(found)
        others.sort(key=lambda one: one[0])
        return [*found, *(start for _, start in others)][:batch]

    def _far(self, text: Tensor) -> float:
        assert self.deep is not None
        return float(self.deep[1].distance(self.sites.inputs(self.deep[0], text[None])).max())

    def _exact(self, text: Tensor) -> bool:
        return self._far(text) <= min(self.threshold, _EXACT)

    def _ends(self, places: list[Tensor]) -> Tensor:
        """Weights of lengths: how near a text's last token is, after random ones, to the span."""
        most = len(places)
        if self.end is None:
            return torch.ones(most + 1)
        weights = torch.zeros(most + 1)
        for length in range(2, most + 1):
            if self.end in places[length - 1].tolist():
                context = self._drawn(places[:length], _STARTS)
                end = torch.tensor([self.end], device=context.device)
                far = self._local(context, length - 1, end).mean()
                weights[length] = float(torch.exp(-20 * far))
        return weights if float(weights.sum()) else torch.ones(most + 1)

    def _length(self, likely: Tensor, texts: int, left: int, number: int) -> int:
        """Of the next text: the rank says how many tokens are left in all."""
        most = len(likely) - 1
        if texts == 1 and 0 < left <= most:
            return left
        if left == texts * most or number == 0:
            return most
        return max(1, int(torch.multinomial(likely, 1, generator=self.generator)))

    def _drawn(self, places: list[Tensor], count: int) -> Tensor:
        columns = []
        for tokens in places:
            at = torch.randint(len(tokens), (count,), generator=self.generator)
            columns.append(tokens[at.to(tokens.device)])
        return torch.stack(columns, 1)

    def _swept(self, places: list[Tensor], found: list[Tensor]) -> Tensor:
        """Random texts, each place given its nearest token until none changes."""
        fresh = []
        for place, tokens in enumerate(places):
            taken = torch.tensor([int(one[place]) for one in found if place < len(one)])
            new = tokens[~torch.isin(tokens, taken.to(tokens))]
            fresh.append(new if len(new) else tokens)
        texts = self._drawn(fresh, _STARTS)
        usual = [
            self._local(self._drawn(places, 2 * _STARTS), place, tokens).mean(0)
            for place, tokens in enumerate(places)
        ]
        for sweep in range(_SWEEPS):
            before = texts.clone()
            for place in torch.randperm(len(places), generator=self.generator).tolist():
                tokens = places[place]
                if len(tokens) == 1:
                    texts[:, place] = tokens[0]
                    continue
                # In units of what is usual of the token: some depend little on the others.
                far = self._local(texts, place, tokens) / usual[place]
                if sweep == 0:
                    far = far + _DETOUR * (~torch.isin(tokens, fresh[place]))
                texts[:, place] = tokens[far.argmin(1)]
            if torch.equal(before, texts):
                break
        return texts

    def _local(self, texts: Tensor, place: int, tokens: Tensor) -> Tensor:
        """(texts, tokens): distance of each token's deeper input at a place, the others held.

        All tokens go through the model beside the text, each attending to it and to itself.
        """
        assert self.deep is not None
        site, span = self.deep
        count, length = texts.shape
        device = tokens.device
        room = max(1, _AT_ONCE // max(count, 1) - length)
        out = []
        for part in torch.split(tokens, room):
            size = length + len(part)
            here = torch.arange(length, device=device)
            mask = torch.zeros((size, size), dtype=torch.bool, device=device)
            mask[:length, :length] = here[:, None] >= here if self.sites.causal else True
            mask[length:, :length] = here < place if self.sites.causal else here != place
            mask |= torch.eye(size, dtype=torch.bool, device=device)
            ids = torch.cat([texts, part.expand(count, -1)], 1)
            at = torch.cat([here, torch.full((len(part),), place, device=device)])
            out.append(span.distance(self.sites.inputs(site, ids, at, mask)[:, length:]))
        return torch.cat(out, 1)
