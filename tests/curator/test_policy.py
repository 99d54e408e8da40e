"""A policy: what it refuses costs nothing, what it does not understand refuses everything, and two have to sign."""

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from experiments.psgd import Settings, psgd
from quietfield import archives, files
from quietfield.cli import main
from quietfield.curator.charging import Price
from quietfield.curator.policy import read_policy
from quietfield.curator.score import dp_score
from quietfield.errors import Error, FileError, Incomplete, PolicyRefused
from quietfield.releases import keys

SCHEMA = qf.Schema({"a": [0, 1]})
CODES = np.array([[0], [1]] * 20)
WORDS = ["release", "d.csv", "--schema", "s.json", "--structure", "chain", "--unit", "rows:1", "--epsilon", "1"]
PAID = [*WORDS, "--ledger", "b.db", "--out", "r.qfr"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("a\n0\n1\n")
    SCHEMA.save("s.json")
    qf.Ledger.create("b.db", epsilon=10, unit=qf.Rows(1))
    monkeypatch.setenv("QUIETFIELD_POLICY", str(tmp_path / "policy.toml"))
    return tmp_path


def release(**more):
    return qf.release(CODES, SCHEMA, ["a"], **{"epsilon": 1, "unit": qf.Rows(1), "ledger": "b.db", **more})


@pytest.mark.filterwarnings("ignore:delta 0.5 promises next to nothing")
@pytest.mark.parametrize(
    ("text", "asked", "why"),
    [
        ("max_epsilon = 0.5", {}, "epsilon is at most 0.5, and 1 is asked for"),
        ("max_epsilon = 0.1", {"epsilon": Fraction(1, 10) + Fraction(1, 10**30)}, "epsilon is at most 0.1"),
        ("max_epsilon = 2", {"delta": 0.5, "noise": "gaussian"}, "names no max_delta"),
        ("max_epsilon = 2\nmax_delta = 1e-6", {"delta": 1e-5, "noise": "gaussian"}, "delta is at most 1e-06"),
        ("require_ledger = true", {"ledger": None}, "a ledger has to pay"),
        (
            "units = ['person:user', 'rows:2']",
            {},
            "'rows:2', and what is protected here is any one row",
        ),
        ("neighbours = ['add_remove']", {"neighbours": "replace"}, "neighbours are 'add_remove', not 'replace'"),
        ("name = 'the office'", {"neighbours": "paper"}, "'the office' refuses this: neighbours are"),
        ("noise = ['laplace']", {"delta": 1e-6, "noise": "gaussian"}, "noise is 'laplace', not 'gaussian'"),
    ],
)
def test_what_a_policy_does_not_allow_is_refused_before_anything_is_read_or_charged(text, asked, why, monkeypatch):
    Path("policy.toml").write_text(text)
    monkeypatch.setattr("quietfield.curator.counting.count", lambda *_, **__: pytest.fail("counted all the same"))
    closed = qf.Schema({"a": qf.Cuts([1], null="other", unknown="other")})
    with pytest.raises(PolicyRefused, match=why):
        qf.release(CODES, closed, ["a"], **{"epsilon": 1, "unit": qf.Rows(1), "ledger": "b.db", **asked})
    assert qf.Ledger("b.db").spent == 0


def test_what_it_allows_is_done_and_the_release_says_which_policy(capsys):
    Path("policy.toml").write_text(
        "name = 'the office'\nmax_epsilon = 1\nrequire_ledger = true\nunits = ['rows:1']\nnoise = ['laplace']\n"
    )
    assert main(PAID) == 0
    found = qf.Release.load("r.qfr")
    assert (found.policy.name, found.policy.digest, found.complete) == ("the office", read_policy().digest, True)
    assert "the office" in capsys.readouterr().out
    assert main([*WORDS, "--no-ledger", "--out", "x.qfr"]) == 5
    assert main([*PAID, "--epsilon", "1.5", "--dry-run", "--force"]) == 5
    assert "Nothing was charged" in capsys.readouterr().err
    assert qf.Ledger("b.db").spent == 1


def test_scores_and_psgd_obey_it_too():
    model = qf.Model(SCHEMA.domain, {("a",): [0.0, 1.0]})
    zcdp = qf.Ledger.create("z.db", epsilon=50, delta="1e-5", unit=qf.Rows(1), accounting_by="zcdp")
    asked = {"epsilon": 2, "ledger": zcdp}

    def learn():
        return psgd(CODES, SCHEMA.domain, ["a"], Settings(rate=1, steps=5), delta=1e-6, population=40, **asked)

    for text in ("max_epsilon = 1\nmax_delta = 0.1", "noise = ['gaussian']", "signers = ['a.pub.pem', 'b.pub.pem']"):
        for name in ("a.pem", "b.pem"):
            if not Path(name).exists():
                keys.create_keys(name)
        Path("policy.toml").write_text(text)
        with pytest.raises(PolicyRefused):
            learn()
        with pytest.raises(PolicyRefused):
            dp_score(model, CODES, SCHEMA, unit=qf.Rows(1), **asked)
    assert zcdp.spent == 0
    Path("policy.toml").write_text("max_epsilon = 2\nmax_delta = 1e-6")
    assert learn().ledger.number == 1


@pytest.mark.parametrize(
    "text",
    [
        None,
        "max_epsilom = 1",
        "max_epsilon = 1979-05-27",
        "max_epsilon = {a = 1}",
        "name = " + "[" * 3000,
        "name." + ".".join("a" * 20_000) + " = 1",
        "[" + ".".join("a" * 20_000) + "]",
        "name = '" + "a" * 2**16 + "'",
        'anchors = "a\\u0000b"',
        "units = ['Rows:1']",
        "units = ['rows:0']",
        "units = ['rows:01']",
        "units = ['person:']",
        "units = ['person:user+']",
        "units = ['person:user:3']",
        "digest = 'x'",
        "max_epsilon = 0",
        "max_epsilon = '1/0'",
        "max_delta = 1",
        "require_ledger = 1",
        "units = 'rows:1'",
        "neighbours = ['none']",
        "noise = ['uniform']",
        "signers = ['only.pub.pem']",
        "signers = ['none.pub.pem', 'only.pub.pem']",
        "not toml",
        "\xff",
    ],
)
def test_a_policy_that_cannot_be_read_refuses_everything(text, capsys):
    keys.create_keys("only.pem")
    if text is not None:
        Path("policy.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(PolicyRefused, match="nothing may be released"):
        release()
    assert main(PAID) == 5
    assert qf.Ledger("b.db").spent == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max_epsilom = 1", "'max_epsilom', which is not known here; did you mean 'max_epsilon'?"),
        ("secret = 1", "'secret', which is not known here; expected some of 'name', 'max_epsilon'"),
        ("max_epsilon = ['hidden']", "max_epsilon is a number, not a list"),
        ("units = 'hidden'", "units is a list of texts, not a str"),
    ],
)
def test_a_policy_says_what_is_wrong_with_it(text, why):
    Path("policy.toml").write_text(text)
    with pytest.raises(PolicyRefused, match=re.escape(why)) as caught:
        read_policy()
    assert "hidden" not in str(caught.value)


