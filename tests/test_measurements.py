"""Measurements that mbi and OpenDP made are read as releases, without either being imported by the package."""

import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield import interop

SIZES = {"a": 2, "b": 3, "c": 2}


def measured(clique: tuple[str, ...], values: Any, stddev: float = 2.0, **more: Any) -> Any:
    return SimpleNamespace(clique=clique, noisy_measurement=np.asarray(values, float).ravel(), stddev=stddev, **more)


def test_tables_totals_and_noise() -> None:
    ab, c = np.arange(6.0).reshape(2, 3), [4.0, 5.0]
    both = [measured(("a", "b"), ab), measured(("c",), c, 3.0), measured((), [20.5], 4.0)]
    for kind, noise in (("gaussian", qf.Gaussian), ("laplace", qf.Laplace)):
        release = interop.from_mbi(SIZES, both, noise=kind)  # type: ignore[arg-type]
        np.testing.assert_array_equal(release.tables["a", "b"], ab)
        np.testing.assert_array_equal(release.tables["b", "a"], ab.T)
        assert release.total == 20.5
        assert isinstance(release.noise["c",], noise)
        assert release.noise["c",].std == pytest.approx(3)
        assert release.total_noise is not None
        assert release.total_noise.std == pytest.approx(4)


def test_repeated_gaussian_measurements_are_averaged_by_precision() -> None:
    ab = np.arange(6.0).reshape(2, 3)
    twice = [measured(("a", "b"), ab, 1.0), measured(("b", "a"), ab.T + 5, 2.0)]
    release = interop.from_mbi(SIZES, twice, noise="gaussian")
    np.testing.assert_allclose(release.tables["a", "b"], ab + 1)  # weights 4/5 and 1/5
    assert release.noise["a", "b"].std == pytest.approx(np.sqrt(4 / 5))
    with pytest.raises(qf.Error, match=r"measured 2 times with Laplace"):
        interop.from_mbi(SIZES, twice, noise="laplace")


@pytest.mark.parametrize(
    ("domain", "measurements", "said"),
    [
        (SIZES, [measured(("a", "z"), [1] * 4)], "'z'"),
        (SIZES, [measured(("a", "b"), [1] * 4)], "4 values and its table 6 cells"),
        (SIZES, [measured(("a",), [1, 2], 0.0)], "standard deviation 0"),
        (SIZES, [measured(("a",), [1, np.nan])], "no finite number"),
        (SIZES, [measured((), [1])], "no measurement of a table"),
        (SIZES, [3], "an int has not"),
        (7, [], "not an int"),
        (SIZES, [measured(("a",), [1, 2], query=lambda f: f.datavector() * 2)], "not of a whole table"),
        (SIZES, [measured(("a",), [1], query=lambda f: f.datavector()[:1])], "not of a whole table"),
        (SIZES, [measured(("a",), [1, 2], query=lambda f: f.project("a"))], "not of a whole table"),
    ],
)
def test_refusals(domain: Any, measurements: list[Any], said: str) -> None:
    with pytest.raises(qf.Error, match=said):
        interop.from_mbi(domain, measurements, noise="gaussian")


def test_the_kind_of_noise_must_be_said() -> None:
    with pytest.raises(qf.Error, match="say which noise"):
        interop.from_mbi(SIZES, [measured(("a",), [1, 2])], noise="normal")  # type: ignore[arg-type]


def test_others_can_be_left_out() -> None:
    some = [measured(("a",), [1, 2], query=lambda f: f.datavector() * 2), measured(("b",), [1, 2, 3])]
    assert list(interop.from_mbi(SIZES, some, noise="gaussian", skip_others=True).tables) == [("b",)]


def test_what_mbi_itself_makes() -> None:
    code = """
import warnings; warnings.simplefilter("ignore")
import mbi, numpy as np, quietfield as qf
from quietfield import interop
domain = mbi.Domain(("a", "b"), (2, 3), labels=(("no", "yes"), (10, 20, 30)))
y = np.arange(6.0)
release = interop.from_mbi(domain, [mbi.LinearMeasurement(y, ("a", "b"), stddev=1.5)], noise="gaussian")
assert release.domain == qf.Domain({"a": ["no", "yes"], "b": [10, 20, 30]})
assert release.tables["a", "b"].tolist() == y.reshape(2, 3).tolist()
assert release.noise["a", "b"] == qf.Gaussian(1.5)
for query in (mbi.WeightedQuery(np.full(6, 2.0)), mbi.SlicedQuery(1)):
    try:
        interop.from_mbi(domain, [mbi.LinearMeasurement(y, ("a", "b"), query=query)], noise="gaussian")
    except qf.Error as error:
        assert "whole table" in str(error), error
    else:
        raise AssertionError(query)
bare = interop.from_mbi(mbi.Domain(("a",), (2,)), [mbi.LinearMeasurement([1, 2], ("a",))], noise="laplace")
assert bare.domain == qf.Domain({"a": 2})
print(qf.fit(release, "naive").marginal("a").round(1).tolist())
"""
    pytest.importorskip("mbi")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass
class Table:
    """What of OpenDP's ContingencyTable is read."""

    keys: dict[str, Any]
    marginals: Any
    cuts: dict[str, Any] = field(default_factory=dict)


def test_a_contingency_table_of_opendp() -> None:
    opendp = pytest.importorskip("opendp.extras.mbi._utilities")
    keys = {"sex": ["f", "m", None], "n": [0, 1]}
    marginals = opendp.Marginals({("sex", "n"): [measured(("sex", "n"), np.arange(6.0))]})
    release = interop.from_opendp(Table(keys, marginals), noise="laplace")
    assert release.domain == qf.Domain({"sex": ["f", "m", "null"], "n": [0, 1]})
    assert release.tables["sex", "n"][2].tolist() == [4, 5]
    prefix = measured(("sex",), [1.0, 2.0], query=opendp.SelectPrefixQuery(2))
    more = opendp.Marginals({("n",): [measured(("n",), [1, 2])], ("sex",): [prefix]})
    with pytest.raises(qf.Error, match="SelectPrefixQuery"):
        interop.from_opendp(Table(keys, more), noise="laplace")
    assert list(interop.from_opendp(Table(keys, more), noise="laplace", skip_others=True).tables) == [("n",)]
    with pytest.raises(qf.Error, match="ContingencyTable"):
        interop.from_opendp(3, noise="laplace")
