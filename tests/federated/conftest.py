"""A federation within one process: Flower's messages, contexts and mods, no engine."""

import logging

import numpy as np
import pytest

flwr = pytest.importorskip("flwr.app")


@pytest.fixture(autouse=True)
def quiet():
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(level)


@pytest.fixture
def said():
    """What is written to Flower's log, once, whether or not it propagates."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    handler, logger = Keep(), logging.getLogger("flwr")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@pytest.fixture
def identity():
    """Flower's engines say in whose name a process makes messages."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1
    return TaskIdentity


@pytest.fixture
def message(identity):
    """A training message with small weights; another round or run on request."""

    def make(arrays=None, *, number=1, run=7, node=5, kind="train"):
        if arrays is None:
            arrays = {"w": np.zeros((4, 3), np.float32), "b": np.ones(4, np.float32)}
        content = flwr.RecordDict(
            {
                "arrays": flwr.ArrayRecord({k: flwr.Array(v) for k, v in arrays.items()}),
                "config": flwr.ConfigRecord({"server-round": number}),
            }
        )
        sent = flwr.Message(content, dst_node_id=node, message_type=kind)
        sent.metadata.__dict__.update(_run_id=run, _message_id=f"{run}-{number}")
        return sent

    return make


@pytest.fixture
def context():
    """A client's context."""

    def make(**node_config):
        return flwr.Context(
            run_id=7,
            node_id=5,
            node_config=node_config,
            state=flwr.RecordDict(),
            run_config={},
        )

    return make


@pytest.fixture
def app():
    """A client app that moves every float array and tells far too much."""

    def make(step=0.5, extra=None):
        calls = []

        def train(sent, given):
            calls.append(sent.metadata.message_id)
            arrays = {
                k: np.asarray(v.numpy() + np.asarray(step).astype(v.numpy().dtype))
                for k, v in sent.content["arrays"].items()
            }
            content = flwr.RecordDict(
                {
                    "arrays": flwr.ArrayRecord({k: flwr.Array(v) for k, v in arrays.items()}),
                    "metrics": flwr.MetricRecord(
                        {"num-examples": 123, "loss": 0.25, "mean-pixel": 0.7}
                    ),
                    "names": flwr.ConfigRecord({"patient": "Ada"}),
                }
            )
            return flwr.Message(content, reply_to=sent)

        train.calls = calls
        return train

    return make