def test_a_policy_knows_the_columns_of_a_person_in_any_order():
    Path("policy.toml").write_text("units = ['person:user+day', 'rows:2']")
    policy = read_policy()

    def price(unit):
        return Price(Fraction(1), None, None, unit, "add_remove", "laplace")

    for unit in (qf.Person(("user", "day"), rows=1), qf.Person(("day", "user"), rows=3), qf.Rows(2)):
        policy.check(price(unit), None)
    for unit in (qf.Person("user+day", rows=1), qf.Person("user", rows=1), qf.Rows(1)):
        with pytest.raises(PolicyRefused, match="units are"):
            policy.check(price(unit), None)


def test_an_empty_name_of_a_policy_is_no_way_round(monkeypatch):
    monkeypatch.setenv("QUIETFIELD_POLICY", "")
    with pytest.raises(PolicyRefused, match="is set and empty"):
        release()
    monkeypatch.delenv("QUIETFIELD_POLICY")
    assert release().policy is None


@pytest.fixture
def office():
    for name in ("first", "second", "stranger"):
        keys.create_keys(f"{name}.pem")
    Path("policy.toml").write_text("signers = ['first.pub.pem', 'second.pub.pem']")


def test_a_release_is_complete_with_two_signatures(office, capsys):
    for key, why in (([], "name the private key"), (["--key", "stranger.pem"], "that --key names")):
        assert main([*PAID, *key]) == 5
        assert why in capsys.readouterr().err
    assert qf.Ledger("b.db").spent == 0
    assert main([*PAID, "--key", "first.pem"]) == 0
    assert "r.qfr waits for its second signature" in capsys.readouterr().err
    for words in (["verify", "r.qfr", "--trust", "first.pub.pem"], ["fit", "r.qfr", "--out", "m.qfm"]):
        assert main(words) == 7, words
        assert "waits for a second signature" in capsys.readouterr().err
    with pytest.raises(Incomplete):
        qf.Release.load("r.qfr")
    for key, why in (("first.pem", "different keys"), ("stranger.pem", "signed by two of")):
        assert main(["sign", "r.qfr", "--key", key]) == 1
        assert why in capsys.readouterr().err
    assert main(["sign", "r.qfr", "--key", "second.pem"]) == 0
    found = qf.Release.load("r.qfr", trust=["first.pub.pem", "second.pub.pem"])
    assert {found.signer, found.second_signer} == set(found.policy.signers)
    assert main(["verify", "r.qfr", "--trust", "first.pub.pem", "--trust", "second.pub.pem"]) == 0
    with pytest.raises(FileError, match="also signed by"):
        qf.Release.load("r.qfr", trust="first.pub.pem")
    assert main(["sign", "r.qfr", "--key", "stranger.pem"]) == 1


