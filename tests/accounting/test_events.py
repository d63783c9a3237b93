"""VMF events inside dp-accounting's own accountants."""

import dp_accounting as dp
import pytest

import recondite as rc
from recondite import accounting
from recondite.accounting import Composition, compose, events
from recondite.accounting.composition import rdp_epsilon
from recondite.accounting.pld import pld_epsilon
from recondite.laws import GaussianLoss, ProductLoss, SphereLoss

STEP = dp.PoissonSampledDpEvent(128 / 60_000, events.VonMisesFisherDpEvent(75.0, 13_700))
RUN = rc.Poisson(128 / 60_000, 1_407)
VMF = rc.VonMisesFisher(75, 13_700)
DELTA = 1 / 60_000


def renyi(run, delta):
    return rdp_epsilon(run, delta)[0]


def test_pld_accountant_agrees_with_ours():
    accountant = events.PLDAccountant().compose(STEP, 1_407)
    ours = rc.epsilon(VMF, RUN, DELTA)
    assert accountant.get_epsilon(DELTA) == pytest.approx(ours, rel=1e-3)
    assert accountant.get_delta(ours) == pytest.approx(DELTA, rel=0.02)


def test_rdp_accountant_agrees_with_ours():
    accountant = events.RdpAccountant().compose(dp.SelfComposedDpEvent(STEP, 1_407))
    ours, _ = accounting.renyi_epsilon(VMF, RUN, DELTA)
    assert ours <= accountant.get_epsilon(DELTA) <= ours * 1.01


@pytest.mark.parametrize(
    ("kind", "epsilon"), [(events.PLDAccountant, pld_epsilon), (events.RdpAccountant, renyi)]
)
def test_events_compose_with_googles_own(kind, epsilon):
    gaussian = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    both = kind().compose(dp.ComposedDpEvent([STEP, gaussian]), 200)
    ours, _ = compose([(VMF, rc.Poisson(RUN.rate, 200)), (rc.Gaussian(1.0), rc.Poisson(0.01, 200))])
    assert both.get_epsilon(1e-5) == pytest.approx(epsilon(ours, 1e-5), rel=1e-3)


def test_a_sampled_composition_is_sampled_as_a_whole():
    inner = dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), events.VonMisesFisherDpEvent(10.0, 100)])
    whole = events.PLDAccountant().compose(dp.PoissonSampledDpEvent(0.01, inner), 100)
    both = ProductLoss(((GaussianLoss(1.0), 1), (SphereLoss(100, 10.0), 1)))
    ours = Composition.of([(both.mixture((0.99, 0.01)), 100)])
    assert whole.get_epsilon(1e-5) == pytest.approx(pld_epsilon(ours, 1e-5), rel=1e-3)
    apart = events.PLDAccountant()
    for event in inner.events:
        apart.compose(dp.PoissonSampledDpEvent(0.01, event), 100)
    assert whole.get_epsilon(1e-5) > apart.get_epsilon(1e-5)
    rdp = events.RdpAccountant().compose(dp.PoissonSampledDpEvent(0.01, inner), 100)
    assert rdp.get_epsilon(1e-5) == pytest.approx(renyi(ours, 1e-5), rel=1e-3)


def test_blocks_cost_more_than_one_flat_vector():
    flat = events.PLDAccountant().compose(events.VonMisesFisherDpEvent(10.0, 1_000), 5)
    cut = events.PLDAccountant().compose(events.VonMisesFisherDpEvent(10.0, 1_000, 4), 5)
    assert flat.get_epsilon(1e-5) < cut.get_epsilon(1e-5)
    ours = rc.PartitionedVonMisesFisher(10.0, dim=1_000, blocks=4)
    exact = rc.epsilon(ours, rc.Poisson(1.0, 5), 1e-5)
    assert cut.get_epsilon(1e-5) == pytest.approx(exact, rel=1e-3)


def test_fixed_size_sampling_needs_replace_one():
    event = dp.SampledWithoutReplacementDpEvent(100, 10, events.VonMisesFisherDpEvent(1.0, 10))
    relation = dp.NeighboringRelation.REPLACE_ONE
    accountant = events.PLDAccountant(relation).compose(event, 10)
    ours = rc.epsilon(rc.VonMisesFisher(1.0, 10), rc.FixedSize(10, 100, 10), 1e-5)
    assert accountant.get_epsilon(1e-5) == pytest.approx(ours, rel=2e-3)
    with pytest.raises(dp.UnsupportedEventError, match="REPLACE_ONE"):
        events.PLDAccountant().compose(event)
    with pytest.raises(dp.UnsupportedEventError, match="ADD_OR_REMOVE_ONE"):
        events.RdpAccountant(neighboring_relation=relation).compose(STEP)


def test_unsupported_inner_events_are_refused_not_guessed():
    laplace = dp.ComposedDpEvent([dp.LaplaceDpEvent(1.0), events.VonMisesFisherDpEvent(1.0, 10)])
    assert not events.PLDAccountant().supports(dp.PoissonSampledDpEvent(0.1, laplace))
    assert events.PLDAccountant().supports(laplace)


def test_calibration_through_dp_accounting():
    kappa = dp.calibrate_dp_mechanism(
        events.PLDAccountant,
        lambda inverse: dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(0.01, events.VonMisesFisherDpEvent(1 / inverse, 1_000)), 100
        ),
        target_epsilon=2.0,
        target_delta=1e-5,
        bracket_interval=dp.ExplicitBracketInterval(1e-2, 1.0),
        tol=1e-4,
    )
    ours = rc.calibrate(
        rc.VonMisesFisher(1.0, 1_000), 2.0, "epsilon", rc.Poisson(0.01, 100), delta=1e-5
    )
    assert 1 / kappa == pytest.approx(ours.value, rel=0.02)
