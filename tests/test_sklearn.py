"""The scikit-learn estimator: scikit-learn's own checks, and what they do not know about privacy."""

import pickle
import subprocess
import sys
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import quietfield as qf

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

from quietfield.curator.codes import codes  # noqa: E402
from quietfield.errors import BudgetExceeded  # noqa: E402
from quietfield.sklearn import (  # noqa: E402
    EXPECTED_FAILED_CHECKS,
    ConfidentialWarning,
    DPMarkovRandomField,
    InputError,
)

SCHEMA = qf.Schema({"age": qf.Cuts([18, 65]), "sex": qf.Labels(["f", "m"], null="not said"), "visits": [0, 1, 2]})
CLIQUES = [("age", "sex"), ("sex", "visits")]
hardly_any_noise = pytest.mark.filterwarnings("ignore:epsilon .* promises next to nothing")


def field(schema: Any = SCHEMA, structure: Any = CLIQUES, **changed: Any) -> DPMarkovRandomField:
    said = {"epsilon": 10, "unit": qf.Rows(1), "ledger": None, "method": "naive"}
    return DPMarkovRandomField(schema, structure, **{**said, **changed})


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    random = np.random.default_rng(0)
    sex = random.choice(np.array(["f", "m", None], dtype=object), 3000, p=[0.5, 0.45, 0.05])
    visits = np.where(sex == "f", random.integers(0, 3, 3000), 0)
    return pd.DataFrame({"age": random.integers(0, 90, 3000), "sex": sex, "visits": visits})


ALONE = partial(qf.structures.complete, size=1)
SMALL = field(qf.Cuts([-1, 0, 1, 100]), ALONE, epsilon=100)
LIKE_A_USER = field(qf.Cuts([-1, 0, 1, 100]), qf.structures.chain, epsilon=100, method="map")  # a check has one record


def checks(estimator: Any) -> list[Any]:
    """Scikit-learn's checks; its own parametrisation puts addresses of functions into the names of tests."""
    found = estimator_checks_generator(estimator, expected_failed_checks=EXPECTED_FAILED_CHECKS, mark="xfail")
    return [_named(*_apart(each)) for each in found]


def _apart(found: Any) -> tuple[Any, Any]:
    return found.values if hasattr(found, "values") else found


def _named(estimator: Any, check: Any) -> Any:
    name = check.func.__name__
    marks = [pytest.mark.xfail(reason=EXPECTED_FAILED_CHECKS[name])] if name in EXPECTED_FAILED_CHECKS else []
    options = "-".join(str(value) for value in check.keywords.values() if isinstance(value, str | bool))
    return pytest.param(estimator, check, marks=marks, id=f"{name}-{options}" if options else name)


@pytest.mark.filterwarnings("ignore::quietfield.sklearn.ConfidentialWarning")
@hardly_any_noise
@pytest.mark.parametrize(("estimator", "check"), checks(SMALL))
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::quietfield.sklearn.ConfidentialWarning")
@hardly_any_noise
@pytest.mark.parametrize(("estimator", "check"), checks(LIKE_A_USER))
def test_the_checks_of_scikit_learn_with_the_default_method(estimator: Any, check: Any) -> None:
    check(estimator)


def test_only_what_is_listed_is_expected_to_fail() -> None:
    assert set(EXPECTED_FAILED_CHECKS) == {"check_estimators_empty_data_messages"}
    none = field([0, 1], ALONE)
    with suppress(qf.Error):  # from the noisy tables alone: their sum may happen not to be positive
        none.fit(np.zeros((0, 2)))
    assert none.release_.tables["x0"].shape == (2,)  # whether there are records is private: they were released


def test_scores_are_the_models_own_and_in_order(people: pd.DataFrame) -> None:
    fitted = field().fit(people)
    with pytest.warns(ConfidentialWarning, match="NOT PRIVATE: score_samples"):
        scores = fitted.score_samples(people)
    age = np.digitize(people["age"], [18, 65])
    sex = people["sex"].map({"f": 0, "m": 1}).fillna(2).astype(int)
    expected = fitted.model_.log_prob(np.stack([age, sex, people["visits"]], axis=1))
    np.testing.assert_allclose(scores, expected)
    with pytest.warns(ConfidentialWarning, match="NOT PRIVATE: score "):
        assert fitted.score(people) == pytest.approx(expected.mean())


