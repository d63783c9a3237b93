"""Runs to make dossiers of: a study's rows without a training, and the record of one training."""

import json
import sys
from pathlib import Path

import pytest

# The generator is shared with the tests of the report.
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

import recondite as rc


@pytest.fixture
def study(tmp_path):
    """A finished study with games, reconstructions and membership attacks."""
    rows = synthetic.modern_rows()
    synthetic.write(
        tmp_path / "run", rows,
        {"study": {"name": "demo", "data": "mnist-5k", "model": "mlp", "threat": "training"},
         "versions": {"recondite": "0.3"}, "machine": {"cores": 2, "system": "Linux"},
         "finished": "2025-06-01T10:00:00+00:00", "keys": [row["key"] for row in rows]},
    )  # fmt: skip
    return tmp_path / "run"


def _record(*, defended=True, audit=None, simulation=False):
    """The record of a training, with an account that was computed."""
    from recondite.training.record import RunRecord

    mechanism, schedule = rc.Gaussian(1.1, dim=500), rc.Poisson(0.02, 120)
    account = rc.account(mechanism, schedule, delta=1e-4).to_dict() if defended else None
    record = RunRecord(
        kind="training",
        data={"name": "scans", "kind": "images", "records": 5000, "test_records": 500,
              "shape": [1, 8, 8], "classes": 2, "preparation": None},
        model={"name": "mlp", "parameters": 500, "weights": None},
        defence={"name": "gaussian" if defended else "none",
                 "parameters": {"noise_multiplier": 1.1, "dim": 500} if defended else {},
                 "clipping": "flat", "max_grad_norm": 1.0, "sampling": "poisson",
                 "max_batch_size": None, "secure": True},
        training={"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 100, "epochs": 3,
                  "steps": 120, "seconds": 1.0, "device": "cpu"},
        results={"test_accuracy": 0.8, "train_accuracy": 0.81, "test_loss": 0.4, "train_loss": 0.4},
        privacy=account,
        simulation=simulation,
        audit=audit,
    )  # fmt: skip
    return record.to_dict()


@pytest.fixture
def training_record():
    return _record


@pytest.fixture
def record(tmp_path):
    folder = tmp_path / "training"
    folder.mkdir()
    audit = {
        "claim": 3.5, "lower": 1.5, "refuted": False, "dim": 500, "steps": 1,
        "result": {"delta": 0.02, "confidence": 0.999},
    }  # fmt: skip
    (folder / "record.json").write_text(json.dumps(_record(audit=audit)))
    return folder


@pytest.fixture
def keys(tmp_path):
    """A private and a public key, as openssl writes them."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    def write(name):
        private = Ed25519PrivateKey.generate()
        secret, public = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub.pem"
        secret.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public.write_bytes(
            private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        return secret, public

    return write
