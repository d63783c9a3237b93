"""Schedules: which law a person is exposed to, under which relation."""

import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import recondite as rc
from recondite.accounting import compose
from recondite.mechanisms import Neighbouring

VMF = rc.VonMisesFisher(10.0, 500)
GAUSSIAN = rc.Gaussian(noise_multiplier=2.0, dim=500)
DIRECTIONAL = rc.Directional(2.0, 500)


def test_each_schedule_states_its_relation():
    poisson, shuffled = rc.Poisson(0.1, 10), rc.Shuffled(2, 10, 100)
    fixed = rc.FixedSize(10, 100, 20)
    assert poisson.neighbouring(VMF) is Neighbouring.ADD_OR_REMOVE
    assert poisson.neighbouring(DIRECTIONAL) is Neighbouring.REPLACE
    for schedule in (shuffled, fixed):
        for mechanism in (VMF, GAUSSIAN, DIRECTIONAL):
            assert schedule.neighbouring(mechanism) is Neighbouring.REPLACE


def test_shuffled_epochs_compose_epochs_and_count_steps():
    run = rc.Shuffled(epochs=30, batch_size=512, records=50_000)
    assert run.steps == 30 * 98
    assert run.composition(VMF).releases == 30
    assert rc.epsilon(VMF, run, 1e-5) == rc.epsilon(VMF, rc.Poisson(1.0, 30), 1e-5)


def test_replacing_a_record_doubles_gaussian_sensitivity():
    run = rc.Shuffled(epochs=5, batch_size=10, records=100)
    halved = rc.Gaussian(noise_multiplier=1.0)
    assert rc.epsilon(GAUSSIAN, run, 1e-5) == rc.epsilon(halved, rc.Poisson(1.0, 5), 1e-5)


def test_directional_noise_costs_two_kappa_a_block_and_epoch():
    run = rc.Shuffled(epochs=30, batch_size=512, records=50_000)
    for blocks in (1, 5):
        mechanism = rc.Directional(10, 62_006, blocks=blocks)
        assert run.composition(mechanism).supremum == pytest.approx(2 * 10 * blocks * 30)


def test_directional_noise_with_fixed_batches_is_amplified():
    kappa, run = 1.5, rc.FixedSize(batch_size=50, records=1_000, steps=1)
    mechanism = rc.Directional(kappa, 500)
    pure = math.log1p(50 / 1_000 * math.expm1(2 * kappa))
    assert run.composition(mechanism).supremum == pytest.approx(pure)
    assert rc.epsilon(mechanism, run, 1e-9) <= pure


def test_directional_noise_with_poisson_batches_is_not_amplified():
    mechanism = rc.Directional(1.5, 500)
    run = rc.Poisson(rate=0.05, steps=1)
    assert run.composition(mechanism).supremum == pytest.approx(3.0)
    fixed = rc.FixedSize(batch_size=50, records=1_000, steps=1)
    assert rc.epsilon(mechanism, run, 1e-6) > rc.epsilon(mechanism, fixed, 1e-6)


def test_directional_noise_has_no_epsilon_under_add_or_remove():
    with pytest.raises(ValueError, match="reveals how many records"):
        DIRECTIONAL.loss(Neighbouring.ADD_OR_REMOVE)


@given(
    batch=st.integers(1, 100),
    steps=st.integers(1, 200),
    mechanism=st.sampled_from([VMF, GAUSSIAN, DIRECTIONAL, rc.Directional(1.0, 500, blocks=3)]),
)
@hypothesis_settings(max_examples=25)
def test_fixed_batches_cost_no_more_than_all_records_and_grow_with_the_batch(
    batch, steps, mechanism
):
    value = rc.epsilon(mechanism, rc.FixedSize(batch, 100, steps), 1e-5)
    more = rc.epsilon(mechanism, rc.FixedSize(min(100, batch + 10), 100, steps), 1e-5)
    whole = rc.epsilon(mechanism, rc.FixedSize(100, 100, steps), 1e-5)
    assert value <= more * 1.003 + 1e-6
    assert value <= whole * 1.003 + 1e-6
    shuffled = rc.Shuffled(epochs=steps, batch_size=100, records=100)
    assert whole == pytest.approx(rc.epsilon(mechanism, shuffled, 1e-5), rel=1e-9)


@given(group=st.integers(2, 12), rate=st.floats(0.001, 0.3))
@hypothesis_settings(max_examples=15)
def test_groups_cost_more_and_no_more_than_their_size_times(group, rate):
    run = rc.Poisson(rate, 20)
    for mechanism in (VMF, GAUSSIAN):
        one = rc.epsilon(mechanism, run, 1e-5)
        many = rc.epsilon(mechanism, run, 1e-5, group_size=group)
        assert many >= one * (1 - 1e-3)
        # Group privacy of the tight curve: ε_k(δ_k) <= k·ε with δ_k = δ·(e^{kε}-1)/(e^ε-1).
        loose = 1e-5 * sum(math.exp(i * one) for i in range(group))
        if loose < 0.5:
            reached = rc.epsilon(mechanism, run, loose, group_size=group)
            assert reached <= group * one * 1.01 + 1e-4


