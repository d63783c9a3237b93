"""Keys, certificates, the app as a Flower project, and the command line; no process started."""

import datetime
import os
import subprocess
import sys

import pytest

from recondite.cli.main import run
from recondite.federated.flower.certificates import issue, kept
from recondite.federated.flower.project import write_app
from recondite.federated.policy import Policy
from recondite.federated.settings import Settings

pytest.importorskip("cryptography")


def test_certificates_name_the_hosts_and_private_keys_stay_private(tmp_path):
    from cryptography import x509

    found = issue(tmp_path / "keys", 2, hosts=("localhost", "127.0.0.1", "fl.example.org"))
    leaf = x509.load_pem_x509_certificate(found.certificate.read_bytes())
    root = x509.load_pem_x509_certificate(found.authority.read_bytes())
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "fl.example.org"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    for path in (found.key, *found.nodes):
        assert path.stat().st_mode & 0o077 == 0
    assert len({path.with_suffix(".pub").read_bytes() for path in found.nodes}) == 2


@pytest.mark.parametrize("days", [1, 30, 400])
def test_certificates_say_how_long_they_are_valid(tmp_path, days):
    from cryptography import x509

    found = issue(tmp_path, 1, days=days)
    for path in (found.certificate, found.authority):
        one = x509.load_pem_x509_certificate(path.read_bytes())
        assert abs((one.not_valid_after_utc - found.until).total_seconds()) <= 2
    left = found.until - datetime.datetime.now(datetime.timezone.utc)
    assert abs(left - datetime.timedelta(days=days)) < datetime.timedelta(minutes=5)
    assert not list(tmp_path.glob("ca*key*")), "the authority's key is nowhere"
    assert kept(tmp_path, 1) == found
    with pytest.raises(ValueError, match=r"node-1\.key is missing"):
        kept(tmp_path, 2)


def test_the_written_app_is_one_that_flower_accepts(tmp_path):
    from flwr.cli.config_utils import load_and_validate
    from flwr.common.config import flatten_dict

    settings = Settings(defence="vmf", strength=500.0, data_dir='a "quoted" place')
    folder = write_app(tmp_path, settings)
    config, _ = load_and_validate(folder / "pyproject.toml", check_module=False)
    run = flatten_dict(config["tool"]["flwr"]["app"]["config"])
    assert Settings.of_server(run) == settings
    # Nothing in it sets what is a client's own.
    assert Policy("none").under(run) == Policy("none")


def test_settings_are_typed_and_the_later_ones_win():
    mine = {"defence": "vmf", "strength": 5, "local-steps": 3.0, "something-else": 1}
    settings = Settings.of({"defence": "none", "rounds": 7}, mine)
    assert (settings.defence, settings.rounds, settings.local_steps) == ("vmf", 7, 3)
    with pytest.raises(ValueError, match="strength must be above 0: the kappa of vmf"):
        Settings(defence="vmf")
    with pytest.raises(ValueError, match="rounds must be a number"):
        Settings.of({"rounds": "many"})


def test_the_ledger_command(tmp_path, capsys):
    from recondite.federated.ledger import ReleaseLedger

    book = ReleaseLedger(tmp_path)
    line = {
        "key": "k",
        "level": "client",
        "mechanism": "vmf",
        "parameters": {"kappa": 500.0, "dim": 13700},
        "schedule": {
            "sampling": "shuffled",
            "steps": 1,
            "passes": 1,
            "batch_size": 1,
            "records": 1,
        },
    }
    book.write(line)
    book.write(line)
    assert run(["federate", "ledger", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "71.95" in text
    assert text.count("not bounded") == 2
    assert "protects the client" in text
    assert run(["federate", "ledger", str(tmp_path / "none")]) == 2
    assert "holds no ledger" in capsys.readouterr().err


def test_reading_a_ledger_needs_neither_torch_nor_flower(tmp_path):
    code = (
        "import sys; from recondite.federated import spent, ReleaseLedger, Budget;"
        f"spent(ReleaseLedger({str(tmp_path)!r}).lines());"
        "assert not {'torch', 'flwr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_flower_is_quiet_once_we_import_it():
    code = (
        "import flwr.app; from flwr.supercore import telemetry;"
        "from recondite.federated.flower import flower; flower();"
        "assert telemetry.FLWR_TELEMETRY_ENABLED == '0'"
    )
    environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
