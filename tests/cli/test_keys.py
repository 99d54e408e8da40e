"""Private keys with a passphrase: made, read, and refused, without the passphrase on a command line."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.errors import FileError
from quietfield.releases import keys, public_keys


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("a\n0\n1\n")
    qf.Schema({"a": [0, 1]}).save("s.json")
    qf.Ledger.create("b.db", epsilon=4, unit=qf.Rows(1))
    Path("phrase").write_text("correct horse\nnot this line\n")
    return tmp_path


RELEASE = ["release", "d.csv", "--schema", "s.json", "--structure", "chain", "--unit", "rows:1", "--epsilon", "1"]
PAID = [*RELEASE, "--ledger", "b.db", "--key", "k.pem", "--out", "r.qfr"]


def test_an_encrypted_key_signs_with_its_passphrase_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["key", "create", "k.pem", "--passphrase-file", "phrase"]) == 0
    assert "encrypted" in capsys.readouterr().out
    assert b"ENCRYPTED PRIVATE KEY" in Path("k.pem").read_bytes()
    assert Path("k.pem").stat().st_mode & 0o777 == 0o600
    Path("wrong").write_text("incorrect horse")
    monkeypatch.setenv("PHRASE", "correct horse")
    monkeypatch.setattr(sys, "stdin", None)
    for more, said in (
        ([], "there is no terminal to ask for it"),
        (["--passphrase-file", "wrong"], "the passphrase is wrong"),
        (["--passphrase-file", "none"], "cannot read none"),
        (["--passphrase-env", "correct horse"], "there is no environment variable of the name"),
        (["--passphrase-env", "PHRASE", "--passphrase-file", "phrase"], "two places"),
    ):
        assert main([*PAID, *more]) == 1
        told = capsys.readouterr().err
        assert said in told
        assert "horse" not in told
    assert qf.Ledger("b.db").spent == 0
    assert main([*PAID, "--passphrase-file", "phrase"]) == 0
    assert main([*PAID, "--passphrase-env", "PHRASE", "--force"]) == 0
    assert qf.Release.load("r.qfr", trust="k.pub.pem").signed


def test_an_encrypted_key_signs_models_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    keys.create_keys("k.pem", "correct horse")
    qf.Release.from_tables(qf.Domain({"a": 2}), {"a": [50, 70]}, noise=qf.Laplace(2.0)).save("r.qfr")
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("PHRASE", "correct horse")
    fit = ["fit", "r.qfr", "--method", "naive", "--key", "k.pem", "--out"]
    assert main([*fit, "m.qfm"]) == 1
    assert "no terminal" in capsys.readouterr().err
    assert main([*fit, "m.qfm", "--passphrase-file", "phrase"]) == 0
    assert main([*fit, "n.qfm", "--passphrase-env", "PHRASE"]) == 0
    for name in ("m.qfm", "n.qfm"):
        assert qf.load(name, trust="k.pub.pem").signed
    assert main([*fit, "phrase", "--force", "--passphrase-file", "phrase"]) == 1
    assert Path("phrase").read_text().startswith("correct horse")


def test_a_key_that_is_not_encrypted_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "create", "k.pem"]) == 0
    assert "not encrypted: whoever copies it can sign; see --encrypt" in capsys.readouterr().out
    assert main(PAID) == 0
    assert main([*RELEASE, "--no-ledger", "--out", "x.qfr", "--passphrase-file", "phrase"]) == 1
    assert "--key" in capsys.readouterr().err


def test_keys_of_openssl_and_odd_passphrases(tmp_path: Path) -> None:
    for phrase in ("", "x" * 2000, "\ud800"):
        with pytest.raises(FileError, match="passphrase"):
            keys.create_keys("odd.pem", phrase)
    assert not Path("odd.pem").exists()
    private, public = keys.create_keys("odd.pem", "pässwörd ")
    assert keys.load_private(private, "pässwörd ").public_key() == public_keys.load_public(public)
    with pytest.raises(FileError, match="no passphrase is given"):
        keys.load_private(private)
    with pytest.raises(FileError, match="passphrase is wrong"):
        keys.load_private(private, "pässwörd")
    release = qf.Release.from_tables(qf.Domain({"a": 2}), {("a",): [1.0, 2.0]}, noise=qf.Laplace(1.0))
    with pytest.raises(FileError, match="load_private"):
        release.save("r.qfr", key=private)
    release.save("r.qfr", key=keys.load_private(private, "pässwörd "))


def test_the_terminal_is_asked_twice_and_does_not_echo() -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "quietfield", "key", "create", "k.pem", "--encrypt"]
    run = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, close_fds=True)
    os.close(follower)
    shown = b""
    for _ in range(2):
        while not shown.endswith(b": "):  # the space comes once the echo is off
            shown += os.read(leader, 1000)
        os.write(leader, b"correct horse\n")
        shown += b" asked\n"
    try:
        while part := os.read(leader, 1000):
            shown += part
    except OSError:  # what Linux says at the end of a terminal
        pass
    assert run.wait(300) == 0
    assert b"horse" not in shown
    assert keys.load_private("k.pem", "correct horse")
