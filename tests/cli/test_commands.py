"""The commands in-process: tables, JSON, and one line for every mistake."""

import json

import numpy as np
import pytest

import recondite as rc
from recondite._version import __version__
from recondite.cli.main import run

RUN = ["--rate", "128/60000", "--steps", "1407", "--delta", "1/60000"]
VMF = ["vmf", "--kappa", "75", "--dim", "13700"]


@pytest.fixture
def ask(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def ask_json(ask):
    def call(*arguments):
        code, out, err = ask(*arguments, "--json")
        assert code == 0, err
        assert err == ""
        return json.loads(out)

    return call


def test_account_prints_a_table_with_every_notion(ask):
    code, out, err = ask("account", *VMF, *RUN)
    assert code == 0
    assert err == ""
    for words in (
        "ε, tight",
        "0.7907",
        "log Bayes' capacity",
        "74.8 ",
        "mutual information",
        "0.2053",
        "reconstruction (ReRo)",
        "metric privacy",
        "one release",
        "add-or-remove-one",
    ):
        assert words in out


def test_account_json_equals_the_library(ask_json):
    expected = rc.account(
        rc.VonMisesFisher(75.0, 13_700), rc.Poisson(128 / 60_000, 1_407), 1 / 60_000
    )
    assert ask_json("account", *VMF, *RUN) == expected.to_dict()


def test_account_of_the_other_mechanisms(ask_json):
    gaussian = ask_json(
        "account",
        "gaussian",
        "--noise-multiplier",
        1.23,
        "--dim",
        13700,
        "--batch-size",
        128,
        "--max-batch-size",
        160,
        *RUN,
    )
    assert gaussian["epsilon"]["pld"] == pytest.approx(0.2625, abs=1e-3)
    assert gaussian["log_bayes_capacity"]["per_release"] == pytest.approx(11745.767, abs=1e-2)
    directional = ask_json(
        "account",
        "directional",
        "--kappa",
        10,
        "--dim",
        62006,
        "--blocks",
        5,
        "--sampling",
        "shuffled",
        "--epochs",
        30,
        "--batch-size",
        512,
        "--records",
        50000,
        "--delta",
        "1e-5",
    )
    assert directional["epsilon"]["pure"] == 3000.0
    assert directional["neighbouring"] == "replace-one"
    assert directional["schedule"]["steps"] == 2940
    layered = ask_json(
        "account",
        "gaussian",
        "--noise-multiplier",
        1,
        "--layers",
        "60,40",
        "--layer-norms",
        "1,2",
        "--sampling",
        "fixed-size",
        "--batch-size",
        10,
        "--records",
        100,
        "--steps",
        5,
        "--delta",
        1e-5,
    )
    assert layered["parameters"]["layer_norms"] == [1.0, 2.0]
    assert layered["schedule"]["sampling"] == "fixed-size"
    blocks = ask_json(
        "account", "partitioned", "--kappa", "3,4", "--dim", 100, "--blocks", "60,40", *RUN
    )
    assert blocks["metric_privacy"]["per_record"] == 14.0
    assert ask_json("account", "none", *RUN)["epsilon"]["pld"] == "inf"


def test_account_options(ask_json):
    one = ask_json("account", *VMF, *RUN)
    group = ask_json("account", *VMF, *RUN, "--group-size", 4, "--prior-success", "1/100")
    assert group["epsilon"]["pld"] > one["epsilon"]["pld"]
    assert group["rero"]["prior"] == 0.01


@pytest.mark.parametrize(
    ("flag", "target", "key"),
    [
        ("--epsilon", 8, None),
        ("--rero", 0.5, None),
        ("--bayes-capacity", 50, "release"),
        ("--mutual-information", 100, "run"),
    ],
)
def test_calibrate(ask_json, flag, target, key):
    extra = ["--per", key] if key else []
    found = ask_json("calibrate", "vmf", "--dim", 13700, flag, target, *RUN, *extra)
    assert {"parameter", "value", "achieved"} <= set(found)
    assert found["parameter"] == "kappa"
    assert target * (1 - 1e-3) <= found["achieved"] <= target
    assert found["scope"] == key


def test_calibrate_and_match_print_for_people(ask):
    code, out, _ = ask("calibrate", "vmf", "--dim", 13700, "--epsilon", 8, *RUN)
    assert code == 0
    assert "kappa = 135.0" in out
    code, out, _ = ask(
        "match",
        "gaussian",
        "--noise-multiplier",
        1.23,
        "--to",
        "vmf",
        "--by",
        "epsilon",
        "--dim",
        13700,
        *RUN,
    )
    assert code == 0
    assert "vmf with kappa = 47.5" in out


def test_match_needs_no_schedule_for_capacity(ask_json):
    found = ask_json(
        "match",
        "gaussian",
        "--noise-multiplier",
        1.23,
        "--max-batch-size",
        160,
        "--to",
        "vmf",
        "--by",
        "bayes-capacity",
        "--dim",
        13700,
    )
    assert found["achieved"] == pytest.approx(11745.767, rel=1e-4)
    assert found["source"]["parameters"]["noise_multiplier"] == 1.23


def test_leakage_of_one_channel(ask_json, ask, tmp_path):
    (tmp_path / "c.csv").write_text("0.9,0.1\n0.2,0.8\n")
    (tmp_path / "p.csv").write_text("0.75,0.25\n")
    (tmp_path / "g.csv").write_text("1,0\n0,4\n")
    plain = ask_json("leakage", tmp_path / "c.csv")
    assert plain["bayes_capacity"] == pytest.approx(1.7)
    assert plain["posterior_vulnerability"] == pytest.approx(0.85)
    gained = ask_json(
        "leakage", tmp_path / "c.csv", "--prior", tmp_path / "p.csv", "--gain", tmp_path / "g.csv"
    )
    assert gained["prior_vulnerability"] == pytest.approx(1.0)
    assert gained["posterior_vulnerability"] == pytest.approx(0.675 + 0.8)
    code, out, _ = ask("leakage", tmp_path / "c.csv")
    assert code == 0
    assert "bayes capacity" in out


def test_leakage_compares_two(ask_json, ask, tmp_path):
    (tmp_path / "a.csv").write_text("1,0\n0,1\n")
    (tmp_path / "b.csv").write_text("0.6,0.4\n0.4,0.6\n")
    verdict = ask_json("leakage", tmp_path / "a.csv", tmp_path / "b.csv")
    assert verdict["safer"] == verdict["safer_for_all"] == "b"
    code, out, _ = ask("leakage", tmp_path / "a.csv", tmp_path / "b.csv")
    assert code == 0
    assert "safer against every attacker (refinement): b.csv" in out


def test_channel(ask_json, ask, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", rng.standard_normal((200, 4, 3)) * np.array([1.0, 2.0, 5.0]))
    np.save(tmp_path / "beta.npy", np.linspace(1, 3, 12))
    for kind in ("natural", "white", "minimum-power", "personalized"):
        extra = ["--beta", tmp_path / "beta.npy"] if kind == "personalized" else []
        found = ask_json(
            "channel", kind, "--capacity", 6, "--data", tmp_path / "data.npy", "--uses", 10, *extra
        )
        assert 6 * (1 - 1e-9) <= found["capacity_nats"] <= 6
        assert found["information"]["once"] == pytest.approx(6)
        assert 6 < found["information"]["per_step"] < 60
    code, out, _ = ask(
        "channel",
        "natural",
        "--capacity",
        6,
        "--data",
        tmp_path / "data.npy",
        "--diameter",
        5,
        "--delta",
        1e-5,
    )
    assert code == 0
    assert "error floor" in out
    assert "ε, one noisy record" in out
    assert "limit: " in out


def test_epochs_are_of_poisson_batches_unless_said_otherwise(ask_json):
    """Batch size, records and epochs say all that a Poisson account needs."""
    run = ("--records", 60_000, "--batch-size", 128, "--epochs", 3, "--delta", "1/60000")
    vmf = ("account", "vmf", "--kappa", 75, "--dim", 13_700)
    poisson = ask_json(*vmf, *run)
    assert poisson["schedule"] == {"sampling": "poisson", "rate": 128 / 60_000, "steps": 1407}
    allocated = ask_json(*vmf, *run, "--sampling", "allocation")
    assert allocated["schedule"]["batches"] == 469
    assert 0.74 < allocated["epsilon"]["pld"] < poisson["epsilon"]["pld"] < 0.795


BAD = [
    (["account", "vmf", "--kappa", "-1", "--dim", "10", *RUN], "kappa"),
    (["account", "vmf", "--kappa", "nan", "--dim", "10", *RUN], "kappa"),
    (["account", "vmf", "--kappa", "1", "--dim", "1", *RUN], "dim"),
    (["account", "vmf", "--kappa", "1", *RUN], "dim"),
    (["account", "vmf", "--dim", "10", *RUN], "--kappa"),
    (["account", "vmf", "--kappa", "x", "--dim", "10", *RUN], "--kappa"),
    (["account", "vmf", "--kappa", "1/0", "--dim", "10", *RUN], "--kappa"),
    (["account", *VMF, "--rate", "0", "--steps", "5", "--delta", "0.1"], "rate"),
    (["account", *VMF, "--rate", "1.5", "--steps", "5", "--delta", "0.1"], "rate"),
    (["account", *VMF, "--rate", "0.5", "--steps", "2.5", "--delta", "0.1"], "steps"),
    (["account", *VMF, "--rate", "0.5", "--delta", "0.1"], "--steps"),
    (["account", *VMF, "--rate", "0.5", "--steps", "5"], "--delta"),
    (["account", *VMF, "--rate", "0.5", "--steps", "5", "--delta", "0"], "delta"),
    (["account", *VMF, "--rate", "0.5", "--steps", "5", "--delta", "1"], "delta"),
    (["account", *VMF, *RUN, "--group-size", "0"], "group_size"),
    (["account", *VMF, *RUN, "--prior-success", "2"], "prior_success"),
    (["account", *VMF, *RUN, "--epochs", "3"], "--epochs"),
    (["account", *VMF, *RUN, "--sampling", "magic"], "--sampling"),
    (["account", *VMF, "--sampling", "allocation", "--epochs", "3", "--delta", "0.1"], "--records"),
    (["account", *VMF, *RUN, "--sampling", "allocation"], "--epochs"),
    (["account", *VMF, *RUN, "--neighbouring", "replace-one"], "--neighbouring"),
    (["account", *VMF, *RUN, "--noise-multiplier", "1"], "--noise-multiplier"),
    (["account", *VMF, "--delta", "0.1"], "--rate"),
    (["account", "nonsense", *RUN], "mechanism"),
    (
        [
            "account",
            "directional",
            "--kappa",
            "1",
            "--dim",
            "10",
            *RUN,
            "--neighbouring",
            "add-or-remove-one",
        ],
        "reveals how many records",
    ),
    (["account", "gaussian", "--noise-multiplier", "0", *RUN], "noise_multiplier"),
    (["account", "gaussian", "--noise-multiplier", "1", "--layers", "1,2.5", *RUN], "--layers"),
    (["account", "partitioned", "--kappa", "1", "--dim", "10", "--blocks", "9", *RUN], "blocks"),
    (["account", "vmf", "--kapa", "1"], "--kapa"),
    (["calibrate", "vmf", "--dim", "10", *RUN], "--epsilon"),
    (["calibrate", "vmf", "--dim", "10", "--epsilon", "1", "--rero", "0.5", *RUN], "exactly one"),
    (["calibrate", "vmf", "--dim", "10", "--epsilon", "-1", *RUN], "epsilon"),
    (["calibrate", "none", "--epsilon", "1", *RUN], "no noise"),
    (
        [
            "match",
            "gaussian",
            "--noise-multiplier",
            "1",
            "--to",
            "vmf",
            "--by",
            "magic",
            "--dim",
            "10",
            *RUN,
        ],
        "notion",
    ),
    (["leakage", "no-such-file.csv"], "no-such-file.csv"),
    (["channel", "natural", "--capacity", "1", "--data", "no-such-file.npy"], "--data"),
    (["channel", "odd", "--capacity", "1", "--data", "x.npy"], "channel"),
    (["channel", "personalized", "--capacity", "1", "--data", "x.npy"], "--beta"),
    (["nonsense"], "nonsense"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(ask, arguments, words):
    code, out, err = ask(*arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_bad_files_are_one_line(ask, tmp_path):
    (tmp_path / "row.csv").write_text("0.9,0.2\n0.2,0.8\n")
    (tmp_path / "junk.npy").write_text("not an array")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.ones((5, 3)))
    for arguments, words in (
        (["leakage", tmp_path / "row.csv"], "row 1"),
        (["channel", "natural", "--capacity", 1, "--data", tmp_path / "junk.npy"], "--data"),
        (["channel", "natural", "--capacity", 1, "--data", tmp_path / "objects.npy"], "--data"),
        (["channel", "natural", "--capacity", 1, "--data", tmp_path / "flat.npy"], ""),
        (["channel", "natural", "--capacity", -1, "--data", tmp_path / "flat.npy"], "capacity"),
    ):
        code, out, err = ask(*arguments)
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
        assert words in err
        assert "unsafe" not in err.lower(), "no advice to unpickle"
        assert "allow_pickle" not in err


def test_version_help_and_interruption(ask, monkeypatch):
    assert ask("--version") == (0, f"recondite {__version__}\n", "")
    code, out, _ = ask("account", "--help")
    assert code == 0
    assert "--group-size" in out

    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("recondite.notions.account", interrupt)
    code, _, err = ask("account", *VMF, *RUN)
    assert code == 130
    assert "interrupted" in err


def test_unexpected_errors_exit_1_and_debug_shows_them(ask, monkeypatch):
    def fail(*_args, **_kwargs):
        raise RuntimeError("boom")

    monkeypatch.setattr("recondite.notions.account", fail)
    code, _, err = ask("account", *VMF, *RUN)
    assert code == 1
    assert err.count("\n") == 1
    code, _, err = ask("--debug", "account", *VMF, *RUN)
    assert code == 1
    assert "Traceback" in err


def test_choosing_has_a_price(ask, ask_json):
    run = ("--records", 60_000, "--batch-size", 128, "--epochs", 3, "--delta", "1/60000")
    command = ("account", "gaussian", "--noise-multiplier", 1.23, *run, "--selected-from", 13)
    prices = ask_json(*command)["selection"]
    assert 0.26 < prices["one"] < prices["secret"] < prices["every"] < 1.1
    assert "best of 13" in ask(*command)[1]
    assert "does not pay" not in ask(*command)[1]


def test_a_secret_number_of_runs_that_does_not_pay_says_so(ask, ask_json):
    run = ("--records", 4000, "--batch-size", 128, "--epochs", 1, "--delta", "1/4000")
    command = ("account", "gaussian", "--noise-multiplier", 1.23, "--dim", 13700, *run)
    asked = (*command, "--sampling", "allocation", "--selected-from", 2)
    prices, told = ask_json(*asked)["selection"], " ".join(ask(*asked)[1].split())
    assert (prices["secret"] >= prices["every"]) == ("does not pay" in told)
    assert prices["secret"] > prices["every"]
    assert "Poisson batch may be" not in told
    assert "batches have random sizes" in told


def test_shuffled_batches_say_what_others_would_cost(ask, ask_json):
    run = ("--records", 60_000, "--batch-size", 128, "--epochs", 3, "--delta", "1/60000")
    command = ("account", "gaussian", "--noise-multiplier", 1.23, *run, "--sampling", "shuffled")
    found = ask_json(*command)
    assert found["epsilon"]["pld"] > 15
    assert found["instead"]["allocation"] < found["instead"]["poisson"] < 0.27
    assert "allocation batches instead" in ask(*command)[1]
