"""``quietfield verify`` and ``--trust``: what a reader may demand, and how each refusal is told."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield import errors
from quietfield.cli import main
from quietfield.files import MANIFEST, TABLES, write_archive
from quietfield.releases import keys
from quietfield.releases.checks import PAPER_NOTE
from quietfield.releases.parts import Total
from quietfield.releases.release import Release
from tests.test_releases import promised

TRUST = ["--trust", "office.pub.pem"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases of every kind, signed by the office, and what else a reader may meet."""
    folder = tmp_path_factory.mktemp("files")
    office, _ = keys.create_keys(folder / "office.pem")
    other, _ = keys.create_keys(folder / "other.pem")
    good = promised()
    good.save(folder / "good.qfr", office)
    good.save(folder / "other.qfr", other)
    with zipfile.ZipFile(folder / "good.qfr") as archive:
        write_archive(folder / "stripped.qfr", {name: archive.read(name) for name in (MANIFEST, TABLES)})
    tables = {("a", "b"): np.array([[500.0, 90.0], [110.0, 300.0]])}
    Release.from_tables(qf.Domain({"a": 2, "b": 2}), tables, noise=qf.Laplace(1e-9), total=1000).save(
        folder / "exact.qfr", office
    )
    assert good.promise is not None
    paper = replace(good.promise, neighbours="paper", l1=Fraction(2), l2_squared=Fraction(2))
    replace(good, promise=paper, total_part=Total(12, None), notes=(PAPER_NOTE,)).save(folder / "paper.qfr", office)
    replace(good, promise=replace(good.promise, epsilon=Fraction(10**6))).save(folder / "huge.qfr", office)
    replace(good, ledger=None).save(folder / "unpaid.qfr", office)
    replace(good, promise=replace(good.promise, epsilon=Fraction(1, 2))).save(folder / "false.qfr", office)
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["good.qfr", *TRUST], 0),
        (["good.qfr", *TRUST, "--max-epsilon", "1", "--max-delta", "0", "--require-ledger", "--require-promise"], 0),
        (["good.qfr", *TRUST, "--max-epsilon", "0.999"], 13),
        (["good.qfr", "--max-epsilon", "0.999"], 13),
        (["stripped.qfr"], 0),
        (["stripped.qfr", *TRUST], 10),
        (["other.qfr", *TRUST], 11),
        (["other.qfr", "--trust", "other.pub.pem", *TRUST], 0),
        (["exact.qfr"], 0),
        (["exact.qfr", *TRUST], 12),
        (["exact.qfr", "--require-promise"], 12),
        (["exact.qfr", "--max-epsilon", "1"], 12),
        (["exact.qfr", "--max-delta", "0"], 12),
        (["exact.qfr", *TRUST, "--allow-no-promise"], 0),
        (["paper.qfr", *TRUST], 12),
        (["paper.qfr", *TRUST, "--allow-no-promise"], 0),
        (["huge.qfr", *TRUST], 13),
        (["huge.qfr", *TRUST, "--max-epsilon", "1000000"], 0),
        (["unpaid.qfr", *TRUST], 0),
        (["unpaid.qfr", *TRUST, "--require-ledger"], 14),
        (["false.qfr"], 1),
        (["false.qfr", *TRUST], 1),
        (["good.qfr", "--require-promise", "--allow-no-promise"], 1),
        (["good.qfr", "--max-epsilon", "lots"], 1),
    ],
)
def test_what_is_demanded_is_what_is_checked(
    words: list[str], code: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *words]) == code
    shown = capsys.readouterr()
    if code:
        assert not shown.out
        assert shown.err.count("\n") == 1
    else:
        kind = "NO PROMISE" if words[0] in ("exact.qfr", "paper.qfr") else "PROMISE"
        assert shown.out.startswith(f"{kind}: ")
        assert ("NOT SIGNED" in shown.out) == (words[0] == "stripped.qfr")


