"""The model's answers against enumeration, pgmpy and its own samples."""

import math
import sys
import zipfile
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import quietfield as qf
from quietfield import interop, structures
from quietfield.archives import write_archive
from quietfield.errors import Error, FileError, TooLarge
from quietfield.models import basis
from tests.brute_force import COMPILED, joint, marginal, models, possible


@pytest.fixture(scope="module")
def small():
    random = np.random.default_rng(3)
    rules = [{"sex": "m", "pregnant": "yes"}, {"age": [0, 1], "job": "retired"}]
    domain = qf.Domain(
        {"age": 4, "sex": ["f", "m"], "pregnant": ["no", "yes"], "job": ["none", "works", "retired"], "spare": 2}, rules
    )
    cliques = [("age", "sex"), ("pregnant", "age"), ("job", "age")]
    return qf.Model(domain, {c: random.normal(size=domain.table_shape(c)) for c in cliques})


@COMPILED
@given(models(scales=(1.0, 20.0)), st.data())
def test_any_marginal_and_conditional_equals_enumeration(parts, data):
    domain, potentials = parts
    model = qf.Model(domain, potentials)
    p, log_z = joint(domain, potentials)
    assert model.log_partition() == pytest.approx(log_z, abs=1e-9)
    names = st.lists(st.sampled_from(domain.attributes), unique=True, max_size=len(domain))
    wanted = tuple(data.draw(names))
    np.testing.assert_allclose(model.marginal(wanted), marginal(domain, p, wanted), atol=1e-9)
    known = [name for name in data.draw(names) if name not in wanted]
    at = np.argwhere(p > 1e-3)[0]
    evidence = {name: int(at[domain.position(name)]) for name in known}
    table = marginal(domain, p, (*known, *wanted))[tuple(evidence.values())]
    np.testing.assert_allclose(model.conditional(wanted, evidence), table / table.sum(), atol=1e-8)


@COMPILED
@given(models(scales=(1.0, 5.0)))
def test_entropy_mode_and_log_prob_equal_enumeration(parts):
    domain, potentials = parts
    model = qf.Model(domain, potentials)
    p, _ = joint(domain, potentials)
    logs = np.log(p[p > 0])
    assert model.entropy() == pytest.approx(-(p[p > 0] * logs).sum(), abs=1e-8)
    best = model.mode()
    assert p[tuple(best[name] for name in domain)] == pytest.approx(p.max())
    everyone = np.array(list(np.ndindex(*domain.shape)))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.log_prob(everyone), np.log(p.ravel()), atol=1e-8)


@given(models(scales=(0.0, 1.0, 20.0)), st.data())
def test_the_most_probable_record_given_evidence_equals_enumeration(parts, data):
    """With impossible combinations, ties (a scale of 0), one known label or several, and impossible evidence."""
    domain, potentials = parts
    model = qf.Model(domain, potentials)
    p, _ = joint(domain, potentials)
    known = {}
    for name in data.draw(st.lists(st.sampled_from(domain.attributes), unique=True)):
        labels = data.draw(st.lists(st.integers(0, domain.size(name) - 1), min_size=1, unique=True))
        known[name] = labels[0] if len(labels) == 1 and data.draw(st.booleans()) else labels
    allowed = np.zeros(domain.shape, bool)
    allowed[np.ix_(*(np.atleast_1d(known.get(name, range(domain.size(name)))) for name in domain))] = True
    if not (allowed & (p > 0)).any():
        if not (allowed & possible(domain)).any():
            with pytest.raises(Error, match="probability 0"):
                model.mode(known)
        return
    best = model.mode(known)
    assert list(best) == list(domain)
    cell = tuple(best[name] for name in domain)
    assert allowed[cell]
    assert p[cell] == pytest.approx(p[allowed].max(), rel=1e-9)
    assert qf.Model(domain, potentials).mode(known) == best