def test_a_second_signature_that_is_taken_off_is_missed(office):
    release().save("r.qfr", key="first.pem")
    qf.Release.add_signature("r.qfr", "second.pem")
    members = archives.read_archive("r.qfr", "a quietfield release")
    both = json.loads(members[archives.SIGNATURE])
    for left in (both[0], both[1], [both[0], both[0]], [both[0]], [], None):
        changed = dict(members)
        if left is None:
            del changed[archives.SIGNATURE]
        else:
            changed[archives.SIGNATURE] = files.canonical_json(left)
        archives.write_archive("r.qfr", changed)
        with pytest.raises(FileError):
            qf.Release.load("r.qfr")


def test_python_cannot_save_without_a_listed_key(office):
    made = release()
    for key in (None, "stranger.pem"):
        with pytest.raises(FileError, match="signed by two of"):
            made.save("r.qfr", key=key)
    assert not Path("r.qfr").exists()


def test_synthesis_stops_at_a_release_that_waits_for_a_signature(office, capsys):
    asked = {"epsilon": 1, "unit": qf.Rows(1), "ledger": "b.db"}
    with pytest.raises(Error, match="two persons sign"):  # the release would be paid for, and lost
        qf.synthesize({"a": [0, 1] * 500}, SCHEMA, **asked)
    assert qf.Ledger("b.db").spent == 0
    words = ["synthesize", "d.csv", "--schema", "s.json", "--unit", "rows:1", "--epsilon", "1", "--ledger", "b.db"]
    assert main([*words, "--out", "drawn.csv", "--key", "first.pem"]) == 0
    assert "waits for its second signature" in capsys.readouterr().err
    assert [path.name for path in Path().glob("drawn*")] == ["drawn.qfr"]
    assert main(["sign", "drawn.qfr", "--key", "second.pem"]) == 0
    qf.Release.load("drawn.qfr")