@pytest.mark.parametrize(
    ("file", "demands", "kind"),
    [
        ("stripped.qfr", {"trust": "office.pub.pem"}, errors.NotSigned),
        ("other.qfr", {"trust": ["office.pub.pem"]}, errors.OtherSigner),
        ("exact.qfr", {"trust": "office.pub.pem"}, errors.NoPromise),
        ("paper.qfr", {"require_promise": True}, errors.NoPromise),
        ("huge.qfr", {"trust": "office.pub.pem"}, errors.WeakPromise),
        ("good.qfr", {"max_epsilon": "99/100"}, errors.WeakPromise),
        ("unpaid.qfr", {"require_ledger": True}, errors.NoLedger),
    ],
)
def test_python_asks_the_same(file: str, demands: Any, kind: type[Exception], here: Path) -> None:
    for given in (file, Release.load(file)):
        with pytest.raises(kind):
            qf.verify(given, **demands)
    assert qf.verify("good.qfr", trust="office.pub.pem")[0] == "PROMISE: epsilon 1, for any one row (add_remove)"


def test_a_large_delta_is_refused(here: Path) -> None:
    pytest.importorskip("opendp")
    codes = np.zeros((3, 2), int)
    schema = qf.Schema({"a": 2, "b": 2})
    asked = {"epsilon": 1, "delta": "1/100", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    with pytest.warns(UserWarning, match="next to nothing"):
        made = qf.release(codes, schema, [("a", "b")], **asked)  # type: ignore[arg-type]
    with pytest.raises(errors.WeakPromise, match=r"delta 0\.01"):
        qf.verify(made, require_promise=True)
    assert qf.verify(made, max_delta=0.01)[0].startswith("PROMISE: epsilon 1, delta 0.01, ")
    with pytest.raises(errors.WeakPromise, match="at most 0 "):
        qf.verify(made, max_delta="0")


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "{}", "--out", "{out}/m.qfm"],
        ["report", "{}", "--out", "{out}/r.html"],
        ["export", "{}", "--out", "{out}/tables"],
        ["compare", "{}", "--methods", "naive"],
        ["compare", "by-hand.qfm", "{}"],
        ["export", "by-hand.qfm", "--release", "{}", "--out", "{out}/people"],
    ],
)
def test_every_command_that_reads_a_release_demands_the_same(
    words: list[str], here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("by-hand.qfm").exists():
        qf.Model(qf.Domain({"a": 2, "b": 2}), {("a", "b"): np.zeros((2, 2))}).save("by-hand.qfm")

    def code(file: str, *more: str) -> int:
        return main([word.format(file, out=tmp_path) for word in words] + list(more))

    expected = {"stripped.qfr": 10, "other.qfr": 11, "exact.qfr": 12, "paper.qfr": 12, "huge.qfr": 13, "false.qfr": 1}
    assert {file: code(file, *TRUST) for file in expected} == expected
    assert code("exact.qfr", "--max-epsilon", "1") == 12
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert code("exact.qfr", "--allow-no-promise") == 1
    assert "goes with --trust" in capsys.readouterr().err
    assert code("exact.qfr", *TRUST, "--allow-no-promise") == 0


def test_a_fit_tells_that_a_signature_is_missing(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = Release.load("exact.qfr").with_signer(None)
    exact.save(tmp_path / "unsigned.qfr")
    for file, told in (("exact.qfr", "signed by"), (str(tmp_path / "unsigned.qfr"), "NOT SIGNED")):
        assert main(["fit", file, "--out", str(tmp_path / "m.qfm"), "--force"]) == 0
        assert told in capsys.readouterr().out


# Models


@pytest.fixture(scope="module")
def learned(folder: Path) -> Path:
    """A model of a release, signed by the office, beside the release and another."""
    made = promised()
    counts = np.array([[500, 90], [110, 300]])
    made = replace(made, ledger=None, parts=tuple(replace(part, values=counts.copy()) for part in made.parts))
    made.save(folder / "source.qfr", folder / "office.pem")
    replace(made, notes=("another note",)).save(folder / "sibling.qfr", folder / "office.pem")  # of the same id
    words = ["fit", str(folder / "source.qfr"), "--method", "naive", "--out", str(folder / "signed.qfm")]
    assert main([*words, "--key", str(folder / "office.pem")]) == 0
    model = qf.load(folder / "signed.qfm")
    model.signer = None
    model.save(folder / "unsigned.qfm")
    model.report = replace(model.report, release_digest="")  # type: ignore[type-var]
    model.save(folder / "old.qfm", folder / "office.pem")
    return folder


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["signed.qfm"], 0),
        (["signed.qfm", *TRUST, "--release", "source.qfr"], 0),
        (["signed.qfm", *TRUST, "--release", "source.qfr", "--max-epsilon", "1/2"], 13),
        (["signed.qfm", *TRUST, "--release", "source.qfr", "--require-ledger"], 14),
        (["signed.qfm", "--release", "sibling.qfr"], 15),
        (["signed.qfm", *TRUST, "--release", "exact.qfr"], 12),
        (["signed.qfm", *TRUST], 12),
        (["signed.qfm", "--require-ledger"], 12),
        (["signed.qfm", *TRUST, "--allow-no-promise"], 0),
        (["signed.qfm", "--trust", "other.pub.pem", "--release", "source.qfr"], 11),
        (["unsigned.qfm", *TRUST, "--release", "source.qfr"], 10),
        (["unsigned.qfm", "--release", "source.qfr"], 0),
        (["signed.qfm", *TRUST, "--release", "stripped.qfr"], 10),
        (["old.qfm", *TRUST, "--release", "source.qfr"], 15),
        (["source.qfr", "--release", "source.qfr"], 1),
    ],
)
def test_models_are_verified_with_their_release(
    words: list[str], code: int, learned: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *words]) == code
    assert ("that is this release" in capsys.readouterr().out) == (code == 0 and "--release" in words)