def test_evidence_of_the_most_probable_record_is_checked(small):
    assert small.mode()["sex"] == small.mode(given={})["sex"]
    assert small.mode(given={"pregnant": "yes", "spare": 1}) | {"age": 0, "job": "none"} == {
        "age": 0, "sex": "f", "pregnant": "yes", "job": "none", "spare": 1
    }  # fmt: skip
    for known, message in (
        ({"sex": "m", "pregnant": "yes"}, "probability 0"), ({"sex": "x"}, "not a value of 'sex'"),
        ({"sex": []}, "probability 0"), ({"se": "f"}, "not an attribute"), ("sex", "given maps attributes"),
    ):  # fmt: skip
        with pytest.raises(Error, match=message):
            small.mode(given=known)


def test_the_most_probable_record_equals_pgmpys():
    inference = pytest.importorskip("pgmpy.inference")
    domain = qf.Domain({name: [f"{name}{i}" for i in range(3)] for name in "abcdef"})
    random = np.random.default_rng(1)
    model = qf.Model(domain, {c: 2 * random.normal(size=(3, 3)) for c in structures.grid(domain, 3)})
    peer = inference.VariableElimination(interop.to_pgmpy(model))
    for known in ({}, {"a": "a2"}, {"a": "a1", "f": "f0"}):
        found = peer.map_query([name for name in domain if name not in known], known, show_progress=False)
        assert {**found, **known} == model.mode(known)


