"""``quietfield verify`` and ``--trust``: what a reader may demand, and how each refusal is told."""

import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import quietfield as qf
from quietfield import errors
from quietfield.archives import SIGNATURE, TABLES, write_archive
from quietfield.cli import main
from quietfield.files import MANIFEST, canonical_json
from quietfield.releases import keys, public_keys
from quietfield.releases.parts import PAPER_NOTE, PolicyInForce, Total
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
        qf.Model(qf.Domain({"a": 2, "b": 2}), {("a", "b"): np.zeros((2, 2))}).save("by-hand.qfm", "office.pem")

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


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "false.qfr", "--method", "naive", "--out", "{}/m.qfm"],
        ["report", "false.qfr", "--out", "{}/r.html"],
        ["export", "false.qfr", "--out", "{}/tables"],
    ],
)
def test_no_command_repeats_a_promise_that_does_not_hold(
    words: list[str], here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(tmp_path) for word in words]) == 1  # whether or not anything is demanded
    assert "the promise does not hold" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# Two signatures


@pytest.fixture(scope="module")
def signed_twice(folder: Path) -> Path:
    """Releases that office and other both signed: on their own, and under a policy that has two persons sign."""
    prints = tuple(
        public_keys.fingerprint(public_keys.load_public(folder / f"{name}.pub.pem")) for name in ("office", "other")
    )
    counts = np.array([[500, 90], [110, 300]])
    made = promised()
    made = replace(made, parts=tuple(replace(part, values=counts.copy()) for part in made.parts))
    policy = PolicyInForce("The office's rules", "ab" * 32, prints)
    for name, release in (("twice.qfr", made), ("persons.qfr", replace(made, policy=policy))):
        release.save(folder / name, folder / "office.pem")
        Release.add_signature(folder / name, folder / "other.pem")
    replace(made, policy=policy).save(folder / "waiting.qfr", folder / "office.pem")
    keys.create_keys(folder / "third.pem")
    return folder


BOTH = [*TRUST, "--trust", "other.pub.pem"]
TWO = ["--require-signatures", "2"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["twice.qfr", *TRUST], 0, "which is trusted; also signed by"),
        (["twice.qfr", "--trust", "other.pub.pem"], 0, "which is unknown"),
        (["twice.qfr", *BOTH], 0, "which are trusted"),
        (["twice.qfr", "--trust", "third.pub.pem"], 11, "signed by another key"),
        (["persons.qfr", *BOTH], 0, "which are trusted"),
        (["persons.qfr", *TRUST], 11, "which is not trusted"),
        (["twice.qfr", *BOTH, *TWO], 0, "which are trusted"),
        (["persons.qfr", *BOTH, *TWO], 0, "which are trusted"),
        (["twice.qfr", *TRUST, *TWO], 16, "1 of the trusted keys signed it"),
        (["twice.qfr", *TRUST, "--trust", "third.pub.pem", *TWO], 16, "1 of the trusted keys signed it"),
        (["twice.qfr", *TRUST, *TRUST, *TWO], 16, "1 of the trusted keys signed it"),
        (["good.qfr", *BOTH, *TWO], 16, "1 of the trusted keys signed it"),
        (["stripped.qfr", *BOTH, *TWO], 10, "not signed"),
        (["twice.qfr", *TWO], 1, "anyone can make a key"),
        (["twice.qfr", *BOTH, "--require-signatures", "3"], 2, "--require-signatures"),
    ],
)
def test_who_has_to_be_trusted_where_two_have_signed(
    words: list[str], code: int, told: str, signed_twice: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *words]) == code
    shown = capsys.readouterr()
    assert told in (shown.err if code else shown.out)


def test_python_counts_trusted_signatures_too(signed_twice: Path, here: Path) -> None:
    both = ("office.pub.pem", "other.pub.pem")
    for given in ("twice.qfr", Release.load("twice.qfr")):
        qf.verify(given, trust=iter(both), require_signatures=2)  # also keys that can be gone through only once
        with pytest.raises(errors.TooFewSignatures):
            qf.verify(given, trust="office.pub.pem", require_signatures=2)
    for given in ("persons.qfr", Release.load("persons.qfr", trust=iter(both))):
        with pytest.raises(errors.OtherSigner, match="name the public keys of both"):
            qf.verify(given, trust="office.pub.pem")
    for wrong in (0, 3, True, "2"):
        with pytest.raises(errors.Error, match="1 or 2 can be demanded"):
            qf.verify("twice.qfr", trust=both, require_signatures=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [["fit", "{}", "--method", "naive", "--out", "{out}/m.qfm"], ["report", "{}", "--out", "{out}/r.html"],
     ["export", "{}", "--out", "{out}/tables"]],
)  # fmt: skip
def test_two_signatures_are_demanded_of_every_release(
    words: list[str], signed_twice: Path, here: Path, tmp_path: Path
) -> None:
    def code(file: str, *more: str) -> int:
        return main([word.format(file, out=tmp_path) for word in words] + list(more))

    assert code("good.qfr", *BOTH, *TWO) == 16
    assert list(tmp_path.iterdir()) == []
    assert code("twice.qfr", *BOTH, *TWO) == 0