def test_groups_of_directions_only_change_the_chance_of_taking_part():
    rate, group = 0.01, 5
    joint = 1 - (1 - rate) ** group
    assert rc.epsilon(VMF, rc.Poisson(rate, 50), 1e-5, group_size=group) == pytest.approx(
        rc.epsilon(VMF, rc.Poisson(joint, 50), 1e-5), rel=1e-6
    )
    assert rc.epsilon(VMF, rc.Poisson(1.0, 5), 1e-5, group_size=9) == rc.epsilon(
        VMF, rc.Poisson(1.0, 5), 1e-5
    )


def test_groups_in_shuffled_epochs_take_the_worst_arrangement():
    run = rc.Shuffled(epochs=3, batch_size=10, records=40)
    assert run.composition(VMF, 3).releases == 9
    assert run.composition(VMF, 100).releases == 12
    assert run.composition(DIRECTIONAL, 3).releases == 9
    gaussian = run.composition(GAUSSIAN, 3)
    assert gaussian.releases == 3
    assert gaussian.parts[0][0].mu == pytest.approx(3 * 2 / 2.0)


def test_groups_in_fixed_batches_are_served_where_a_proof_exists():
    run = rc.FixedSize(batch_size=10, records=100, steps=5)
    inside = 1 - math.comb(97, 10) / math.comb(100, 10)
    part = run.composition(VMF, 3).parts[0][0]
    assert part.rate == pytest.approx(inside)
    for mechanism in (GAUSSIAN, DIRECTIONAL):
        with pytest.raises(ValueError, match="group_size"):
            run.composition(mechanism, 3)


def test_runs_under_different_relations_do_not_compose():
    with pytest.raises(ValueError, match="neighbouring"):
        compose([(VMF, rc.Poisson(0.1, 3)), (VMF, rc.Shuffled(1, 10, 100))])
    total, relation = compose([(VMF, rc.Poisson(0.1, 3)), (GAUSSIAN, rc.Poisson(0.2, 4))])
    assert total.releases == 7
    assert relation is Neighbouring.ADD_OR_REMOVE


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: rc.Poisson(0.0, 3), "rate"),
        (lambda: rc.Poisson(1.1, 3), "rate"),
        (lambda: rc.Poisson(float("nan"), 3), "rate"),
        (lambda: rc.Poisson(0.5, 0), "steps"),
        (lambda: rc.Poisson(0.5, 2.5), "steps"),
        (lambda: rc.Shuffled(0, 1, 1), "epochs"),
        (lambda: rc.Shuffled(1, 10, 5), "batch_size"),
        (lambda: rc.FixedSize(10, 5, 1), "batch_size"),
        (lambda: rc.FixedSize(1, 5, 0), "steps"),
        (lambda: rc.epsilon(VMF, rc.Poisson(0.5, 1), 0.0), "delta"),
        (lambda: rc.epsilon(VMF, rc.Poisson(0.5, 1), 1.0), "delta"),
        (lambda: rc.delta(VMF, rc.Poisson(0.5, 1), -1.0), "epsilon"),
        (lambda: rc.epsilon(VMF, rc.Poisson(0.5, 1), 0.1, group_size=0), "group_size"),
        (lambda: rc.epsilon(rc.VonMisesFisher(1.0), rc.Poisson(0.5, 1), 0.1), "dim"),
    ],
)
def test_bad_input_names_the_argument_in_one_line(make, name):
    with pytest.raises(ValueError, match=name) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mechanism", "schedule"),
    [
        (rc.PartitionedVonMisesFisher(75, dim=150, blocks=10), rc.Poisson(0.032, 32)),
        (
            rc.Directional(40, dim=13_700, blocks=(256,) * 50 + (50,) * 15 + (15,) * 10),
            rc.FixedSize(128, 4_000, 32),
        ),
        (rc.Directional(40, dim=13_700, blocks=30), rc.Poisson(0.032, 32)),
        (rc.VonMisesFisher(1e5, 50), rc.Poisson(0.032, 32)),
        (rc.Gaussian(0.01), rc.FixedSize(128, 4_000, 32)),
    ],
)
def test_weak_noise_has_a_large_epsilon(mechanism, schedule):
    """A few participations in a run that hides nothing must cost what they reveal."""
    run = schedule.composition(mechanism)
    value = rc.epsilon(mechanism, schedule, 1 / 4_000)
    chance = 1 - (1 - 0.032) ** 32
    assert rc.delta(mechanism, schedule, 50.0) >= 0.5 * chance
    assert value >= 500
    assert value <= run.supremum