def test_models_as_json(learned: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["verify", "signed.qfm", *TRUST, "--release", "source.qfr", "--json"]) == 0
    with_release = json.loads(capsys.readouterr().out)
    assert main(["verify", "unsigned.qfm", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    digest = Release.load("source.qfr").digest
    with zipfile.ZipFile("source.qfr") as archive:
        assert json.loads(archive.read(MANIFEST))["sha256"] == digest  # the one that the file carries
    assert (with_release["kind"], with_release["epsilon"], with_release["digest"]) == ("model", "1", digest)
    assert (alone["kind"], alone["epsilon"], alone["digest"]) == ("model", None, digest)
    assert (with_release["signed"], alone["signed"]) == (True, False)
    assert set(with_release) == set(alone)


def test_signatures_of_models(learned: Path, here: Path, tmp_path: Path) -> None:
    model = qf.load("signed.qfm", trust="office.pub.pem")
    assert model.signer == keys.fingerprint(keys.load_public("office.pub.pem"))
    with pytest.raises(errors.Error, match="would not be"):
        model.save(tmp_path / "x.qfm")
    model.save(tmp_path / "x.qfm", "other.pem")
    with pytest.raises(errors.OtherSigner):
        qf.load(tmp_path / "x.qfm", trust="office.pub.pem")
    with zipfile.ZipFile("signed.qfm") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = members[MANIFEST].replace(b'"method":"naive"', b'"method":"maive"')
    assert changed != members[MANIFEST]
    write_archive(tmp_path / "y.qfm", {**members, MANIFEST: changed})
    with pytest.raises(errors.FileError):
        qf.load(tmp_path / "y.qfm")
    # A signature of a release is none of a model, were the bytes the same.
    signature = keys.sign(members[MANIFEST], "office.pem")
    with pytest.raises(errors.FileError, match="signature does not match"):
        keys.check(members[MANIFEST], signature, "model")


def hide(change: Callable[[dict[str, Any]], None], path: Path) -> None:
    """The same model with a changed manifest and the right digest."""
    import hashlib

    from quietfield.files import canonical_json

    with zipfile.ZipFile("unsigned.qfm") as archive:
        manifest, tables = json.loads(archive.read(MANIFEST)), archive.read(TABLES)
    del manifest["sha256"]
    change(manifest)
    digest = hashlib.sha256(canonical_json(manifest) + tables).hexdigest()
    write_archive(path, {MANIFEST: canonical_json({**manifest, "sha256": digest}), TABLES: tables})


def test_nothing_can_be_hidden_in_a_model(learned: Path, here: Path, tmp_path: Path) -> None:
    hide(lambda manifest: None, tmp_path / "x.qfm")
    qf.load(tmp_path / "x.qfm")
    for change in (
        lambda manifest: manifest.update(records=[1, 2]),
        lambda manifest: manifest["domain"].update(comment="12"),
        lambda manifest: manifest["report"].update(steps=1.0),
        lambda manifest: manifest["options"].update(x=1),
    ):
        hide(change, tmp_path / "x.qfm")
        with pytest.raises(errors.FileError, match="altered"):
            qf.load(tmp_path / "x.qfm")