def test_a_release_without_a_policy_can_be_signed_afterwards(office, monkeypatch, capsys):
    monkeypatch.delenv("QUIETFIELD_POLICY")
    release().save("r.qfr")
    assert main(["sign", "r.qfr", "--key", "first.pem"]) == 0
    assert qf.Release.load("r.qfr", trust="first.pub.pem").second_signer is None
    assert main(["sign", "r.qfr", "--key", "stranger.pem"]) == 0
    assert qf.Release.load("r.qfr", trust=["first.pub.pem", "stranger.pub.pem"]).second_signer is not None
    assert main(["sign", "r.qfr", "--key", "second.pem"]) == 1
    assert "has both its signatures" in capsys.readouterr().err


def test_python_takes_no_release_that_waits_for_a_signature(office, tmp_path):
    made = release()
    model = qf.Model(SCHEMA.domain, {("a",): [0.0, 1.0]})
    made.save("r.qfr", key="first.pem")
    waiting = qf.Release.load("r.qfr", complete=False)
    for one, waits in ((made, "its two signatures"), (waiting, "a second signature")):
        for use in (
            lambda: qf.verify(one),  # noqa: B023
            lambda: qf.fit(one, "naive"),  # noqa: B023
            lambda: qf.fit([one], "naive"),  # noqa: B023
            lambda: qf.write_report("r.html", one, model),  # noqa: B023
            lambda: qf.people_tables(model, release=one),  # noqa: B023
            lambda: qf.goodness_of_fit(one, model),  # noqa: B023
            lambda: qf.compare(release=one, models={"by hand": model}),  # noqa: B023
            lambda: qf.write_confidential_report("p.html", CODES, SCHEMA, one, model),  # noqa: B023
        ):
            with pytest.raises(Incomplete, match=waits):
                use()
    assert not list(tmp_path.glob("*.html"))


def test_the_estimator_refuses_before_the_charge_what_it_could_not_learn_from(office):
    from quietfield.sklearn import DPMarkovRandomField

    estimator = DPMarkovRandomField(schema=SCHEMA, structure=["a"], epsilon=1, unit=qf.Rows(1), ledger="b.db")
    with pytest.raises(PolicyRefused, match="two persons sign"):
        estimator.fit(CODES)
    assert qf.Ledger("b.db").spent == 0


def test_a_release_that_waits_for_a_signature_is_held_against_its_ledger(office, capsys):
    assert main([*PAID, "--key", "first.pem"]) == 0
    before = Path("b.db").read_bytes()
    assert main(["ledger", "show", "b.db", "--against", "r.qfr"]) == 0
    assert "r.qfr: charge 1" in capsys.readouterr().out
    again = [*PAID[:-1], "r2.qfr", "--key", "first.pem"]
    assert main([*again, "--against", "r.qfr"]) == 0
    Path("b.db").write_bytes(before)
    assert main(["ledger", "show", "b.db", "--against", "r2.qfr"]) == 6


def test_other_signers_of_the_same_policy_can_take_over(office):
    keys.create_keys("third.pem")
    Path("policy.toml").write_text("signers = ['first.pub.pem', 'second.pub.pem', 'third.pub.pem']")
    release().save("r.qfr", key="first.pem")
    found = qf.Release.add_signature("r.qfr", "second.pem")
    found.save("r.qfr", key="third.pem")
    again = qf.Release.add_signature("r.qfr", "second.pem")
    assert again.complete
    assert again.digest == found.digest
    with pytest.raises(FileError, match="signed by two of"):
        found.save("r.qfr", key="stranger.pem")


def test_a_folder_of_anchors_finds_a_ledger_that_was_rolled_back(capsys):
    Path("policy.toml").write_text("anchors = 'kept'")
    with pytest.raises(qf.Error, match="does not exist"):
        release()
    Path("kept").mkdir()
    release()
    before = Path("b.db").read_bytes()
    release()
    Path("b.db").write_bytes(before)
    assert main(PAID) == 6
    assert "an old copy was put back" in capsys.readouterr().err
    assert len(qf.Ledger("b.db").charges) == 1
    (anchor,) = Path("kept").iterdir()
    anchor.unlink()
    with pytest.raises(PolicyRefused, match="should tell where this ledger ends"):
        release()
