"""Digests and signatures of a dossier: whatever is changed, added or taken away is found."""

import base64
import json

import pytest

from recondite import dossier
from recondite.cli.main import run
from recondite.dossier import manifest


@pytest.fixture
def signed(record, tmp_path, keys):
    secret, public = keys("mine")
    folder, fingerprint = dossier.make(record, tmp_path / "dossier", key=secret)
    assert len(fingerprint) == 64
    return folder, public


def test_an_untouched_dossier_verifies(signed, capsys):
    folder, public = signed
    found = dossier.verify(folder, public)
    assert found.problems == ()
    assert found.trusted
    assert found.files == 3
    assert run(["dossier", "verify", str(folder), "--key", str(public)]) == 0
    assert "signed by the key that was given" in capsys.readouterr().out
    assert run(["dossier", "verify", str(folder)]) == 0
    assert "whose key that is, is not known" in capsys.readouterr().out


def _change(folder):
    path = folder / "dossier.json"
    path.write_bytes(path.read_bytes().replace(b'"finished": true', b'"finished": null', 1))


def _grow_manifest(folder):
    path = folder / manifest.MANIFEST
    body = json.loads(path.read_text())
    (folder / "more.txt").write_text("more")
    body["files"]["more.txt"] = {"sha256": manifest.digest(b"more"), "bytes": 4}
    path.write_text(json.dumps(body))


def _link(folder):
    path = folder / "evidence" / "record.json"
    path.rename(folder.parent / "elsewhere.json")
    path.symlink_to(folder.parent / "elsewhere.json")


def _twice(folder):
    path = folder / manifest.MANIFEST
    path.write_text(path.read_text().replace('"schema"', '"files": {}, "schema"', 1))


def _corrupt_signature(folder):
    (folder / manifest.SIGNATURE).write_bytes(base64.b64encode(b"\0" * 64))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_change, "dossier.json was changed"),
        (lambda folder: (folder / "dossier.html").unlink(), "dossier.html is missing"),
        (lambda folder: (folder / "note.txt").write_text("x"), "note.txt was added"),
        (_grow_manifest, "is not what this key signed"),
        (_link, "record.json is no plain file"),
        (_twice, "manifest.json cannot be read"),
        (_corrupt_signature, "is not what this key signed"),
        (lambda folder: (folder / manifest.SIGNATURE).write_text("?"), "cannot be read"),
        (lambda folder: (folder / manifest.SIGNATURE).unlink(), "one is missing"),
        (lambda folder: (folder / manifest.MANIFEST).write_text("[]"), "cannot be read"),
    ],
)
def test_harm_is_found_and_ends_with_exit_code_1(signed, harm, words, capsys):
    folder, public = signed
    harm(folder)
    assert run(["dossier", "verify", str(folder), "--key", str(public)]) == 1
    assert words in capsys.readouterr().out


def test_another_key_and_a_signature_that_was_taken_away_do_not_verify(signed, keys):
    folder, public = signed
    _, other = keys("other")
    assert dossier.verify(folder, other).problems
    for name in (manifest.SIGNATURE, manifest.SIGNER):
        (folder / name).unlink()
    assert dossier.verify(folder, public).problems == (
        "there is no signature, and a key was given",
    )
    unsigned = dossier.verify(folder)
    assert unsigned.problems == ()
    assert not unsigned.signed


def test_who_signs_again_is_found_by_the_key_only(signed, keys):
    folder, public = signed
    secret, _ = keys("forger")
    _change(folder)
    listed = manifest.write(folder)
    manifest.sign(folder, listed, manifest.read_private_key(secret))
    assert dossier.verify(folder).problems == ()
    assert not dossier.verify(folder).trusted
    assert dossier.verify(folder, public).problems


def test_bad_input_is_exit_code_2(record, signed, tmp_path, keys, capsys):
    folder, public = signed
    secret, _ = keys("mine")
    out = str(tmp_path / "new")
    rsa = tmp_path / "bad.pem"
    rsa.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for arguments in (
        ["verify", str(tmp_path / "nowhere")],
        ["verify", str(tmp_path)],
        ["verify", str(folder), "--key", str(rsa)],
        ["verify", str(folder), "--key", str(tmp_path / "nokey.pem")],
        ["make", str(record), "--out", out, "--sign", str(rsa)],
        ["make", str(record), "--out", out, "--sign", str(public)],
        ["make", str(record), "--out", out, "--sign", str(tmp_path / "nokey.pem")],
        ["make", str(record), "--out", str(folder)],
        ["make", str(tmp_path / "nowhere"), "--out", out],
    ):
        assert run(["dossier", *arguments]) == 2, arguments
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new").exists()
    del secret