class TestLabelledAnswers:
    def test_every_cell_has_its_labels(self, small):
        for wanted, known in ((("job", "age"), None), ("sex", {}), (("sex", "job"), {"age": [2, 3]}), ((), None)):
            frame = small.query(wanted, known)
            table = small.conditional(wanted, known) if known else small.marginal(wanted)
            names = [wanted] if isinstance(wanted, str) else list(wanted)
            assert list(frame.columns) == [*names, "probability"]
            assert len(frame) == table.size
            for row in frame.to_dict("records"):
                cell = tuple(small.domain.code(name, row[name]) for name in names)
                assert row["probability"] == table[cell]
        assert frame.attrs["basis"]
        jobs = small.query("job")["job"]
        assert list(jobs.cat.categories) == ["none", "works", "retired"]
        wide = small.query(("job", "age")).pivot(index="job", columns="age", values="probability")
        np.testing.assert_array_equal(wide.to_numpy(), small.marginal(("job", "age")))

    def test_with_a_level_the_ends_of_intervals_stand_beside(self):
        domain = qf.Domain({"a": ["x", "y"], "probability": 2, "c": 2})
        tables = {("a", "probability"): [[500, 90], [110, 300]], ("probability", "c"): [[300, 310], [200, 190]]}
        model = qf.fit(qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000))
        frame = model.query(("a", "probability"), level=0.8)
        assert list(frame.columns) == ["a", "probability", "probability_", "low", "high"]
        low, high = model.interval(("a", "probability"), 0.8)
        np.testing.assert_array_equal(frame["low"], low.ravel())
        np.testing.assert_array_equal(frame["high"], high.ravel())
        assert (frame["low"] <= frame["probability_"]).all()
        assert frame.attrs["basis"] == basis.COUNTED
        given = model.query("a", {"c": 1}, level=0.8)
        np.testing.assert_allclose(given["high"], model.interval("a", 0.8, given={"c": 1})[1])
        assert given.attrs["basis"] == basis.INFERRED

    def test_without_pandas_the_error_says_what_to_do(self, small, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(Error, match=r"pip install pandas\. Without it, use model\.marginal"):
            small.query("sex")
        with pytest.raises(Error, match=r"pip install pandas"):
            qf.people_tables(small, ["sex"]).tables[0].to_pandas()


@COMPILED
@given(models(scales=(1.0,), impossible=False), st.integers(0, 2**32))
def test_divergence_between_different_cliques_equals_enumeration(parts, seed):
    domain, potentials = parts
    random = np.random.default_rng(seed)
    p, _ = joint(domain, potentials)
    other = {c: random.normal(size=domain.table_shape(c)) for c in structures.chain(domain)}
    q, _ = joint(domain, other)
    mine, theirs = qf.Model(domain, potentials), qf.Model(domain, other)
    assert mine.kl(theirs) == pytest.approx((p * np.log(p / q)).sum(), abs=1e-8)
    assert theirs.kl(mine) == pytest.approx((q * np.log(q / p)).sum(), abs=1e-8)
    assert mine.kl(mine) == pytest.approx(0, abs=1e-9)


def test_divergence_is_infinite_where_the_other_forbids(small):
    free = qf.Model(qf.Domain({a: small.domain.labels(a) for a in small.domain}), small.potentials)
    assert free.kl(small) == math.inf
    assert 0 < small.kl(free) < math.inf


def test_impossible_combinations_have_probability_zero_everywhere(small):
    """Also outside the cliques: no clique joins sex and pregnant."""
    assert small.marginal(("sex", "pregnant"))[1, 1] == 0
    assert small.marginal(("job", "sex", "age"))[2, :, :2].max() == 0
    assert small.conditional("pregnant", given={"sex": "m"}).tolist() == [1.0, 0.0]
    frame = small.sample(20_000, seed=0)
    assert not ((frame["sex"] == "m") & (frame["pregnant"] == "yes")).any()
    assert not ((frame["age"] < 2) & (frame["job"] == "retired")).any()
    assert small.log_prob({name: [small.domain.labels(name)[-1]] for name in small.domain})[0] == -math.inf


def test_axes_follow_the_names_as_given(small):
    one, two = small.marginal(("age", "job")), small.marginal(("job", "age"))
    assert one.shape == (4, 3)
    np.testing.assert_allclose(one, two.T)
    assert list(small.marginals()) == [("age", "sex"), ("pregnant", "age"), ("job", "age")]
    np.testing.assert_allclose(small.marginals()["job", "age"], two)


@COMPILED
@given(models(scales=(1.0, 3.0)), st.integers(0, 2**32))
def test_samples_follow_the_model(parts, seed):
    """Chi-square over all records; false-alarm rate 1e-6 an example. The planted bug is in the next test."""
    domain, potentials = parts
    p, _ = joint(domain, potentials)
    codes = qf.Model(domain, potentials).sample(4000, seed=seed).codes
    assert chi_square(codes, p) > 1e-6
    assert possible(domain)[tuple(codes.T)].all()


def chi_square(codes, p):
    """The p-value of records against a joint distribution, rare cells pooled."""
    counts = np.bincount(np.ravel_multi_index(codes.T, p.shape), minlength=p.size)
    expected = len(codes) * p.ravel()
    common = expected >= 5
    seen = np.array([*counts[common], counts[~common].sum()])
    wanted = np.array([*expected[common], expected[~common].sum()])
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    return stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue if len(seen) > 1 else 1.0


def test_the_chi_square_test_catches_a_wrong_model(small):
    domain = qf.Domain({"a": 3, "b": 3})
    table = np.random.default_rng(0).normal(size=(3, 3))
    p, _ = joint(domain, {("a", "b"): 1.3 * table})
    codes = qf.Model(domain, {("a", "b"): table}).sample(4000, seed=0).codes
    assert chi_square(codes, p) < 1e-6


def test_a_seed_gives_the_same_records_and_another_seed_others(small):
    one, two, three = (small.sample(100_000, seed=s).codes for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)
    assert len(small.sample(0, seed=0)) == 0


def test_log_prob_takes_records_of_any_kind(small):
    import pandas as pd
    import polars as pl

    frame = small.sample(50, seed=0)
    expected = small.log_prob(frame.codes)
    columns = {name: frame[name] for name in frame.columns}
    for records in (frame, columns, pd.DataFrame(columns), pl.DataFrame(columns), frame.to_arrow(), frame.to_pandas()):
        np.testing.assert_allclose(small.log_prob(records), expected)
    assert small.log_prob(frame.codes[0]).shape == (1,)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (np.zeros((2, 3), int), r"shape \(records, 5\)"),
        (np.zeros((2, 5)), "integer codes"),
        (np.full((2, 5), 9), "outside"),
        ({"age": [0]}, "no column 'sex', 'pregnant'"),
        (
            {"age": [7], "sex": ["f"], "pregnant": ["no"], "job": ["none"], "spare": [0]},
            "'age' holds a value that is not",
        ),
        ({"age": ["Smith"], "sex": ["f"], "pregnant": ["no"], "job": ["none"], "spare": [0]}, "whole numbers"),
        (7, "not an int"),
    ],
)
def test_bad_records_are_refused_without_quoting_them(small, records, message):
    with pytest.raises(Error, match=message) as caught:
        small.log_prob(records)
    assert "Smith" not in str(caught.value)
    assert "7" not in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.marginal("size"), "'size' is not an attribute; expected one of 'age'"),
        (lambda m: m.marginal(("age", "age")), "twice"),
        (lambda m: m.conditional("age", {"sex": "x"}), "'x' is not a value of 'sex'; expected one of 'f', 'm'"),
        (lambda m: m.conditional("age", {"age": 1}), "both asked for and given"),
        (lambda m: m.conditional("age", {"sex": "m", "pregnant": "yes"}), "probability 0"),
        (lambda m: m.sample(-1), "0 or more"),
        (lambda m: m.sample(5, seed=0, chains=4), "Gibbs"),
        (lambda m: m.kl(qf.Model(qf.Domain({"a": 2}), {})), "different attributes"),
        (lambda m: qf.Model({"a": 2}, {}), "a Domain, not a dict"),
        (lambda m: m.sample(5, seed=-1), "a seed is a whole number of 0"),
        (lambda m: m.marginal(3), "an attribute's name or several"),
        (lambda m: m.conditional("age", "sex"), "given maps attributes to labels"),
        (lambda m: m.kl(3), "a divergence is from a Model"),
        (lambda m: qf.Model(m.domain, None), "expected a mapping"),
        (lambda m: qf.Model(m.domain, {}, inference="magic"), "'magic' is not a kind of inference"),
    ],
)
def test_questions_that_make_no_sense_are_refused(small, ask, message):
    with pytest.raises(Error, match=message):
        ask(small)


