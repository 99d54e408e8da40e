"""``quietfield query``: answers with error bars, and what is said of a mistyped question."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.cli import main, query
from quietfield.cli.questions import attributes, evidence
from quietfield.drawing.columns import quote_label
from quietfield.models.basis import COUNTED, INFERRED, UNMEASURED

ODD = qf.Domain({"smoker": ["no, never", "a=b", ' "yes"'], "a=b": ["c=d", "x"], "a, b": 2})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a learned model, one from parameters, and one with odd names."""
    folder = tmp_path_factory.mktemp("query")
    domain = qf.Domain({"smoker": ["no", "yes"], "visits": 3, "sex": ["f", "m"], "left out": 2})
    tables = {
        ("smoker", "visits"): [[300.0, 150.0, 49.0], [210.0, 190.0, 101.0]],
        ("sex", "visits"): np.full((2, 3), 166.0),
    }
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000)
    qf.fit(release).save(folder / "m.qfm")
    qf.Model(domain, {("smoker", "visits"): [[0.3, 0, 0], [0, 0, 0.5]]}).save(folder / "plain.qfm")
    qf.Model(ODD, {("smoker", "a=b"): np.zeros((3, 2)), ("a, b",): [0, 1]}).save(folder / "odd.qfm")
    return folder


def asked(files: Path, capsys: pytest.CaptureFixture[str], *words: str, model: str = "m.qfm") -> str:
    capsys.readouterr()
    assert main(["query", str(files / model), *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("known", [{}, {"smoker": "yes"}])
def test_error_bars_are_those_of_the_model(files, capsys, known):
    words = [f"--given={name}={label}" for name, label in known.items()]
    model = qf.load(files / "m.qfm")
    low, high = model.interval("visits", 0.8, given=known)
    said = json.loads(asked(files, capsys, "visits", *words, "--level", "0.8", "--json"))
    assert (said["attributes"], said["given"], said["level"], said["no_error_bars"]) == (["visits"], known, 0.8, None)
    np.testing.assert_allclose([cell["low"] for cell in said["cells"]], low, rtol=1e-6)
    np.testing.assert_allclose([cell["high"] for cell in said["cells"]], high, rtol=1e-6)
    shown = asked(files, capsys, "visits", *words, "--level", "0.8")
    assert f"{low[0]:.1%} to {high[0]:6.1%}" in shown
    assert "with 80% confidence" in shown
    assert shown.splitlines()[0] == ("visits where smoker=yes" if known else "visits")


WITHOUT_ERROR_BARS = pytest.mark.parametrize(
    ("model", "words", "said"),
    [
        ("plain.qfm", ["visits"], "this model does not know its errors"),
        ("m.qfm", ["left out"], "no published table holds 'left out'"),
        ("m.qfm", ["visits", "--given", "left out=1"], "no published table holds 'left out'"),
        ("m.qfm", ["visits", "--no-error-bars"], "not asked for"),
    ],
)


@WITHOUT_ERROR_BARS
def test_error_bars_that_were_asked_for_and_cannot_be_had_are_an_error(files, capsys, model, words, said):
    if "--no-error-bars" not in words:
        assert main(["query", str(files / model), *words, "--error-bars"]) == 1
        shown = capsys.readouterr()
        assert said in shown.err
        assert shown.out == ""


@WITHOUT_ERROR_BARS
def test_without_error_bars_one_line_says_why(files, capsys, model, words, said):
    shown = asked(files, capsys, *words, model=model).splitlines()
    assert shown[-1].startswith("no error bars: ")
    assert said in shown[-1]
    content = json.loads(asked(files, capsys, *words, "--json", model=model))
    assert said in content["no_error_bars"]
    assert content["level"] is None
    assert all(cell["low"] is cell["high"] is None for cell in content["cells"])


@pytest.mark.parametrize(
    ("words", "basis"),
    [(["smoker", "visits"], COUNTED), (["visits", "--given", "smoker=yes"], COUNTED), (["smoker"], COUNTED),
     (["smoker", "sex"], INFERRED), (["smoker", "--given", "sex=f"], INFERRED), (["smoker,sex,visits"], INFERRED),
     (["smoker", "left out"], UNMEASURED)],
)  # fmt: skip
def test_what_no_table_joins_is_marked_as_in_an_export(files, capsys, words, basis):
    assert json.loads(asked(files, capsys, *words, "--json"))["basis"] == basis
    shown = asked(files, capsys, *words)
    assert (INFERRED in shown, UNMEASURED in shown) == (basis == INFERRED, basis == UNMEASURED)
    assert ("the answer and its error bars assume that nothing but" in shown) == (basis == INFERRED)
    alone = asked(files, capsys, *words, "--no-error-bars")
    assert ("the answer assumes that nothing but the model's structure" in alone) == (basis == INFERRED)
    if "--given" not in words:
        table = attributes(words, qf.load(files / "m.qfm").domain)
        assert qf.people_tables(qf.load(files / "m.qfm"), [table]).tables[0].note == basis


def test_estimates_from_a_sample_say_so(files, capsys):
    exact = qf.load(files / "m.qfm")
    qf.Model(exact.domain, exact.potentials, inference="loopy").save(files / "loopy.qfm")
    words = ["smoker", "--given", "sex=f"]
    shown = asked(files, capsys, *words, model="loopy.qfm")
    assert "estimated from a Gibbs sample of 10,000 records in 500 chains; Monte Carlo standard error at most" in shown
    content = json.loads(asked(files, capsys, *words, "--json", model="loopy.qfm"))
    assert content["estimate"] in shown
    for cell, share in zip(content["cells"], exact.conditional("smoker", {"sex": "f"}), strict=True):
        assert abs(cell["probability"] - share) <= 6 * cell["monte_carlo_error"]  # a false alarm in 1e8
    assert "Gibbs" not in asked(files, capsys, "smoker", "--given", "visits=1", model="loopy.qfm")
    assert "estimate" not in json.loads(asked(files, capsys, *words, "--json"))
    table = qf.people_tables(qf.load(files / "loopy.qfm"), [("smoker", "sex")]).tables[0]
    assert table.inferred
    assert "estimated from a Gibbs sample" in table.note


def test_the_most_probable_record(files, capsys):
    model = qf.load(files / "m.qfm")
    p = model.marginal(model.domain.attributes)
    said = json.loads(asked(files, capsys, "--most-probable", "--json"))
    assert said["most_probable"] == model.mode()
    assert said["probability"] == pytest.approx(p.max())
    words = ["--most-probable", "--given", "smoker=yes", "--given", "sex=m"]
    known = json.loads(asked(files, capsys, *words, "--json"))
    assert known["given"] == {"smoker": "yes", "sex": "m"}
    assert known["most_probable"] == model.mode({"smoker": "yes", "sex": "m"})
    assert known["probability"] == pytest.approx(p[1, :, 1].max() / p[1, :, 1].sum())
    shown = asked(files, capsys, *words).splitlines()
    assert shown[0] == "the most probable record where smoker=yes, sex=m"
    assert shown[1].split() == ["smoker", "yes"]
    assert shown[-1] == f"its probability there is {known['probability']:.3g}"
    for wrong in (["--most-probable", "visits"], []):
        assert main(["query", str(files / "m.qfm"), *wrong]) == 2
        assert "--most-probable" in capsys.readouterr().err
    assert main(["query", str(files / "plain.qfm"), "--most-probable", "--given", "smoker=x"]) == 1


def test_what_takes_long_is_left_out_unless_asked_for(files, capsys, monkeypatch):
    monkeypatch.setattr(query, "QUICK_ANSWER", 2)
    assert "say --error-bars" in asked(files, capsys, "visits")
    assert "with 90% confidence" in asked(files, capsys, "visits", "--error-bars")
    monkeypatch.setattr(query, "QUICK_ANSWER", 9)
    monkeypatch.setattr(query, "QUICK_MODEL", 3)
    assert "say --error-bars" in asked(files, capsys, "visits")


def test_settings_of_jax_are_as_they_were(files, capsys):
    before = jax.config.read("jax_disable_most_optimizations")
    asked(files, capsys, "smoker")
    assert main(["query", str(files / "m.qfm"), "smoker", "--given", "smoker=yes"]) == 1
    assert jax.config.read("jax_disable_most_optimizations") == before


def test_labels_are_quoted_where_they_would_be_ambiguous(files, capsys):
    shown = asked(files, capsys, "smoker", "a=b", model="odd.qfm")
    lines = [line.split("  ")[0].strip() if "█" in line else line for line in shown.splitlines()]
    assert lines[0] == 'smoker, "a=b"'
    for label in ('"no, never", "c=d"', '"a=b", x', '" \\"yes\\"", x'):
        assert label in shown
    assert asked(files, capsys, "a, b", model="odd.qfm").startswith('"a, b"\n')
    given_odd = asked(files, capsys, "smoker", "--given", "a=b=c=d", model="odd.qfm")
    assert given_odd.startswith('smoker where "a=b"="c=d"')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["smoke"], "'smoke' is not an attribute; did you mean 'smoker'? Expected one of 'smoker', 'visits'"),
        (["SMOKER"], "did you mean 'smoker'?"),
        (["zzz"], "'zzz' is not an attribute; expected one of 'smoker', 'visits', 'sex', 'left out'."),
        (["visits,smoke"], "did you mean 'smoker'?"),
        (["visits", "visits"], "'visits' is named twice"),
        (["visits", "--given", "smoker=yess"], "'yess' is not a value of 'smoker'; did you mean 'yes'?"),
        (["visits", "--given", "smoker=yes,sex=f"], "Say --given once for each attribute."),
        (["visits", "--given", "smoke=yes"], "did you mean 'smoker'?"),
        (["visits", "--given", "smoker,sex=yes"], "'smoker,sex' is not an attribute"),
        (["visits", "--given", "smoker"], "write ATTRIBUTE=LABEL"),
        (["visits", "--given", "smoker=no", "--given", "smoker=yes"], "--given names 'smoker' twice"),
        (["visits", "--given", "visits=1"], "'visits' is both asked for and given"),
        (["visits", "--level", "90"], "--level lies between 0 and 1"),
        (["visits", "--level", "nan"], "--level lies between 0 and 1"),
    ],
)
def test_mistakes_in_plain_words(files, capsys, words, said):
    assert main(["query", str(files / "m.qfm"), *words]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert "clique" not in shown


def test_commas_will_do(files, capsys):
    assert asked(files, capsys, "visits,smoker") == asked(files, capsys, "visits", "smoker")


def domains(letters):
    """Attributes with their labels, of any text or of some letters."""
    labels = st.lists(st.text(letters, max_size=6), min_size=1, max_size=3, unique=True)
    return st.dictionaries(st.text(letters, min_size=1, max_size=6), labels, min_size=1, max_size=4)


@given(domains(st.characters(codec="utf-8")) | domains(st.sampled_from("a=")))
@example({"a": ["x"], "a=b": ["c"]})
@example({"a": ["x", "b=c"], "a=b": ["c"]})  # the first of the two
@example({"=": ["="], "==": [""]})
def test_any_name_and_label_can_be_typed(labels):
    domain = qf.Domain(labels)
    assert attributes(list(labels), domain) == list(labels)
    pairs = [(name, value) for name, values in labels.items() for value in values]
    for typed in {f"{name}={value}" for name, value in pairs}:
        meant = [(name, value) for name, value in pairs if f"{name}={value}" == typed]
        assert evidence([typed], domain) == dict([min(meant, key=lambda pair: len(pair[0]))])


@given(st.lists(st.text(alphabet='a ,="\\', max_size=4), min_size=2, max_size=2))
def test_two_pairs_never_look_alike(pair):
    import csv
    import io

    joined = ", ".join(map(quote_label, pair))
    read = next(csv.reader(io.StringIO(joined), skipinitialspace=True, doublequote=False, escapechar="\\"))
    if not any("\\" in text and quote_label(text) == text for text in pair):  # unquoted, a backslash is just that
        assert read == pair


COMMAS = qf.Domain(
    {"Ort": 2, "Einkommen, netto": 2, 'say "hi"': 2, '"Ort"': 2, "a": 2, "b": 2, "a,b": 2, " c": 2, "c": 2}
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ort,Einkommen, netto", ["Ort", "Einkommen, netto"]),
        ("Einkommen, netto , Ort", ["Einkommen, netto", "Ort"]),
        ('Ort,"Einkommen, netto"', ["Ort", "Einkommen, netto"]),
        ('"Ort", "Einkommen, netto"', ["Ort", "Einkommen, netto"]),
        ('say "hi",Ort', ['say "hi"', "Ort"]),
        ('"""Ort""",a', ['"Ort"', "a"]),
        ('"a,b"', ["a,b"]),
        ('"a","b"', ["a", "b"]),
        ("a, b", ["a", "b"]),
        ("a, c", ["a", " c"]),  # as it is written, if there is such a name
        ("a,c", ["a", "c"]),
    ],
)
def test_names_that_hold_commas(text, found):
    assert attributes([text], COMMAS) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b", """'a,b' can be read as "a","b" and as "a,b"; put the names in quotes"""),
        ("Ort,a,b", """can be read as "Ort","a","b" and as "Ort","a,b";"""),
        ("Ort,Einkommen", "'Einkommen' is not an attribute; did you mean 'Einkommen, netto'?"),
        ('Ort,"Einkommen, brutto"', "'Einkommen, brutto' is not an attribute"),
        ('Ort,"Einkommen', """'"Einkommen' is not an attribute"""),
        ("Ort,", "'' is not an attribute"),
        ("", "'' is not an attribute"),
    ],
)
def test_names_that_cannot_be_told_apart(text, said):
    with pytest.raises(qf.Error) as caught:
        attributes([text], COMMAS)
    assert said in str(caught.value)


def test_many_commas_are_read_at_once():
    domain = qf.Domain({"x": 2, ",".join("x" * 40): 2})
    with pytest.raises(qf.Error, match="named twice"):
        attributes([",".join("x" * 39)], domain)


@given(st.lists(st.text('a", ', min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
def test_names_in_quotes_are_always_understood(chosen):
    domain = qf.Domain({**dict.fromkeys(chosen, 2), "a": 2})
    text = ",".join('"' + name.replace('"', '""') + '"' for name in chosen)
    assert attributes([text], domain) == chosen
