"""A comparison on two nodes, one of which dies on the way: the rows of the local run."""

import os
import time

import pytest

from recondite.studies.runner import compare
from recondite.studies.study import read_study

STUDY = """\
name: nodes
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [0.5, 1.0]
training: {epochs: 2, batch_size: 64}
attacks:
  - name: membership-threshold
    records: 100
seeds: 2
"""


@pytest.fixture
def nodes():
    pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    other = cluster.add_node(**options)
    cluster.wait_for_nodes()
    ray.init(
        address=cluster.address,
        log_to_driver=False,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}},
    )
    yield cluster, other
    ray.shutdown()
    cluster.shutdown()


def test_a_node_dies_and_the_rows_are_those_of_the_local_run(nodes, comparable, tmp_path):
    import ray

    cluster, other = nodes
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    study, _ = read_study(path)
    local = compare(study, tmp_path / "local", workers=1)
    assert ray.cluster_resources()["CPU"] == 2
    alive = [other]

    def kill(row):
        if alive:
            cluster.remove_node(alive.pop(), allow_graceful=False)

    found = compare(study, tmp_path / "ray", engine="ray", workers=2, on_row=kill)
    assert not alive
    assert found.failed == 0
    assert comparable(found.rows) == comparable(local.rows)
    # The head node learns of the death by missed heartbeats: half a minute later.
    end = time.monotonic() + 120
    while (living := sum(node["Alive"] for node in ray.nodes())) > 1 and time.monotonic() < end:
        time.sleep(0.5)
    assert living == 1
