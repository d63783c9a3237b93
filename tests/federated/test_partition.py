"""Shares of a data set: whole, disjoint, and as skewed as asked."""

import numpy as np
import pytest

from recondite.federated import dirichlet, iid
from recondite.federated.policy import Policy
from recondite.federated.shares import check_auditable, held_out_set, initial_model, share_of

LABELS = np.repeat(np.arange(10), 40)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 100.0])
def test_every_record_is_in_one_share(alpha, seed):
    for parts in (dirichlet(LABELS, 7, alpha, seed), iid(len(LABELS), 7, seed)):
        assert sorted(np.concatenate(parts).tolist()) == list(range(400))
        assert {len(part) for part in parts} == {57, 58}


def _classes(parts):
    return np.mean([len(np.unique(LABELS[part])) for part in parts])


def test_small_alpha_gives_few_labels_and_the_same_seed_the_same_cut():
    assert _classes(dirichlet(LABELS, 10, 0.05)) < 6
    assert _classes(dirichlet(LABELS, 10, 100.0)) > 9
    first, second = dirichlet(LABELS, 10, 0.3, 4), dirichlet(LABELS, 10, 0.3, 4)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_mistakes():
    with pytest.raises(ValueError, match="clients must be at most 3"):
        iid(3, 4)
    with pytest.raises(ValueError, match="alpha must be above 0"):
        dirichlet(LABELS, 2, 0.0)


def test_rows_of_a_table_are_shared_out(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(18, 90)},{rng.choice(list('abc'))},{n % 2}" for n in range(120)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["age,town,ill", *lines]) + "\n")
    policy = Policy("none", data=f"{path}#ill", model="mlp2", clients=3)
    parts = [share_of(policy, client) for client in range(3)]
    assert {part.kind for part in parts} == {"rows of a table"}
    assert sum(map(len, parts)) + len(held_out_set(policy)) == 120
    assert initial_model(policy)(parts[0].features).shape == (len(parts[0]), 2)
    with pytest.raises(ValueError, match="audit_every=0 in Python.*rows of a table"):
        check_auditable(policy)