def test_a_list_of_values_is_evidence_too(small):
    table = small.marginal(("sex", "age"))
    expected = table[:, 1:3].sum(1) / table[:, 1:3].sum()
    np.testing.assert_allclose(small.conditional("sex", {"age": [1, 2]}), expected, atol=1e-12)


def test_save_and_load_give_the_same_model(small, tmp_path):
    small.save(tmp_path / "m.qfm")
    again = qf.Model.load(tmp_path / "m.qfm")
    assert again.domain == small.domain
    assert again.cliques == small.cliques
    assert all(np.array_equal(again.potentials[c], small.potentials[c]) for c in small.cliques)
    first = (tmp_path / "m.qfm").read_bytes()
    again.save(tmp_path / "m2.qfm")
    assert (tmp_path / "m2.qfm").read_bytes() == first
    loopy = qf.Model(small.domain, small.potentials, inference="loopy", options={"damping": 0.5})
    loopy.save(tmp_path / "l.qfm")
    assert (qf.Model.load(tmp_path / "l.qfm").inference, qf.Model.load(tmp_path / "l.qfm").options) == (
        "loopy",
        {"damping": 0.5},
    )


def test_damaged_and_foreign_files_are_refused(small, tmp_path):
    path = tmp_path / "m.qfm"
    small.save(path)
    whole = path.read_bytes()
    for length in {0, 1, 20, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"damaged|not"):
            qf.Model.load(path)
    refused = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            kept = qf.Model.load(path)  # a byte that carries no content, such as a date of the zip
            assert all(np.array_equal(kept.potentials[c], small.potentials[c]) for c in small.cliques)
        except Error:
            refused += 1
    assert refused > 0.8 * len(range(0, len(whole), 7))
    path.write_text("name,age\n")
    with pytest.raises(FileError, match="is not a quietfield model"):
        qf.Model.load(path)
    with pytest.raises(FileError, match="cannot read"):
        qf.Model.load(tmp_path / "absent.qfm")
    with pytest.raises(FileError, match="cannot write"):
        small.save(tmp_path / "no" / "such" / "folder.qfm")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.qfm"]


