"""The identification game: whoever sees a training picks the record out of n candidates.

The attacker of the reconstruction bound's proof, played for real. It knows every other record and
the batches they were in, the mechanism and all weights; it sees every release r_t. With S_t the
bounded sum of the others and g_t(z) candidate z's bounded gradient at the weights of step t,

    ℓ_t(z) = ln f(r_t | S_t + g_t(z)) - ln f(r_t | S_t),    f the mechanism's density,

and the score of a candidate follows from how the record took part. Where that is secret:

    Poisson:            Σ_t ln(1 - q + q·e^{ℓ_t(z)})
    random allocation:  Σ_epochs ln((1/T)·Σ_t e^{ℓ_t(z)})
    participation known, or no secret: Σ of ℓ_t(z) over the steps it took part in.

Choosing the largest score is Bayes-optimal for candidates drawn alike, given a fixed divisor,
independent participation, and weights that are a function of the releases. No attacker can succeed
more often than the bound of :func:`recondite.leakage.rero` at 1/n; this one comes near it where
gradients do not shrink. Everything is computed in units of one record's bound. Batches of one size,
and noise on each record, hide nothing from one who knows the others' batches.

Many games are played at once. Every target is a record of the training set; for its own game all
other targets belong to the others, whom the attacker knows. A pool of records that took no part,
drawn alike, gives the other candidates of every game.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from recondite.accounting.schedules import Schedule
from recondite.attacks.transcript import Transcript
from recondite.gradients.clipping import Bound, Scale
from recondite.gradients.collector import Collector, Products
from recondite.gradients.handover import Turn, bound_rows
from recondite.gradients.losses import usual_loss
from recondite.mechanisms import Mechanism, Neighbouring, Units

__all__ = ["IdentificationGame", "Turn", "hidden_by", "overlap", "refuse_overlap"]

Array = npt.NDArray[np.float64]
_CELLS = 1 << 26  # numbers of releases and sums that are looked at together
_Seen = tuple[Array, npt.NDArray[np.int64], Array]  # the shared row, who took part, their own rows


class IdentificationGame:
    """Plays one game a target, over all steps of a run.

    Attributes:
      targets: Places of the targets in the training set.
      taken_part: How often each target took part so far.
      estimated: Whether a stand-in takes the place of the density, so that another attacker may do
        better.
    """

    def __init__(
        self,
        model: nn.Module,
        mechanism: Mechanism,
        units: Units,
        bound: Bound,
        *,
        targets: Sequence[int],
        target_records: tuple[Tensor, Tensor],
        pool: tuple[Tensor, Tensor],
        schedule: Schedule,
        loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        """Prepares the games.

        Args:
          model: The model that is trained; its weights are read at every turn.
          mechanism: Configured for the run.
          units: Of the run.
          bound: How a record's gradient is bounded.
          targets: Places of the targets in the training set.
          target_records: Inputs and labels of the targets, in that order.
          pool: Inputs and labels of records that took no part, drawn as the targets were.
          schedule: How batches are drawn.
          loss_fn: Averaged over the records it is given; that of their labels by default.
        """
        self.estimated = mechanism.stage == "record"
        unknown = mechanism.stand_in(1) if self.estimated else mechanism.likelihood_blocks()
        if unknown is None:
            raise ValueError(
                f"{mechanism.name} has no density that is known in closed form for a batch: play "
                "one release of one record instead, or noise one block"
            )
        for name, (inputs, labels) in (("target_records", target_records), ("pool", pool)):
            if len(inputs) != len(labels):
                raise ValueError(f"{name} must have one label a record")
        if target_records[0].shape[1:] != pool[0].shape[1:]:
            raise ValueError("pool must hold candidates of the same shape as the targets")
        if len(target_records[0]) != len(targets):
            raise ValueError("target_records must hold one record for each of targets")
        refuse_overlap(target_records[0], pool[0])
        self.targets = list(targets)
        self.taken_part = np.zeros(len(self.targets), dtype=np.int64)
        self._mechanism, self._units = mechanism, units
        self._bound: Bound = Scale(1.0) if self.estimated else bound
        self._hidden = hidden_by(schedule, mechanism)
        self._watched = model
        self._model = copy.deepcopy(model).train()
        self._collector = Collector(self._model)
        self._loss_fn = loss_fn or usual_loss
        self._inputs = torch.cat([target_records[0], pool[0]])
        self._labels = torch.cat([target_records[1], pool[1]])
        games, others = len(self.targets), len(pool[0])
        # A game's column 0 is its target, the rest the pool. Without the target in the batch all
        # games see the same others, and share one row over all targets and the pool.
        self._known: Array = np.zeros((games, 1 + others))
        self._shared: Array = np.zeros(games + others)
        self._own: Array = np.zeros((games, 1 + others))
        self._group: list[_Seen] = []

    @property
    def secret(self) -> Array:
        """Scores of an attacker who is not told when the target took part (games, candidates)."""
        if self._hidden is None:
            return self._known
        shared, own = self._of_group(self._group)
        return self._spread(self._shared + shared) + self._own + own

    @property
    def known(self) -> Array:
        """Scores of an attacker who is told."""
        return self._known

    def replay(
        self, transcript: Transcript, told: Callable[[float], None] = lambda _: None
    ) -> None:
        """Takes a whole run into account.

        Args:
          transcript: Of the run.
          told: How much of it is done.
        """
        for place, step in enumerate(transcript.steps):
            transcript.load(self._model, step)
            self._see(step.turn)
            told((place + 1) / len(transcript.steps))

    def watch(self, turn: Turn) -> None:
        """Takes one release into account; call it before the weights change."""
        with torch.no_grad():
            for own, theirs in zip(
                self._model.parameters(), self._watched.parameters(), strict=True
            ):
                own.copy_(theirs)
        self._see(turn)

    def watch_all(self, turns: Sequence[Turn]) -> None:
        """Takes releases at the same weights into account: one pass over all candidates."""
        with torch.no_grad():
            for own, theirs in zip(
                self._model.parameters(), self._watched.parameters(), strict=True
            ):
                own.copy_(theirs)
        step = max(1, _CELLS // (2 * self._collector.dim))
        for start in range(0, len(turns), step):
            some = turns[start : start + step]
            here = [self._here(turn) for turn in some]
            everybody = np.unique(np.concatenate(here))
            laws = [self._law(turn) for turn in some]
            vectors = torch.cat([vectors for _, vectors in laws])
            sizes = laws[0][0].likelihood_blocks()
            assert sizes is not None
            products = self._products(vectors, torch.as_tensor(everybody), sizes)
            for place, (mine, law) in enumerate(zip(here, laws, strict=True)):
                of = torch.as_tensor(np.searchsorted(everybody, mine))
                part = [
                    Products(
                        block.inner[:, 2 * place : 2 * place + 2],
                        block.squared,
                        block.cross[of.to(block.cross.device)],
                    )
                    for block in products
                ]
                self._take(mine, self._ratio(*law, mine, part))

    def _here(self, turn: Turn) -> npt.NDArray[np.int64]:
        """Which targets took part."""
        here = np.isin(self.targets, np.asarray(turn.records))
        return np.flatnonzero(here).astype(np.int64)

    def _see(self, turn: Turn) -> None:
        here = self._here(turn)
        if self._hidden is None and not len(here):
            return  # nobody's score changes
        self._take(here, self._log_ratio(turn, here))

    def _take(self, here: npt.NDArray[np.int64], found: tuple[Array, Array]) -> None:
        """Takes ℓ_t of one release into account."""
        self.taken_part[here] += 1
        if self._hidden is None and not len(here):
            return
        shared, own = found
        self._known[here] += own
        if self._hidden is None:
            return
        self._group.append((shared, here, own))
        if len(self._group) == self._hidden[0]:
            shared, theirs = self._of_group(self._group)
            self._shared += shared
            self._own += theirs
            self._group = []

    def _spread(self, shared: Array) -> Array:
        """The shared row as each game's own."""
        games = len(self.targets)
        pool = np.broadcast_to(shared[games:], (games, len(shared) - games))
        return np.concatenate([shared[:games, None], pool], 1)

    def _of_group(self, group: list[_Seen]) -> tuple[Array, Array]:
        """ln(1 - m·q + q·Σ e^{ℓ}) over m steps, at most one of them with the target.

        For everybody, as if no target had been there, and what is added to each game for that it
        was.
        """
        assert self._hidden is not None
        change = np.zeros_like(self._own)
        if not group:
            return np.zeros_like(self._shared), change
        rows = np.stack([shared for shared, _, _ in group])
        together = self._mixed(rows)
        games = len(self.targets)
        there: dict[int, dict[int, Array]] = {}
        for step, (_, here, own) in enumerate(group):
            for game, row in zip(here.tolist(), own, strict=True):
                there.setdefault(game, {})[step] = row
        without: dict[tuple[int, ...], Array] = {}
        for game, mine in there.items():
            steps = tuple(mine)
            if steps not in without:
                without[steps] = np.logaddexp.reduce(np.delete(rows, steps, 0), 0, initial=-np.inf)
            rest = np.append(without[steps][game], without[steps][games:])
            with_it = self._mixed(np.stack([rest, *mine.values()]), len(group))
            change[game] = with_it - np.append(together[game], together[games:])
        return together, change

    def _mixed(self, rows: Array, steps: int | None = None) -> Array:
        assert self._hidden is not None
        rate = self._hidden[1]
        absent = max(0.0, 1.0 - rate * (steps or len(rows)))
        total = np.log(rate) + np.logaddexp.reduce(rows, 0)
        out: Array = total if absent < 1e-12 else np.logaddexp(np.log(absent), total)
        return out

    def _log_ratio(self, turn: Turn, here: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """ℓ_t: of everybody where no target took part; and of the games of those who did."""
        mechanism, vectors = self._law(turn)
        sizes = mechanism.likelihood_blocks()
        assert sizes is not None
        products = self._products(vectors, torch.as_tensor(here), sizes)
        return self._ratio(mechanism, vectors, here, products)

    def _law(self, turn: Turn) -> tuple[Mechanism, Tensor]:
        """The density to use, and the release and the others' sum as it takes them."""
        mechanism, release = self._mechanism, turn.release.detach()
        if self.estimated:
            found = mechanism.stand_in(len(turn.records))
            assert found is not None
            mechanism, release = found[0], release * found[1]
        return mechanism, torch.stack([release, turn.total.detach()])

    def _ratio(
        self,
        mechanism: Mechanism,
        vectors: Tensor,
        here: npt.NDArray[np.int64],
        products: Sequence[Products],
    ) -> tuple[Array, Array]:
        sizes = mechanism.likelihood_blocks()
        assert sizes is not None
        wide = vectors.double()
        r, s = (torch.split(part, list(sizes)) for part in wide)
        own, total = (torch.stack([a @ b for a, b in zip(x, y, strict=True)]).cpu()
                      for x, y in ((r, r), (s, s)))  # fmt: skip
        across = torch.stack([a @ b for a, b in zip(r, s, strict=True)]).cpu()
        with_r, with_s = (
            torch.stack([block.inner[:, column] for block in products], -1).double().cpu()
            for column in (0, 1)
        )
        squares = torch.stack([block.squared for block in products], -1).double().cpu()
        cross = torch.stack([block.cross for block in products], -1).double().cpu()

        def density(inner: Tensor, squared: Tensor) -> Tensor:
            out: Tensor = mechanism.log_likelihood_of_products(inner, squared.clamp(min=0.0), own)
            return out

        shared = density(across + with_r, total + 2 * with_s + squares) - density(across, total)
        # The others' sum is the total less the target's own gradient, where it took part.
        mine = torch.as_tensor(here)
        rest_r = across - with_r[mine]
        rest_s = total - 2 * with_s[mine] + squares[mine]
        pool = torch.arange(len(self.targets), len(squares)).expand(len(here), -1)
        columns = torch.cat([mine[:, None], pool], 1)
        left = torch.gather(with_s - cross, 1, columns[..., None].expand(-1, -1, len(sizes)))
        taken = density(
            rest_r[:, None] + with_r[columns], rest_s[:, None] + 2 * left + squares[columns]
        ) - density(rest_r[:, None], rest_s[:, None])
        return shared.numpy(), taken.numpy()

    def _products(self, vectors: Tensor, some: Tensor, sizes: Sequence[int]) -> list[Products]:
        """Inner products of all candidates' bounded gradients, for each block of the likelihood."""
        rows = len(self._inputs)
        with torch.enable_grad():
            loss = self._loss_fn(self._model(self._inputs), self._labels)
            torch.autograd.backward(loss)
        with torch.no_grad():
            some = some.to(vectors.device)
            if len(sizes) == 1:
                return [self._collector.products(self._bound, rows, vectors, some, mean=True)]
            made = bound_rows(
                self._collector.per_sample(rows, mean=True), self._collector, self._bound
            )
            blocks = torch.split(self._units.of(made, reuse=True), list(sizes), 1)
            return [
                Products(block @ vector.mT, block.square().sum(1), block[some] @ block.mT)
                for block, vector in zip(blocks, torch.split(vectors, list(sizes), 1), strict=True)
            ]


def hidden_by(schedule: Schedule, mechanism: Mechanism) -> tuple[int, float] | None:
    """What hides when a record took part, from one who knows everybody else's batches.

    The record is in at most one of so many steps in a row, in each with this probability: one step
    of Poisson batches, an epoch of random allocation. None where nothing hides it: batches of one
    size (the others' tell whether it is among them), and a known number of records.
    """
    if schedule.neighbouring(mechanism) is Neighbouring.REPLACE:
        return None
    times, chance = schedule.participations()
    group = schedule.steps // times
    return group, chance / group


def refuse_overlap(targets: Tensor, pool: Tensor) -> None:
    """Raises ``ValueError`` where a record of the pool is one of the targets.

    A candidate that is the target itself, twice, could not be told from it.
    """
    if overlap(targets, pool).any():
        raise ValueError("pool holds a target's own record: draw the candidates from others")


def overlap(targets: Tensor, pool: Tensor) -> npt.NDArray[np.bool_]:
    """Which targets have an identical copy in the pool."""
    held = {row.tobytes() for row in pool.detach().cpu().numpy()}
    return np.array([row.tobytes() in held for row in targets.detach().cpu().numpy()], bool)
