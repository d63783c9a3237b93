"""What a ledger's lines cost together, and what is said where a figure has no value."""

import math

import pytest

import recondite as rc
from recondite.accounting import compose
from recondite.accounting.pld import pld_epsilon
from recondite.federated import Budget, spent
from recondite.federated.cost import overspent

BARE, BOUNDED = rc.Gaussian(2.0, dim=10), rc.Gaussian(2.0, dim=10, max_batch_size=5)
VMF = rc.VonMisesFisher(5.0, 10)


def line(mechanism, level="record", steps=3):
    plan = {"sampling": "poisson", "batch_size": 5, "records": 20, "steps": steps, "passes": 1}
    return {
        "level": level,
        "mechanism": mechanism.name,
        "parameters": mechanism.parameters(),
        "schedule": plan,
    }


def channel_line(nats):
    return {"level": "channel", "channel": {"per_record": nats}, "schedule": {"steps": 1}}


def test_costs_of_different_noise_add_up():
    cost = spent([line(BOUNDED), line(VMF, steps=2), line(VMF)])
    runs = [(BOUNDED, rc.Poisson(0.25, 3)), (VMF, rc.Poisson(0.25, 5))]
    exact = pld_epsilon(compose(runs)[0], 1e-5)
    assert cost.epsilon == pytest.approx(exact, rel=1e-6)
    told = 3 * BOUNDED.mutual_information() + 5 * VMF.mutual_information()
    volume = 3 * BOUNDED.log_bayes_capacity() + 5 * VMF.log_bayes_capacity()
    assert cost.information == cost.gamma["client"] == pytest.approx(told)
    assert cost.capacity == pytest.approx(volume)
    assert (cost.rounds, cost.steps, cost.reasons) == (3, 8, {})


@pytest.mark.parametrize("lines", [[line(BARE), line(VMF)], [line(VMF), line(BARE)]])
def test_one_part_without_a_value_leaves_the_sum_without_one(lines):
    cost = spent(lines)
    assert (cost.information, cost.capacity, cost.gamma["client"]) == (None, None, "not bounded")
    for notion in ("information", "capacity"):
        assert cost.reasons[notion].startswith("max_batch_size is not set")
        said = overspent(Budget(**{notion: 1e6}), lines)
        assert said.startswith(f"budget of {notion} 1e+06 cannot be kept: max_batch_size is not")
    assert cost.epsilon > spent([line(VMF)]).epsilon


def test_a_budget_is_spent_when_the_sum_exceeds_it():
    cost = spent([line(VMF), line(VMF)])
    for notion in ("epsilon", "information", "capacity"):
        reached = getattr(cost, notion)
        limits = [Budget(**{notion: factor * reached}) for factor in (0.99, 1.01)]
        over, under = (overspent(limit, [line(VMF), line(VMF)]) for limit in limits)
        assert f"budget of {notion}" in over
        assert under is None
    assert overspent(Budget(rounds=1), [line(VMF)] * 2) == "budget of 1 rounds is spent"
    assert overspent(Budget(rounds=2), [line(VMF)] * 2) is None


def test_figures_say_whom_they_protect_and_what_they_are_about():
    nothing = spent([])
    assert (nothing.level, nothing.about) == ("none", "nothing")
    assert (nothing.epsilon, nothing.information, nothing.steps) == (0, 0, 0)
    client = spent([line(VMF, "client")])
    assert (client.level, client.about) == ("client", "the client's update, each round")
    record = spent([line(VMF, "client"), line(VMF)])
    assert (record.level, record.about) == ("record", "the batch's averaged gradient")
    channel = spent([line(VMF), channel_line(2.0), channel_line(4.0), channel_line(3.0)])
    assert (channel.level, channel.about) == ("channel", "the features of one record")
    assert channel.information == pytest.approx(4.0 + 3 * VMF.mutual_information())
    assert (channel.epsilon, channel.capacity) == (None, None)
    assert math.isfinite(client.epsilon)


def test_allocated_passes_count_whole():
    """Two rounds of two steps of four: two passes were begun, unless a round says fewer."""

    def allocated(passes):
        made = line(VMF, steps=2)
        made["schedule"] |= {"sampling": "allocation", "passes": passes}
        return made

    for passes, epochs in (((1, 1), 2), ((1, 0), 1), ((0, 0), 1)):
        runs = [(VMF, rc.RandomAllocation(4, epochs))]
        exact = pld_epsilon(compose(runs)[0], 1e-5)
        cost = spent([allocated(count) for count in passes])
        assert cost.epsilon == pytest.approx(exact, rel=1e-6)
