"""UAI files and pgmpy networks, there and back, and exact inference against pgmpy on published networks."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import quietfield as qf
from quietfield import interop
from quietfield.errors import Error, FileError
from tests.brute_force import COMPILED, models

NETWORKS = Path(__file__).resolve().parents[2] / "shared" / "data" / "bif"


def same(one, two, names):
    """Equal joint distributions, under a renaming of the attributes."""
    np.testing.assert_allclose(two.marginal(names), one.marginal(one.domain.attributes), atol=1e-10)


@COMPILED
@given(parts=models(scales=(1.0, 8.0), most_attributes=4))
def test_uai_there_and_back(parts, tmp_path_factory):
    model = qf.Model(*parts)
    path = tmp_path_factory.mktemp("uai") / "model.uai"
    interop.save_uai(model, path)
    same(model, interop.load_uai(path), [f"x{i}" for i in range(len(model.domain))])


def test_a_uai_file_as_others_write_it(tmp_path):
    """The example of the UAI competition's description of the format, with a zero added."""
    (tmp_path / "a.uai").write_text(
        "MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1 2\n\n4\n 0.436 0.564\n 0.128 0.872\n\n"
        "6\n 0.210 0.333 0.457\n 0.811 0.000 0.189\n"
    )
    model = interop.load_uai(tmp_path / "a.uai")
    assert model.domain.shape == (2, 2, 3)
    assert model.marginal(("x1", "x2"))[1, 1] == 0
    expected = np.einsum("ab,bc->abc", [[0.436, 0.564], [0.128, 0.872]], [[0.21, 0.333, 0.457], [0.811, 0, 0.189]])
    np.testing.assert_allclose(model.marginal(("x0", "x1", "x2")), expected / expected.sum(), atol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "complete UAI"), ("GRAPH 3", "starts with 'GRAPH'"), ("MARKOV 2 2 2 1 2 0 1 4 1 1 1", "complete UAI"),
     ("MARKOV 2 2 2 1 2 0 1 5 1 1 1 1 1", "length differs"), ("MARKOV 1 2 1 1 0 2 1 -1", "negative"),
     ("MARKOV 1 2 1 1 7 2 1 1", "complete UAI"), ("MARKOV 1 0 0", "has no values"),
     ("MARKOV 2 2 2 1 1 -1 2 1 3", "complete UAI"), ("MARKOV 2 2 2 1 2 0 0 4 1 1 1 1", "complete UAI"),
     ("MARKOV 1 2 1 1 0 2 1 1 9", "complete UAI")],
)  # fmt: skip
def test_bad_uai_files_are_refused(tmp_path, text, message):
    (tmp_path / "a.uai").write_text(text)
    with pytest.raises((FileError, Error), match=message):
        interop.load_uai(tmp_path / "a.uai")


def test_large_potentials_do_not_overflow(tmp_path):
    model = qf.Model(qf.Domain({"a": 2}), {"a": [2000.0, 2001.0]})
    interop.save_uai(model, tmp_path / "a.uai")
    np.testing.assert_allclose(interop.load_uai(tmp_path / "a.uai").marginal("x0"), model.marginal("a"))


def test_potentials_that_do_not_fit_into_probabilities_are_not_written_as_zeros(tmp_path):
    model = qf.Model(qf.Domain({"a": 2}), {"a": [0.0, -800.0]})
    with pytest.raises(Error, match="do not fit into floats"):
        interop.save_uai(model, tmp_path / "a.uai")


@COMPILED
@given(parts=models(scales=(1.0,), most_attributes=4))
def test_pgmpy_there_and_back(parts):
    pytest.importorskip("pgmpy")
    model = qf.Model(*parts)
    same(model, interop.from_pgmpy(interop.to_pgmpy(model)), model.domain.attributes)


@pytest.mark.parametrize(
    "name",
    ["asia", "sachs", "child", *(pytest.param(name, marks=pytest.mark.slow) for name in ("insurance", "alarm"))],
)
def test_marginals_equal_pgmpys_on_published_networks(name):
    """All clique marginals (families of the network), and one conditional, by pgmpy's own elimination."""
    if not NETWORKS.exists():
        pytest.skip("the published networks are not on this machine")
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    network = BIFReader(string=gzip.decompress((NETWORKS / f"{name}.bif.gz").read_bytes()).decode()).get_model()
    model = interop.from_pgmpy(network)
    assert model.log_partition() == pytest.approx(0, abs=1e-7)  # normalised, but for published rounding
    peer = VariableElimination(network)
    tables = model.marginals()
    for clique in list(tables)[:: max(1, len(tables) // 6)]:
        factor = peer.query(list(clique), show_progress=False)
        axes = [factor.variables.index(attribute) for attribute in clique]
        np.testing.assert_allclose(tables[clique], factor.values.transpose(axes), atol=1e-7)
    first, last = model.domain.attributes[0], model.domain.attributes[-1]
    label = model.domain.labels(last)[int(model.marginal(last).argmax())]
    theirs = peer.query([first], evidence={last: label}, show_progress=False).values
    np.testing.assert_allclose(model.conditional(first, given={last: label}), theirs, atol=1e-7)