def test_a_file_of_another_version_or_with_swapped_tables_is_refused(small, tmp_path):
    path = tmp_path / "m.qfm"
    small.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def write(manifest, tables=parts["tables.safetensors"]):
        write_archive(path, {"manifest.json": manifest, "tables.safetensors": tables})

    manifest = parts["manifest.json"]
    assert b'"kind":"model"' in manifest
    write(manifest.replace(b'"version":1}', b'"version":9}'))
    with pytest.raises(FileError, match="version 9; this quietfield reads version 1"):
        qf.Model.load(path)
    write(manifest.replace(b'"kind":"model"', b'"kind":"release"'))
    with pytest.raises(FileError, match="not a quietfield model but a 'release'"):
        qf.Model.load(path)
    release = {**parts, "manifest.json": manifest.replace(b'"kind":"model"', b'"kind":"release"')}
    write_archive(path, {**release, "signature.json": b"{}"})
    with pytest.raises(FileError, match="not a quietfield model but a 'release'"):
        qf.Model.load(path)
    write(manifest, parts["tables.safetensors"][:-8] + b"\0" * 8)
    with pytest.raises(FileError, match="does not match its digest"):
        qf.Model.load(path)
    write(manifest.replace(b'["age","sex"]', b'["age","spare"]'))  # the same shape: only the digest tells
    with pytest.raises(FileError, match="does not match its digest"):
        qf.Model.load(path)


def test_representations(small):
    assert repr(small) == "Model of 5 attributes and 3 cliques (28 log-potentials, exact inference)"
    html = qf.Model(qf.Domain({"<b>": 2, '"&': 2}), {("<b>", '"&'): np.eye(2)})._repr_html_()
    assert "<svg" in html
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    frame = small.sample(20, seed=0)
    assert "20 records" in repr(frame)
    assert frame._repr_html_().count("<tr>") == 9


def test_frames_travel(small, tmp_path):
    import polars as pl

    frame = small.sample(500, seed=0)
    assert pl.DataFrame(frame).shape == (500, 5)
    for name in ("records.csv", "records.parquet"):
        frame.save(tmp_path / name)
        back = (pl.read_csv if name.endswith("csv") else pl.read_parquet)(tmp_path / name)
        np.testing.assert_allclose(small.log_prob(back), small.log_prob(frame))
    with pytest.raises(FileError, match=r"\.csv or \.parquet"):
        frame.save(tmp_path / "records.xls")


