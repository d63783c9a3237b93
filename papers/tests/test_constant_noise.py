"""Constant noise on unclipped gradients: what it adds, and that it promises nothing."""

import math

import pytest
import torch

import recondite as rc
from recondite.gradients.leaked import leaked_gradients
from recondite.mechanisms import Setting, mechanisms
from recondite.models import build
from recondite.studies import runner
from recondite.studies.attackers import applies
from recondite.studies.checks import mistakes_of
from recondite.studies.defences import kinds, plan
from recondite.studies.study import Study
from recondite_papers.constant_noise import ConstantNoise

BASE = {
    "data": "digits", "model": "mlp", "prepare": "none",
    "training": {"records": 200, "steps": 2, "batch_size": 20, "max_grad_norm": 1},
}  # fmt: skip
INFINITE = (
    "epsilon", "epsilon_rdp", "log_bayes_capacity_release", "log_bayes_capacity_run",
    "mutual_information_release", "mutual_information_run",
)  # fmt: skip


@pytest.fixture
def compared(inline, tmp_path):
    """Rows of a study, by defence."""

    def go(**parts):
        study = Study.model_validate({**BASE, **parts})
        assert mistakes_of(study) == []
        rows = runner.compare(study, tmp_path / "run").rows
        assert [row["reason"] for row in rows if row["status"] != "done"] == []
        return rows

    return go


def test_constant_noise_has_its_deviation_at_every_batch_size_and_no_clipping():
    shape = (1, 8, 8)
    net, generator = build("mlp", shape, seed=0), torch.Generator().manual_seed(0)
    for size in (1, 16):
        images = 20 * torch.rand(1, size, *shape, generator=generator)
        labels = torch.zeros(1, size, dtype=torch.long)
        options = {"clipping": "none", "seed": 1}
        noisy = leaked_gradients(net, images, labels, ConstantNoise(0.5), **options)
        clean = leaked_gradients(net, images, labels)
        gaps = torch.cat([(noisy[key] - clean[key]).flatten() for key in clean])
        assert float(gaps.std()) == pytest.approx(0.5, rel=0.05)
    common = {"data": "digits", "model": "mlp", "prepare": None,
              "training": {"clipping": "flat", "max_grad_norm": 1.0}}  # fmt: skip
    defence = {"name": "constant-noise", "value": 0.5, "settings": {}, "training": {}}
    made = plan(common, defence, 0)
    assert (made.clipping, made.mechanism) == ("none", ConstantNoise(0.5))
    # Secret sampling would give it a reconstruction bound, a true one, that says nothing of noise.
    assert made.sampling == "shuffled"


def test_constant_noise_promises_nothing(compared):
    made = ConstantNoise(3.0).configured(Setting(((4, 6),), max_batch_size=8, batch_size=8))
    for schedule in (rc.FixedSize(8, 100, 1), rc.Poisson(0.1, 50)):
        assert rc.epsilon(made, schedule, 1e-5) == math.inf
    assert made.log_bayes_capacity() == made.mutual_information() == math.inf
    with pytest.raises(ValueError, match="not metric-private"):
        made.metric_privacy()
    release, centre = torch.randn(24), torch.zeros(24)
    known = torch.distributions.Normal(0.0, 24.0).log_prob(release).sum()
    assert float(made.log_likelihood(release, centre)) == pytest.approx(float(known), rel=1e-5)
    assert ConstantNoise.name not in mechanisms()
    assert kinds()[ConstantNoise.name].private is False
    assert not applies("canary-audit", ConstantNoise.name, first=True)
    noise = {"name": "constant-noise", "deviation": [0.01, 100]}
    attacks = [{"name": "adaptive", "steps": 5, "images": 2}]
    for row in compared(defences=[noise], attacks=attacks):
        assert all(row["notions"][key] == "inf" for key in INFINITE)
        assert row["notions"]["metric_privacy"] is None
        assert row["notions"]["rero_bound"] == 1.0
        assert row["privacy"]["epsilon"]["pld"] == "inf"