def test_both_signers_are_named_wherever_one_is(
    signed_twice: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signers = Release.load("persons.qfr").signers
    fit = ["fit", "persons.qfr", "--method", "naive", "--out", str(tmp_path / "m.qfm")]
    assert main(fit) == 0
    assert f"signed by {signers[0]} and {signers[1]}" in capsys.readouterr().out
    assert main([*fit, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["release_signers"] == list(signers)
    release, model = ["--release", "persons.qfr"], str(tmp_path / "m.qfm")
    assert main(["export", model, *release, "--out", str(tmp_path / "people")]) == 0
    assert main(["report", "persons.qfr", "--model", model, "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    for text in ((tmp_path / "people" / "privacy.txt").read_text(), page):
        assert all(one in text for one in signers)
    assert "ab" * 32 in page
    assert "has two persons sign" in page
    capsys.readouterr()
    assert main(["verify", "twice.qfr", *TRUST, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trusted_signers"] == [signers[0]]


def test_whoever_signs_sees_the_release_first(
    signed_twice: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = str(tmp_path / "w.qfr")
    before = Path("waiting.qfr").read_bytes()
    Path(waiting).write_bytes(before)
    assert main(["verify", waiting, *TRUST]) == 7
    shown = capsys.readouterr()
    assert shown.out.startswith("PROMISE: epsilon 1, ")
    assert "waits for a second signature" in shown.err
    assert main(["verify", waiting, "--json"]) == 7
    assert json.loads(capsys.readouterr().out)["complete"] is False  # one object, and no error beside it
    assert main(["sign", waiting, "--dry-run"]) == 0
    assert "PROMISE: epsilon 1, " in capsys.readouterr().out
    assert main(["sign", waiting]) == 1
    assert "--key FILE" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for said, code in (("n", 1), ("y", 0)):
        assert Path(waiting).read_bytes() == before
        monkeypatch.setattr("typer.confirm", lambda *_, said=said, **__: said == "y" or _abort())
        assert main(["sign", waiting, "--key", "other.pem"]) == code
        assert "PROMISE: epsilon 1, " in capsys.readouterr().out
    assert Release.load(waiting).complete
    assert main(["sign", waiting, "--key", "office.pem", "--yes"]) == 1
    assert "has both its signatures" in capsys.readouterr().err


def _abort() -> None:
    raise typer.Abort


def test_what_is_signed_is_what_was_shown(signed_twice: Path, here: Path, tmp_path: Path) -> None:
    file = tmp_path / "w.qfr"
    file.write_bytes(Path("waiting.qfr").read_bytes())
    with pytest.raises(errors.FileError, match="look at it again"):
        Release.add_signature(file, "other.pem", digest=Release.load("good.qfr").digest)
    assert file.read_bytes() == Path("waiting.qfr").read_bytes()


def test_a_promise_that_does_not_hold_is_not_signed(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.qfr"
    file.write_bytes(Path("false.qfr").read_bytes())
    assert main(["sign", str(file), "--key", "other.pem"]) == 1
    assert "the promise does not hold" in capsys.readouterr().err
    assert file.read_bytes() == Path("false.qfr").read_bytes()


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


def test_trust_covers_the_model_that_a_release_vouches_for(
    learned: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = qf.load("signed.qfm")
    forged = qf.Model(good.domain, {("a", "b"): [[0.0, 9.0], [9.0, 0.0]]}, report=good.report)
    forged.save(tmp_path / "unsigned.qfm")  # it names the release by its digest, as anyone can
    forged.save(tmp_path / "stranger.qfm", "other.pem")
    out = tmp_path / "out"
    out.mkdir()
    for name, code in (("unsigned", 10), ("stranger", 11)):
        model = str(tmp_path / f"{name}.qfm")
        for words in (
            ["export", model, "--release", "source.qfr", "--out", str(out / "people")],
            ["export", model, "--out", str(out / "people")],
            ["report", "source.qfr", "--model", model, "--out", str(out / "r.html")],
            ["sample", model, "--rows", "5", "--out", str(out / "p.csv")],
            ["query", model, "a"],
        ):
            assert main([*words, *TRUST]) == code, words
    assert list(out.iterdir()) == []
    for model, told in ((str(tmp_path / "unsigned.qfm"), "not signed"), ("signed.qfm", f"signed by {good.signer}")):
        assert main(["export", model, "--release", "source.qfr", "--out", str(out / "people"), "--force"]) == 0
        assert f"The model behind these tables is {told}" in (out / "people" / "privacy.txt").read_text()
        assert main(["report", "source.qfr", "--model", model, "--out", str(out / "r.html"), "--force"]) == 0
        page = re.sub(r"</?bdi[^>]*>", "", (out / "r.html").read_text())
        assert f"<dt>Model</dt><dd>{told.capitalize()}" in page
    assert main(["sample", "signed.qfm", "--rows", "5", "--out", str(out / "p.csv"), *TRUST]) == 0
    assert main(["query", "signed.qfm", "a", *TRUST]) == 0


def test_a_model_has_one_signature(learned: Path, here: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile("signed.qfm") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    both = [keys.sign(members[MANIFEST], key, "model") for key in ("other.pem", "office.pem")]
    write_archive(tmp_path / "x.qfm", {**members, SIGNATURE: canonical_json(both)})
    with pytest.raises(errors.FileError, match="a model has one"):
        qf.load(tmp_path / "x.qfm", trust="office.pub.pem")


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
    assert model.signer == public_keys.fingerprint(public_keys.load_public("office.pub.pem"))
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