class TestLoopyModels:
    @pytest.fixture(scope="class")
    @staticmethod
    def grid():
        domain = qf.Domain({f"x{i}": 3 for i in range(9)}, [{"x0": 0, "x1": 0}])
        random = np.random.default_rng(0)
        potentials = {c: 0.4 * random.normal(size=(3, 3)) for c in structures.grid(domain, 3)}
        return qf.Model(domain, potentials), qf.Model(domain, potentials, inference="loopy")

    def test_marginals_inside_cliques_are_close(self, grid):
        exact, loopy = grid
        for clique in exact.cliques:
            np.testing.assert_allclose(loopy.marginal(clique), exact.marginal(clique), atol=0.02)
        np.testing.assert_allclose(loopy.marginal("x4"), exact.marginal("x4"), atol=0.02)
        assert loopy.entropy() == pytest.approx(exact.entropy(), abs=0.05)

    def test_what_needs_exact_inference_says_so(self, grid):
        for ask in (
            lambda m: m.mode(),
            lambda m: m.kl(m),
        ):
            with pytest.raises(Error, match=r"'loopy' inference, and .* needs exact inference; .*model\.sample"):
                ask(grid[1])

    def test_answers_across_cliques_are_estimated_from_gibbs_samples(self, grid):
        """33 shares within 6 standard errors of exact inference: a false alarm has a chance of 1e-7."""
        exact, loopy = grid
        known = {"x2": 1, "x4": [0, 2], "x7": 2}
        for wanted, facts in ((("x8", "x0"), None), ("x5", known), (("x6", "x0"), known), (("x3", "x8"), {"x4": 2})):
            found = loopy.query(wanted, facts)
            truth = (exact.conditional(wanted, facts) if facts else exact.marginal(wanted)).ravel()
            errors = found["monte_carlo_error"]
            assert ((found["probability"] - truth).abs() <= 6 * errors).all()
            assert errors.between(1e-4, 0.02).all()
            assert found.attrs["estimate"].startswith("estimated from a Gibbs sample of 10,000 records in 500 chains")
        blind = exact.marginal("x5")  # what forgets the evidence is seen
        found = loopy.query("x5", known)
        assert ((found["probability"] - blind).abs() > 6 * found["monte_carlo_error"]).any()

    def test_answers_inside_cliques_need_no_sample(self, grid):
        exact, loopy = grid
        assert loopy.estimate("x4", {"x5": 1}) is None
        assert loopy.estimate(("x0", "x1")) is None
        assert exact.estimate(("x0", "x8")) is None
        np.testing.assert_allclose(
            loopy.conditional("x4", {"x5": [1, 2]}), exact.conditional("x4", {"x5": [1, 2]}), atol=0.02
        )
        assert "monte_carlo_error" not in loopy.query("x4", {"x5": 1})
        for facts in ({"x0": 0, "x1": 0}, {"x0": 0, "x1": 0, "x8": 1}):
            with pytest.raises(Error, match="probability 0"):
                loopy.conditional("x4", facts)

    def test_gibbs_samples_follow_the_model(self, grid):
        """Pair tables of 9,000 records from 3,000 independent chains against exact marginals: within 5 sigma."""
        exact, loopy = grid
        frame = loopy.sample(9000, seed=1, chains=3000, burn_in=60, thin=20)
        assert np.array_equal(frame.codes, loopy.sample(9000, seed=1, chains=3000, burn_in=60, thin=20).codes)
        effective = frame.diagnostics.effective
        assert 2000 < effective <= 9000
        for clique in exact.cliques:
            table = exact.marginal(clique)
            a, b = (frame.codes[:, exact.domain.position(name)] for name in clique)
            shares = np.bincount(a * 3 + b, minlength=9).reshape(3, 3) / len(frame)
            assert (np.abs(shares - table) <= 5 * np.sqrt(table * (1 - table) / effective) + 1e-12).all()
        assert ((frame["x0"] == 0) & (frame["x1"] == 0)).sum() == 0
        assert frame.diagnostics.distance < 2 * frame.diagnostics.expected
        assert "effective sample size" in str(frame.diagnostics)

    def test_attributes_that_only_a_rule_mentions(self):
        domain = qf.Domain({"a": 2, "b": 2, "c": 2}, [{"a": 0, "c": 1}])
        exact, loopy = (qf.Model(domain, {("a", "b"): np.eye(2)}, inference=m) for m in ("exact", "loopy"))
        np.testing.assert_allclose(loopy.marginal("c"), exact.marginal("c"), atol=1e-6)
        frame = loopy.sample(4000, seed=0)
        assert abs((frame["c"] == 1).mean() - exact.marginal("c")[1]) < 0.05
        assert not ((frame["a"] == 0) & (frame["c"] == 1)).any()

    def test_offsets_of_potentials_do_not_matter_to_gibbs(self):
        domain = qf.Domain({"a": 2, "b": 2})
        table = np.array([[0, 1.0], [2, 0]])
        low, high = (
            qf.Model(domain, {("a", "b"): table + s}, inference="loopy").sample(500, seed=0) for s in (0, -20000)
        )
        assert np.array_equal(low.codes, high.codes)

    def test_few_chains_do_not_look_better_than_they_are(self):
        """Two chains that hardly move: the effective size must not be the number of records."""
        names = [f"x{i}" for i in range(4)]
        potentials = {c: 4 * np.eye(2) for c in structures.grid(names, 2)}
        stuck = qf.Model(qf.Domain(dict.fromkeys(names, 2)), potentials, inference="loopy")
        with pytest.warns(qf.inference.NotConverged, match="NOT TO BE TRUSTED"):
            frame = stuck.sample(2000, seed=0, chains=40, burn_in=5, thin=1)
        assert frame.diagnostics.effective < 1000

    def test_chains_that_cannot_move_are_told(self):
        """a and b must be equal, so that neither can change alone."""
        domain = qf.Domain({"a": 2, "b": 2}, [{"a": 0, "b": 1}, {"a": 1, "b": 0}])
        model = qf.Model(domain, {("a", "b"): np.array([[0.0, 0.0], [0.0, 1.3]])}, inference="convex")
        with pytest.warns(qf.inference.NotConverged, match="most chains never changed 'a', 'b'"):
            frame = model.sample(1000, seed=0)
        assert frame.diagnostics.stuck == ("a", "b")

    @pytest.mark.parametrize("options", [{"chains": 0}, {"chains": 2.5}, {"thin": 0}, {"burn_in": -1}, {"foo": 3}])
    def test_bad_options_of_gibbs_are_refused(self, grid, options):
        with pytest.raises(Error, match=next(iter(options))):
            grid[1].sample(10, seed=0, **options)

    def test_gibbs_refuses_to_return_impossible_records(self):
        names = [f"x{i}" for i in range(8)]
        rules = [{a: i, b: 1 - i} for a, b in pairwise(names) for i in (0, 1)]
        model = qf.Model(
            qf.Domain(dict.fromkeys(names, 2), rules), {(n,): [0.0, 0.0] for n in names}, inference="loopy"
        )
        with pytest.raises(Error, match="burn_in"):
            model.sample(200, seed=0, burn_in=1)