def test_a_record_that_is_not_counted_has_no_score(people: pd.DataFrame) -> None:
    fitted = field().fit(people)
    strange = pd.DataFrame({"age": [30.0, np.nan, 30.0], "sex": ["f", "f", "x"], "visits": [1, 1, 1]})
    with pytest.warns(ConfidentialWarning):
        scores = fitted.score_samples(strange)
    assert np.isnan(scores).tolist() == [False, True, True]
    with pytest.warns(ConfidentialWarning):
        assert fitted.score(strange) == pytest.approx(scores[0])
    with pytest.warns(ConfidentialWarning):
        assert np.isnan(fitted.score(strange[1:]))


def test_the_order_is_kept_among_many_records() -> None:
    many = np.random.default_rng(1).integers(0, 50, 600_000)
    assert (codes({"a": many}, qf.Schema({"a": 50}))[:, 0] == many).all()


@pytest.mark.parametrize(
    "rule",
    [
        qf.Labels(["b", "a"]),
        qf.Labels(["b", "a"], null="none", unknown="other"),
        qf.Labels(["b", "a"], unknown="outside"),
        qf.Labels(["b", "a"], null="a"),
    ],
)
def test_codes_agree_with_what_is_counted(rule: qf.Labels) -> None:
    values = ["a", None, "b", "c", "a", ""]
    schema = qf.Schema({"x": rule})
    found = codes({"x": values}, schema)[:, 0]
    from quietfield.cliques import Structure
    from quietfield.curator.counting import count
    from quietfield.privacy.units import Rows, statistics

    wanted = statistics(Structure((("x",),)), schema.domain, Rows(1), "add_remove", total=True)
    counts = count({"x": values}, schema, wanted, Rows(1))
    assert np.bincount(found[found >= 0], minlength=len(rule.labels)).tolist() == counts.tables[0].tolist()
    assert len(found) == len(values)


def test_what_is_drawn_may_be_scored_without_a_warning(people: pd.DataFrame) -> None:
    fitted = field().fit(people)
    drawn = fitted.sample(50, random_state=3)
    assert drawn.codes.tolist() == fitted.sample(50, random_state=3).codes.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fitted.score_samples(drawn)) == 50
        assert fitted.score(drawn) == pytest.approx(fitted.score_samples(drawn).mean())
    for state in (np.random.RandomState(5), np.random.default_rng(5)):
        assert len(fitted.sample(7, random_state=state)) == 7


@hardly_any_noise
@pytest.mark.parametrize(
    "given",
    [
        lambda frame: frame,
        lambda frame: pl.from_pandas(frame),
        lambda frame: pa.Table.from_pandas(frame),
        lambda frame: frame.to_dict("list"),
        lambda frame: frame.to_numpy(dtype=object),
        lambda frame: frame.to_numpy(dtype=object).tolist(),
    ],
)
def test_the_same_records_in_any_form(people: pd.DataFrame, given: Any) -> None:
    fitted = field(epsilon=1000).fit(given(people))
    assert fitted.n_features_in_ == 3
    counts = pd.crosstab(np.digitize(people["age"], [18, 65]), people["sex"].fillna("not said"))[["f", "m", "not said"]]
    np.testing.assert_allclose(fitted.release_.tables["age", "sex"], counts.to_numpy(), atol=1)


@pytest.mark.filterwarnings("ignore:X has feature names")  # a path has none
def test_a_path_is_fitted_too(people: pd.DataFrame, tmp_path: Path) -> None:
    people.to_csv(tmp_path / "people.csv", index=False)
    fitted = field().fit(str(tmp_path / "people.csv"))
    assert fitted.n_features_in_ == 3
    with pytest.warns(ConfidentialWarning):
        from_file = fitted.score(tmp_path / "people.csv")
    with pytest.warns(ConfidentialWarning):
        assert from_file == pytest.approx(fitted.score(people))


@hardly_any_noise
def test_a_sample_can_be_fitted_again(people: pd.DataFrame) -> None:
    first = field(epsilon=1000).fit(people)
    again = field(epsilon=1000).fit(first.sample(20_000, random_state=0))
    assert first.model_.kl(again.model_) < 0.01
    with pytest.raises(qf.Error, match="other attributes or labels"):
        field(schema=qf.Schema({"a": 2}), structure=["a"]).fit(first.sample(5))


