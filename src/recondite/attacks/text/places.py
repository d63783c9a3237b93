"""Which token stands where, and with which others: an encoder's batch, text by text, by equations.

1. Place. Before a normalisation, the gradient of an embeddings' sum is at right angles to that sum.
   A word that occurs once has the gradient of its one place: there, and only there, it is so.
2. Context. The MLP's gradients give the span of its inputs and, with more room, of what they become
   by the bend between its layers. Newton's method finds a point of the first whose image lies in
   the second, starting from the word in any context: what the word is in *its* context, exactly.
3. Text. That context is a mean of the values of the text's tokens, in each head with weights that
   are known but for which tokens there are: one at most in a place, so the answer is the
   non-negative solution of linear equations, with a text's tokens at 1 and all others at 0.

A word a text suffices for the whole text, words that occur anywhere included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from recondite.attacks.text.blocks import EncoderBlock
from recondite.attacks.text.sites import Sites
from recondite.attacks.text.spans import Span, span_of

__all__ = ["PlacedTexts"]

_RIGHT = 3e-7  # cosine that float32 leaves of a right angle
_APART = 10.0  # times less right than at the best place, at all others
_SOLVED = 1e-4  # relative distance of an image to its span
_STEPS = 14
_HOPELESS = 0.05  # relative distance after three steps
_MOST = 50_000  # tokens by places: more are left to the sweeps


@dataclass(eq=False)
class PlacedTexts:
    """What gradients of an encoder without noise give away of the texts of a batch.

    Attributes:
      sites: Of the model.
      block: The first one.
      spans: Of what the first block attended to, of its MLP's inputs, and of those of its second
        layer.
      tokens: (n,): that occur.
      sums: (places, n, width): of embeddings, before they are normalised.
      embedded: (places, n, width): afterwards.
      place: (n,): of the tokens that stand in one place alone; -1 of all others.
      generator: Of random contexts.
    """

    sites: Sites
    block: EncoderBlock
    spans: tuple[Tensor, Tensor, Tensor]
    tokens: Tensor
    sums: Tensor
    embedded: Tensor
    place: Tensor
    generator: torch.Generator
    _images: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._images = self.block.up.weight.detach().double() @ self.spans[1].mT

    @classmethod
    def of(
        cls,
        sites: Sites,
        gradients: Mapping[str, Tensor],
        tokens: Tensor,
        length: int,
        generator: torch.Generator,
    ) -> PlacedTexts | None:
        """None where a model is no such encoder, or its gradients leave no direction out.

        Args:
          sites: Of the model.
          gradients: By parameter name, without noise.
          tokens: (n,) that may occur.
          length: Of the longest text.
          generator: Of random contexts.
        """
        block, words = EncoderBlock.of(sites), gradients.get(sites.table)
        if block is None or words is None or not len(tokens):
            return None
        bases = [_basis(span_of(site.seen(gradients, {}))) for site in sites.sites[1:4]]
        if any(basis is None for basis in bases):
            return None
        # No text is longer than all together.
        length = min(length, *(len(basis) for basis in bases if basis is not None))
        if len(tokens) * length > _MOST:
            return None
        made = [block.sums(sites, tokens, place) for place in range(length)]
        sums, embedded = (torch.stack(parts) for parts in zip(*made, strict=True))
        there: tuple[Tensor, ...] = tuple(basis for basis in bases if basis is not None)
        return cls(
            sites,
            block,
            (there[0], there[1], there[2]),
            tokens,
            sums,
            embedded,
            _places(sums, words[tokens].double()),
            generator,
        )

    def candidates(self) -> list[Tensor]:
        """For each place, the tokens that may stand there."""
        free = self.place < 0
        return [self.tokens[free | (self.place == at)] for at in range(len(self.sums))]

    def texts(
        self,
        batch: int,
        right: Callable[[Tensor], bool],
        rounds: int,
        told: Callable[[float], None] = lambda _: None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Texts that are right, and others that came out but are not.

        Args:
          batch: Texts behind the gradient.
          right: Tells whether a text is.
          rounds: Contexts that are tried of a word, at most.
          told: Called with the share that is done.
        """
        found: list[Tensor] = []
        others: list[Tensor] = []
        anchors = [(int(self.place[at]), at) for at in (self.place >= 0).nonzero()[:, 0].tolist()]
        for number in range(rounds):
            for done, (place, at) in enumerate(anchors):
                if len(found) == batch:
                    return found, others
                token = self.tokens[at]
                if any(place < len(one) and one[place] == token for one in found):
                    continue
                for text in self._around(place, at):
                    known = any(torch.equal(text, one) for one in (*found, *others))
                    if not known:
                        (found if right(text) else others).append(text)
                told(max(len(found) / batch, (number + done / len(anchors)) / rounds))
        return found, others

    def _around(self, place: int, at: int) -> Iterator[Tensor]:
        """The text around a token, where its context is found."""
        point = self._solved(self._start(place, at))
        if point is None:
            return
        context, off = self.block.attended(point, self.embedded[place, at], self.spans[0])
        if off <= _SOLVED:
            yield self._text(place, at, context)

    def _start(self, place: int, at: int) -> Tensor:
        """The token in a context of tokens at their places, where these are known."""
        drawn = torch.randint(len(self.tokens), (len(self.sums),), generator=self.generator)
        context = self.tokens[drawn.to(self.tokens.device)].clone()
        known = (self.place >= 0).nonzero()[:, 0]
        known = known[torch.randperm(len(known), generator=self.generator).to(known.device)]
        context[self.place[known]] = self.tokens[known]
        context[place] = self.tokens[at]
        return self.sites.inputs(self.sites.sites[2], context[None])[0, place].double()

    def _solved(self, start: Tensor) -> Tensor | None:
        """A point of the inputs' span whose image lies in the images' span: Gauss and Newton."""
        basis, images = self.spans[1], self.spans[2]

        def looked(place: Tensor) -> tuple[Tensor, Tensor, float]:
            image, slope = self.block.bent(place @ basis)
            rest = image - (image @ images.mT) @ images
            return rest, slope, float(rest.norm() / image.norm())

        at = start @ basis.mT
        rest, slope, far = looked(at)
        for number in range(_STEPS):
            if far < _SOLVED / 30 or (number > 2 and far > _HOPELESS):
                break
            tangent = slope[:, None] * self._images
            inside = images @ tangent
            square = tangent.mT @ tangent - inside.mT @ inside
            square.diagonal().add_(1e-10 * square.diagonal().mean())
            step = torch.linalg.solve(square, -(tangent.mT @ rest))
            size, before = 1.0, far
            while size > 0.1:
                tried = looked(at + size * step)
                if tried[2] < far * (1 - 0.1 * size):
                    at = at + size * step
                    rest, slope, far = tried
                    break
                size /= 2
            if far == before:
                break
        return at @ basis if far <= _SOLVED else None

    def _text(self, place: int, at: int, context: Tensor) -> Tensor:
        """The text whose tokens' values have this mean, by non-negative least squares."""
        length, device = len(self.sums), self.tokens.device
        free = self.place < 0
        where = torch.arange(length, device=device)[:, None]
        open_ = free | (self.place == where)
        open_[place] = False
        open_[place, at] = True
        places, tokens = open_.nonzero(as_tuple=True)
        _, keys, values = self.block.projected(self.embedded[places, tokens])
        query = self.block.projected(self.embedded[place, at][None])[0][0]
        scores = torch.einsum("hd,nhd->nh", query, keys)
        weights = (scores - scores.amax(0)).exp()
        # In each head Σ weight · (value - mean) = 0 over the tokens that are there.
        pulls = weights[..., None] * (values - context.view(self.block.heads, -1))
        pulls = pulls / pulls.norm(dim=(0, 2), keepdim=True).clamp(min=1e-30)
        equations = pulls.flatten(1).mT
        equations = 0.3 * equations / equations.norm(dim=0).median().clamp(min=1e-30)
        # A token in each place, until the text ends: an unknown for each end after this token.
        one = torch.zeros((length, len(places)), dtype=torch.float64, device=device)
        one[places, torch.arange(len(places), device=device)] = 1
        ends = (where >= torch.arange(place + 1, length, device=device)).double()
        whole = torch.cat(
            [
                torch.cat([equations, equations.new_zeros((len(equations), ends.shape[1]))], 1),
                torch.cat([one, ends], 1),
            ]
        )
        goal = torch.cat([equations.new_zeros(len(equations)), one.new_ones(length)])
        there = torch.from_numpy(_non_negative(whole.cpu().numpy(), goal.cpu().numpy()))
        weight = torch.zeros((length, len(self.tokens)), dtype=torch.float64)
        weight[places.cpu(), tokens.cpu()] = there[: len(places)]
        ended = ends.cpu() @ there[len(places) :] > 0.5
        size = int(ended.nonzero()[0]) if bool(ended.any()) else length
        return self.tokens[weight.argmax(1)[:size].to(device)]


def _basis(span: Span | None) -> Tensor | None:
    if span is None or span.noisy or len(span.parts) != 1 or span.parts[0][0] is not None:
        return None
    return span.parts[0][1]


def _places(sums: Tensor, gradients: Tensor) -> Tensor:
    """(n,): where each token's gradient is at right angles to its sum, if in one place alone."""
    centred = sums - sums.mean(-1, keepdim=True)
    inner = torch.einsum("pnw,nw->np", centred, gradients).abs()
    size = centred.norm(dim=-1).mT * gradients.norm(dim=1)[:, None]
    angles = inner / size.clamp(min=1e-300)
    if angles.shape[1] == 1:
        return torch.zeros(len(angles), dtype=torch.long, device=sums.device)
    near, order = angles.sort(dim=1)
    sure = (near[:, 0] < _RIGHT) & (near[:, 1] > _APART * near[:, 0])
    return torch.where(sure, order[:, 0], -1)


def _non_negative(equations: np.ndarray, goal: np.ndarray) -> np.ndarray:
    try:
        found: np.ndarray = nnls(equations, goal, maxiter=20 * equations.shape[1])[0]
    except RuntimeError:  # it did not come to an end: nothing is told
        return np.zeros(equations.shape[1])
    return found
