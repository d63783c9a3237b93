"""A right training is consistent; every planted mistake is found, and named."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import planted_steps as planted
import pytest

from recondite.accounting import FixedSize, Poisson, RandomAllocation, epsilon
from recondite.checking import PrivacyClaim, Trainer, check
from recondite.checking.check import CHECKS
from recondite.checking.trainer import as_arrays
from recondite.mechanisms import Directional, Gaussian

# The noise of these trainings follows the seed of the check: the answers are always the same.
OPTIONS = {"seed": 3, "runs": 200}


def findings(result, verdict):
    return {f.check: f.evidence for f in result.findings if f.verdict == verdict}


def test_a_right_training_is_consistent():
    result = check(planted.make_trainer, planted.claim(), **OPTIONS)
    assert result.verdict == "consistent"
    assert {f.check for f in result.findings} == {
        "fresh-noise", "what-leaves", "batch-size", "noise", "game", "sampling",
    }  # fmt: skip
    noise = next(f for f in result.findings if f.check == "noise")
    assert noise.allowed == pytest.approx(16 / planted.SIGMA, rel=1e-3)
    assert noise.measured == pytest.approx(16 / planted.SIGMA, rel=0.1)
    assert json.loads(json.dumps(result.to_dict()))["verdict"] == "consistent"
    assert result.evidence == tuple(f.evidence for f in result.findings)


@pytest.mark.parametrize(
    ("mistake", "where", "words"),
    [
        ({"noise": 0.0}, "fresh-noise", "no noise"),
        ({"mean_clipped": True}, "noise", "a record moves the sum by 2. C"),
        ({"noise_divisor": 32}, "noise", r"noise is 0\.5"),
        ({"realised": "all"}, "batch-size", "batch size leaves"),
        ({"realised": "sum"}, "noise", "a record moves the sum by 1[56] C"),
        ({"unclipped_bias": True}, "noise", r"moves the sum by 2\.\d C"),
        ({"seeded": True}, "fresh-noise", "the same noise .* seed"),
        ({"batches": planted.shuffled}, "sampling", "cut from a shuffled order"),
        ({"noise": 0.7}, "noise", r"noise is 0\.[67]\d of what the claim needs"),
        ({"sensitivity": 1.5}, "noise", r"moves the sum by 1\.5 C"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_planted_mistakes_are_found(mistake, where, words):
    import re

    result = check(partial(planted.make_trainer, **mistake), planted.claim(), **OPTIONS)
    assert result.verdict == "violates"
    lines = [f.evidence for f in result.findings if f.verdict == "violates" and f.check == where]
    assert any(re.search(words, line) for line in lines), lines


def test_sampling_told_at_too_small_a_rate_is_found():
    schedule = Poisson(planted.BATCH / planted.RECORDS / 2, planted.STEPS)
    cost = epsilon(Gaussian(planted.SIGMA), schedule, 1e-5)
    claim = planted.claim(schedule=schedule, epsilon=cost)
    result = check(planted.make_trainer, claim, **OPTIONS)
    assert set(findings(result, "violates")) == {"sampling"}
    assert "where 0.125 is told" in findings(result, "violates")["sampling"]


def test_other_right_trainings_are_not_contradicted():
    claim = planted.claim()
    for seed in range(5):
        result = check(planted.make_trainer, claim, seed=seed, runs=50, skip=["sampling"])
        assert findings(result, "violates") == {}


def test_what_cannot_be_told_is_said():
    without = partial(planted.make_trainer, batches=None)
    result = check(without, planted.claim(), skip=CHECKS[:-1], **OPTIONS)
    assert result.verdict == "cannot tell"
    assert "no batches" in result.evidence[0]
    nothing = check(without, planted.claim(), skip=CHECKS, **OPTIONS)
    assert nothing.verdict == "cannot tell"  # not "consistent": nothing was looked at
    left = check(without, planted.claim(), skip=["sampling"], **OPTIONS)
    assert left.verdict == "consistent"
    assert findings(left, "skipped") == {"sampling": "not checked, as asked"}
    weak = PrivacyClaim(0.05, 1e-5, planted.SCHEDULE)
    strong = partial(planted.make_trainer, noise=100.0)
    few = check(strong, weak, seed=3, runs=50)
    assert few.verdict == "cannot tell"
    assert "more runs" in few.evidence[0]


def test_a_claim_about_replaced_records_is_checked_by_replacing_them():
    schedule = FixedSize(planted.BATCH, planted.RECORDS, planted.STEPS)

    def drawn():
        rows = np.random.random((4, planted.RECORDS)).argsort(1)  # noqa: NPY002
        return rows[:, : planted.BATCH].tolist()

    claim = planted.claim(schedule=schedule, epsilon=epsilon(Gaussian(1.0), schedule, 1e-5))
    # Division by the batch is no secret where its size is one.
    right = check(partial(planted.make_trainer, batches=drawn), claim, **OPTIONS)
    assert right.verdict == "consistent"
    assert "batch-size" not in {f.check for f in right.findings}
    cut = partial(planted.make_trainer, batches=planted.shuffled)
    assert (
        "cut from a shuffled"
        in findings(check(cut, claim, skip=CHECKS[:-1], **OPTIONS), "violates")["sampling"]
    )


def test_what_leaves_beside_gradients_must_not_depend_on_a_record():
    def make(extra):
        right = planted.make_trainer()

        def step(batch):
            return {**right.step(batch), **extra(batch)}

        return Trainer(right.records, step, right.batches)

    def answer(extra):
        return check(partial(make, extra), planted.claim(), **OPTIONS)

    counted = answer(lambda batch: {"steps": 1.0})
    assert counted.verdict == "consistent"
    assert "steps has no noise and never changes" in counted.findings[1].evidence
    sizes = answer(lambda batch: {"batch size": float(len(batch))})
    assert "batch size leaves without noise" in findings(sizes, "violates")["what-leaves"]
    losses = answer(lambda batch: {"loss": float(sum(abs(r[0]).sum() for r in batch))})
    assert "loss leaves without noise" in findings(losses, "violates")["what-leaves"]


def test_global_generators_are_given_back():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    check(planted.make_trainer, planted.claim(), runs=50, skip=["sampling"])
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 10}, "runs must be 50 or more"),
        ({"confidence": 1.0}, "confidence"),
        ({"skip": ["salt"]}, "skip must be one of fresh-noise"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        check(planted.make_trainer, planted.claim(), **options)


def test_bad_trainers_are_refused_in_one_line():
    def steps(step):
        return lambda: Trainer(planted.DATA, step)

    def fails(batch):
        raise KeyError("weights")

    for make, message in (
        (lambda: [], "must return a recondite.checking.Trainer, not list"),
        (steps(fails), "step failed on a batch of 2 records: KeyError"),
        (steps(lambda batch: np.array([np.nan])), "NaN"),
        (steps(lambda batch: "update"), "arrays of numbers"),
        (steps(lambda batch: {}), "gave nothing"),
        (steps(lambda batch: np.zeros(1 + len(batch))), "same shapes"),
        (lambda: Trainer(planted.DATA[:1], fails), "two records or more"),
        (lambda: Trainer(planted.DATA, fails, unit=-1.0), "unit must be above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            check(make, planted.claim(), runs=50)
    with pytest.raises(ValueError, match="one for sums"):
        planted.claim(mechanism=Directional(1.0))


def test_updates_come_in_many_shapes():
    several = as_arrays([np.ones((2, 2)), np.zeros(3)])
    assert {name: a.size for name, a in several.items()} == {"part 0": 4, "part 1": 3}
    assert as_arrays([1.0, 2.0])["update"].tolist() == [1.0, 2.0]
    assert as_arrays(np.ones((2, 3)))["update"].size == 6


def test_claims_say_what_they_are():
    text = str(planted.claim(epsilon=2.0))
    assert text.startswith("ε = 2 at δ = 1e-05, Gaussian noise, poisson batches (rate 0.25")
    allocation = planted.claim(schedule=RandomAllocation(4, 10))
    assert allocation.rate == pytest.approx(0.25)
    assert not allocation.replaced