def test_more_records_than_memory_holds_are_refused():
    model = qf.simulate("chain", attributes=3, states=2).model
    with pytest.raises(TooLarge, match=r"1,000,000,000,000,000 records of 3 attributes need about 3 PB"):
        model.sample(10**15)


def test_a_joint_distribution_is_a_copy():
    domain = qf.Domain({"a": 2, "b": 2, "c": 2})
    model = qf.Model(domain, {c: np.eye(2) for c in (("a", "b"), ("b", "c"), ("a", "c"))})
    table = model.marginal(["a", "b", "c"])
    kept = table.copy()
    table[:] = 0
    np.testing.assert_array_equal(model.marginal(["a", "b", "c"]), kept)


def test_many_attributes_of_one_value_stand_beside_others_in_a_joint_distribution():
    domain = qf.Domain({**{f"x{i}": 1 for i in range(60)}, "y": 3})
    names = list(domain)
    model = qf.Model(
        domain,
        {pair: np.arange(domain.cells(pair)).reshape(domain.table_shape(pair)) for pair in pairwise(names)},
    )
    wanted = ["y", *names[:20]]
    assert model.marginal(wanted).shape == (3, *(1,) * 20)
    np.testing.assert_allclose(model.marginal(wanted).ravel(), model.marginal("y"))


def test_a_model_without_possible_records_has_no_joint_distribution():
    rules = [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "c": 0}, {"a": 1, "c": 1}]
    model = qf.Model(qf.Domain({"a": 2, "b": 2, "c": 2}, rules), {("a",): [0.0, 0.0], ("b",): [0.0, 0.0]})
    with pytest.raises(qf.Error, match="no possible record"):
        model.marginal(["a", "b"])


def test_what_impossible_combinations_alone_connect_is_an_association():
    domain = qf.Domain({"a": 2, "b": 2, "c": 2}, [{"a": 0, "b": 0}, {"a": 1, "b": 1}])
    found = qf.Model(domain, {("c",): [0.0, 0.0]})._calibration.contingency()
    np.testing.assert_allclose(found, [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-12)