def test_pickled_and_cloned(people: pd.DataFrame) -> None:
    fitted = field().fit(people)
    same = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(same.model_.marginal("age"), fitted.model_.marginal("age"))
    np.testing.assert_array_equal(same.release_.tables["age", "sex"], fitted.release_.tables["age", "sex"])
    unfitted = clone(fitted).set_params(epsilon=2)
    assert unfitted.get_params()["epsilon"] == 2
    assert not hasattr(unfitted, "model_")
    with pytest.raises(NotFittedError):
        unfitted.sample(1)


@pytest.mark.filterwarnings("ignore::quietfield.sklearn.ConfidentialWarning")
@pytest.mark.filterwarnings("ignore:epsilon")  # too small in one half of the search, and too large in the other
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_cross_validation_and_pipelines(people: pd.DataFrame) -> None:
    scores = cross_val_score(field(), people, cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(field(), {"epsilon": [1e-4, 100.0]}, cv=2).fit(people)
    assert search.best_params_ == {"epsilon": 100.0}
    pipe = make_pipeline(FunctionTransformer(lambda frame: frame.assign(age=frame["age"] + 0)), field()).fit(people)
    assert pipe.score(people) == pytest.approx(scores.mean(), abs=0.2)
    assert len(pipe[-1].sample(4)) == 4


def test_every_fit_is_paid_for(people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    qf.Ledger.create(path, epsilon=2, unit=qf.Rows(1))
    paying = field(epsilon=1, ledger=str(path))
    clone(field(epsilon=1, ledger=qf.Ledger(path))).fit(people)  # a copy of an open ledger pays from the same file
    assert qf.Ledger(path).remaining == 1
    paying.fit(people)
    with pytest.raises(BudgetExceeded):
        paying.fit(people)
    with pytest.warns(ConfidentialWarning):  # a score pays nothing, and says so
        paying.score(people)


def test_a_method_that_learns_from_tables_alone_gets_tables():
    codes = np.random.default_rng(0).integers(0, 2, (500, 12))
    schema = qf.Schema({f"q{i}": [0, 1] for i in range(12)})
    asked = {"epsilon": 1, "delta": "1e-6", "noise": "gaussian"}
    pairs = qf.structures.complete
    assert not field(schema, pairs, method="cgm", **asked).fit(codes).release_.interactions
    assert field(schema, pairs, method="map", **asked).fit(codes).release_.interactions


@hardly_any_noise
def test_persons_are_protected(people: pd.DataFrame) -> None:
    rows = people.assign(user=np.arange(len(people)) // 10)
    fitted = field(unit=qf.Person("user", rows=1), epsilon=1000, total=True).fit(rows)
    assert fitted.release_.total == pytest.approx(300, abs=5)
    assert fitted.schema_.domain.attributes == ("age", "sex", "visits")
    with pytest.raises(qf.Error, match="'user'"):
        field(unit=qf.Person("user", rows=1)).fit(people.to_numpy(dtype=object))


def test_one_rule_for_all_columns(people: pd.DataFrame) -> None:
    derived = type("Derived", (pd.DataFrame,), {})  # as GeoDataFrame is
    for kind in (pd.DataFrame, derived, pl.DataFrame):
        fitted = field(3, qf.structures.chain).fit(kind({"a": [0, 1, 2], "b": [2, 1, 0]}))
        assert fitted.schema_.domain.attributes == ("a", "b")
    with pytest.raises(qf.Error, match="one rule for all columns"):
        field(3, qf.structures.chain).fit({"a": [0, 1, 2]})
    for wrong in (None, {"a": 2}, "ab"):
        with pytest.raises(qf.Error, match="schema is a Schema"):
            field(wrong).fit(people)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.array([7, 7, 7]), "Expected 2D array, got 1D"),
        (np.array([[7 + 1j]]), "Complex data not supported"),
        (np.array([[7, 7]]), "X has 2 features, but the schema reads 3 columns"),
        (np.array([[7, 7, 7]]), "labels of 'sex' are texts"),
        (np.zeros((7, 0)), "0 feature"),
    ],
)
def test_refusals_quote_no_value(X: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        field().fit(X)
    text = str(caught.value)
    assert "7" not in text.replace("shape=(7, 0)", "")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, qf.Error)


def test_without_scikit_learn_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import quietfield.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'scikit-learn>=1.6'" in done.stderr.splitlines()[-1]
