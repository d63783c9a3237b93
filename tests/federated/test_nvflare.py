"""The filter of NVFlare with the same policy; skipped where NVFlare is not installed."""

import json
import logging

import numpy as np
import pytest

import recondite as rc
from recondite.federated import spent
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.nvflare import Filter, PolicyFilter

there = pytest.mark.skipif(Filter is object, reason="NVFlare is not installed")


def test_without_nvflare_it_says_what_to_install():
    if Filter is not object:
        pytest.skip("NVFlare is installed")
    with pytest.raises(ValueError, match="pip install 'recondite\\[nvflare\\]'"):
        PolicyFilter({"defence": "gaussian"})


def policy(folder, **changes):
    return {
        "defence": "gaussian",
        "strength": 4.0,
        "max-norm": 0.5,
        "ledger": str(folder),
        **changes,
    }


def context(task="t1", job="j1", site="site-1"):
    from nvflare.apis.fl_constant import FLContextKey, ReservedKey
    from nvflare.apis.fl_context import FLContext

    made = FLContext()
    for key, value in (
        (ReservedKey.IDENTITY_NAME, site),
        (FLContextKey.CURRENT_JOB_ID, job),
        (FLContextKey.TASK_ID, task),
    ):
        made.set_prop(key, value, private=True, sticky=False)
    return made


def result(kind="WEIGHT_DIFF", size=20_000, **meta):
    from nvflare.apis.dxo import DXO

    data = {"w": np.full(size, 3.0, np.float32), "steps": np.array(7)}
    return DXO(kind, data, {"loss": 0.3, **meta}).to_shareable()


def sent(shareable):
    from nvflare.apis.dxo import from_shareable

    return from_shareable(shareable)


@there
def test_an_update_leaves_bounded_noised_and_counted(tmp_path):
    told = result()
    told.set_header("patient", "Ada")
    reply = PolicyFilter(policy(tmp_path)).process(told, context())
    found = sent(reply)
    assert found.data_kind == "WEIGHT_DIFF"
    assert found.meta == {"NUM_STEPS_CURRENT_ROUND": 1}
    assert reply.get_header("patient") is None
    assert np.std(found.data["w"]) == pytest.approx(4.0 * 0.5, rel=0.05)
    assert found.data["steps"] == 0, "a counter is no update"
    cost = spent(ReleaseLedger(tmp_path / "site-1").lines())
    assert cost.rounds == 1
    assert cost.epsilon == pytest.approx(rc.epsilon(rc.Gaussian(4.0), rc.Shuffled(1, 1, 1), 1e-5))


@there
def test_the_same_task_gets_the_same_bytes_and_a_budget_is_kept(tmp_path):
    from nvflare.apis.filter import ContentBlockedException

    one = rc.epsilon(rc.Gaussian(4.0), rc.Shuffled(1, 1, 1), 1e-5)
    made = PolicyFilter(policy(tmp_path, **{"budget-epsilon": 1.01 * one}))
    first, again = (sent(made.process(result(), context())) for _ in range(2))
    assert np.array_equal(first.data["w"], again.data["w"])
    with pytest.raises(ContentBlockedException, match="budget of epsilon"):
        made.process(result(), context("t2"))
    assert len(ReleaseLedger(tmp_path / "site-1").lines()) == 1


@there
@pytest.mark.parametrize("kind", ["WEIGHTS", "METRICS", "STATISTICS"])
def test_nothing_else_leaves(tmp_path, kind):
    from nvflare.apis.filter import ContentBlockedException
    from nvflare.apis.shareable import Shareable

    made = PolicyFilter(policy(tmp_path))
    for what in (result(kind), Shareable()):
        with pytest.raises(ContentBlockedException, match="may leave"):
            made.process(what, context())
    assert not (tmp_path / "site-1").exists()


@there
@pytest.mark.parametrize(
    "changes",
    [{"level": "record"}, {"defence": "none"}, {"defence": "natural-channel"}, {"ledger": ""}],
)
def test_policies_that_it_cannot_keep_are_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="policy must noise|no ledger is pinned"):
        PolicyFilter(policy(tmp_path, **changes))


TRAINER = """
import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.executor import Executor


class Trainer(Executor):
    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        sent = from_shareable(shareable).data
        update = {k: np.full_like(np.asarray(v, dtype=np.float64), 5.0) for k, v in sent.items()}
        return DXO(DataKind.WEIGHT_DIFF, update, {"NUM_STEPS_CURRENT_ROUND": 99}).to_shareable()
"""


@there
def test_a_job_in_nvflares_simulator(tmp_path):
    """Two sites, two rounds of scatter and gather: the server averages noised updates."""
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    app = tmp_path / "job" / "app"
    (app / "config").mkdir(parents=True)
    (app / "custom").mkdir()
    (app / "custom" / "local_trainer.py").write_text(TRAINER)
    ledgers = tmp_path / "ledgers"
    folder = tmp_path / "job"
    (folder / "meta.json").write_text(
        json.dumps({"name": "job", "min_clients": 2, "deploy_map": {"app": ["@ALL"]}})
    )
    gather = "nvflare.app_common.workflows.scatter_and_gather.ScatterAndGather"
    (app / "config" / "config_fed_server.json").write_text(
        json.dumps(
            {
                "format_version": 2,
                "components": [
                    {
                        "id": "persistor",
                        "path": "nvflare.app_common.np.np_model_persistor.NPModelPersistor",
                        "args": {},
                    },
                    {
                        "id": "generator",
                        "path": "nvflare.app_common.shareablegenerators."
                        "full_model_shareable_generator.FullModelShareableGenerator",
                        "args": {},
                    },
                    {
                        "id": "aggregator",
                        "path": "nvflare.app_common.aggregators."
                        "intime_accumulate_model_aggregator.InTimeAccumulateWeightedAggregator",
                        "args": {"expected_data_kind": "WEIGHT_DIFF"},
                    },
                ],
                "workflows": [
                    {
                        "id": "gather",
                        "path": gather,
                        "args": {
                            "min_clients": 2,
                            "num_rounds": 2,
                            "wait_time_after_min_received": 0,
                            "aggregator_id": "aggregator",
                            "persistor_id": "persistor",
                            "shareable_generator_id": "generator",
                            "train_task_name": "train",
                            "train_timeout": 0,
                        },
                    }
                ],
            }
        )
    )
    pinned = policy(ledgers)
    path = "recondite.federated.nvflare.PolicyFilter"
    (app / "config" / "config_fed_client.json").write_text(
        json.dumps(
            {
                "format_version": 2,
                "executors": [
                    {"tasks": ["train"], "executor": {"path": "local_trainer.Trainer", "args": {}}}
                ],
                "task_result_filters": [
                    {"tasks": ["train"], "filters": [{"path": path, "args": {"policy": pinned}}]}
                ],
                "task_data_filters": [],
            }
        )
    )
    before = logging.root.level
    runner = SimulatorRunner(str(folder), workspace=str(tmp_path / "work"), n_clients=2, threads=2)
    assert runner.run() == 0
    logging.root.setLevel(before)
    for site in ("site-1", "site-2"):
        assert spent(ReleaseLedger(ledgers / site).lines()).rounds == 2
    weights = np.load(next((tmp_path / "work").rglob("server.npy")))
    start = np.arange(1, 10, dtype=float).reshape(3, 3)
    # The undefended update would be 5 a round in every weight; the bound is 0.5 in all of them.
    assert not np.allclose(weights, start + 10.0)
