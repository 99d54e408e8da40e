"""BIF and UAI files and pgmpy networks, there and back, and exact inference against pgmpy on published networks."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield import interop
from quietfield.errors import Error, FileError, TooLarge
from tests.brute_force import COMPILED, joint, models

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


PUBLISHED = ["asia", "sachs", "child", *(pytest.param(name, marks=pytest.mark.slow) for name in ("insurance", "alarm"))]


@pytest.mark.parametrize("name", PUBLISHED)
def test_marginals_equal_pgmpys_on_published_networks(name):
    """All clique marginals (families of the network), and one conditional, by pgmpy's own reader and elimination."""
    if not NETWORKS.exists():
        pytest.skip("the published networks are not on this machine")
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    network = BIFReader(string=gzip.decompress((NETWORKS / f"{name}.bif.gz").read_bytes()).decode()).get_model()
    model = interop.load_bif(NETWORKS / f"{name}.bif.gz")
    assert model.domain.attributes == tuple(network.nodes())
    assert model.log_partition() == pytest.approx(0, abs=1e-9)
    peer = VariableElimination(network)
    tables = model.marginals()
    for clique in list(tables)[:: max(1, len(tables) // 6)]:
        factor = peer.query(list(clique), show_progress=False)
        axes = [factor.variables.index(attribute) for attribute in clique]
        np.testing.assert_allclose(tables[clique], factor.values.transpose(axes), atol=1e-6)  # published rounding
    first, last = model.domain.attributes[0], model.domain.attributes[-1]
    label = model.domain.labels(last)[int(model.marginal(last).argmax())]
    theirs = peer.query([first], evidence={last: label}, show_progress=False).values
    np.testing.assert_allclose(model.conditional(first, given={last: label}), theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["asia", "sachs", "child", "insurance", "alarm"])
def test_published_networks_are_read_as_pgmpy_reads_them(name):
    """Every number of every table; both readers in turn."""
    if not NETWORKS.exists():
        pytest.skip("the published networks are not on this machine")
    pytest.importorskip("pgmpy")
    from pgmpy.readwrite import BIFReader

    text = gzip.decompress((NETWORKS / f"{name}.bif.gz").read_bytes()).decode()
    labels, families = interop.parse_bif(text, name)
    network = BIFReader(string=text).get_model()
    assert len(families) == len(network.get_cpds())
    for clique, table in families:
        cpd = network.get_cpds(clique[0])
        assert (list(clique), [labels[v] for v in clique]) == (cpd.variables, [cpd.state_names[v] for v in clique])
        np.testing.assert_allclose(table, cpd.values / cpd.values.sum(0), rtol=1e-12)


@COMPILED
@given(parts=models(scales=(1.0, 8.0), most_attributes=4))
def test_bif_there_and_back(parts, tmp_path_factory):
    """Any model, also with loops, free attributes and impossible combinations; the joint by enumeration."""
    model = qf.Model(*parts)
    path = tmp_path_factory.mktemp("bif") / "model.bif"
    interop.save_bif(model, path)
    again = interop.load_bif(path)
    assert again.domain.shape == model.domain.shape
    expected, _ = joint(*parts)
    np.testing.assert_allclose(joint(again.domain, again.potentials)[0], expected, atol=1e-12)
    assert joint(again.domain, again.potentials)[1] == pytest.approx(0, abs=1e-12)


@COMPILED
@given(parts=models(scales=(1.0, 3.0), most_attributes=4))
def test_pgmpy_reads_what_is_written(parts, tmp_path_factory):
    readwrite = pytest.importorskip("pgmpy.readwrite")
    model = qf.Model(*parts)
    path = tmp_path_factory.mktemp("bif") / "model.bif"
    interop.save_bif(model, path)
    network = readwrite.BIFReader(path).get_model()
    expected, _ = joint(*parts)
    found = np.ones(())
    for cpd in network.get_cpds():
        places = [model.domain.position(name) for name in cpd.variables]
        shape = [model.domain.shape[v] if v in places else 1 for v in range(len(model.domain))]
        found = found * cpd.values.transpose(np.argsort(places)).reshape(shape)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 5))
def test_what_pgmpy_writes_is_read(seed, nodes):
    base = pytest.importorskip("pgmpy.models").DiscreteBayesianNetwork
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.readwrite import BIFWriter

    random = np.random.default_rng(seed)
    names = [f"v{i}" for i in random.permutation(nodes)]
    labels = {name: [f"{name}-<{i}/" for i in range(random.integers(2, 4))] for name in names}
    network = base()
    network.add_nodes_from(names)
    for i, name in enumerate(names):
        parents = [other for other in names[:i] if random.random() < 0.5]
        network.add_edges_from((other, name) for other in parents)
        sizes = [len(labels[other]) for other in parents]
        values = random.dirichlet(np.ones(len(labels[name])), size=int(np.prod(sizes))).T
        states = {other: labels[other] for other in (name, *parents)}
        network.add_cpds(TabularCPD(name, len(labels[name]), values, parents, sizes, states))
    read, families = interop.parse_bif(str(BIFWriter(network)), "a text")
    assert read == labels
    for clique, table in families:
        cpd = network.get_cpds(clique[0])
        np.testing.assert_allclose(table, cpd.values.transpose([cpd.variables.index(v) for v in clique]), atol=1e-12)


AWKWARD = """// a comment; { with marks
network "Dog-Problem" { property "credal" with ; property x = "}"; }  /* variable z { } */
variable  family-out { property position = (112, 69) ;
  type discrete[2] { "true" false };
}
variable "light on" { //
  type discrete [ 3 ] { <5, "5 // or, more", Asy/Patch }; property "a; b" ; }
variable c{type discrete[2]{ "}", "" };}
probability ( "light on" | family-out ) {
  default .2 .3 .5;
  (true) 1e-1, 0, 9E-1;
}
probability(family-out){table 0.15 0.85;}
probability ( c family-out, "light on" ) {
  property nothing;
  table 1 .8 .6 .4 .2 0
        0 .2 .4 .6 .8 1;
}
"""


def test_everything_that_the_format_allows(tmp_path):
    (tmp_path / "a.bif").write_text(AWKWARD)
    model = interop.load_bif(tmp_path / "a.bif")
    assert model.domain.attributes == ("family-out", "light on", "c")
    assert [model.domain.labels(name) for name in model.domain] == [
        ("true", "false"), ("<5", "5 // or, more", "Asy/Patch"), ("}", "")
    ]  # fmt: skip
    light = np.array([[0.1, 0.0, 0.9], [0.2, 0.3, 0.5]])
    c = np.array([[1, 0.8, 0.6], [0.4, 0.2, 0]])
    expected = np.array([0.15, 0.85])[:, None, None] * light[:, :, None] * np.stack([c, 1 - c], axis=-1)
    np.testing.assert_allclose(model.marginal(model.domain.attributes), expected, atol=1e-12)
    interop.save_bif(model, tmp_path / "b.bif")
    same(model, interop.load_bif(tmp_path / "b.bif"), model.domain.attributes)


A = "variable a { type discrete [ 2 ] { x, y }; }\n"
B = A + "variable b { type discrete [ 2 ] { u, v }; }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "declares no variable"), ("network x {", "line 1: end of the file is out of place"),
     ("hello", "line 1: expected network, variable or probability, not 'hello'"),
     (A + "\nprobability ( a ) { table 0.5, 0.6; }", "line 3: .*add up to 1"),
     (A + "probability ( a ) { table 0.5, 0.25, 0.25; }", "line 2: expected ';' after 2 words"),
     (A + "probability ( a ) { table 0.5; }", "line 2: expected 2 numbers, not 1"),
     (A + "probability ( a ) { table 0.5 x; }", "line 2: 'x' is no number"),
     (A + "probability ( a ) { table nan 1; }", "line 2: probabilities are not negative"),
     (A + "probability ( a ) { table 1.5, -0.5; }", "line 2: probabilities are not negative"),
     (A + "probability ( a ) { table 1 0 }", "line 2: expected a word, not '}'"),
     (A + "probability ( a ) { table 1 0; table 1 0; }", "line 2: 'table' is out of place"),
     (A + "probability ( a ) { table 1 0; () 1 0; }", "line 2: .* as a table and by rows"),
     (A + "probability ( a ) { }", r"line 2: 'a' has 0 of 1 row, and none for \(\)"),
     (A + "probability ( b ) { table 1 0; }", "line 2: .*'b' is not declared"),
     (A + "probability ( ) { table 1 0; }", "line 2: .*name a variable"),
     (A + "probability ( a | a ) { table 1 0 0 1; }", "line 2: .*each parent once"),
     (A + A, "line 2: the variable 'a' is declared twice"), (A, "no probabilities of 'a'"),
     (A + "probability ( a ) { table 1 0; }" * 2, "line 2: .*there twice"),
     ("variable a { type discrete [ 3 ] { x, y }; }", "line 1: 'a' should have '3' values and lists 2"),
     ("variable a { type discrete [ 2 ] { x, x }; }", "line 1: 'a' has no values, or one twice"),
     ("variable a { }", "line 1: 'a' has no values"), ("variable a { type real [ 1 ] { x }; }", "of type 'real'"),
     (B + "probability ( a | b ) { (u) 1 0; }", r"line 3: 'a' has 1 of 2 rows, and none for \('v'\)"),
     (B + "probability ( a | b ) {\n(u) 1 0;\n(u) 1 0; }", "line 5: .*there twice"),
     (B + "probability ( a | b ) { (w) 1 0; }", "line 3: 'w' is no value of 'b'; expected one of 'u', 'v'"),
     (B + "probability ( a | b ) { (u, v) 1 0; }", "line 3: a row names a value of each parent, 1 in all, not 2"),
     (B + "probability ( a | b ) { table 1 0 0 1; } probability ( b | a ) { table 1 0 0 1; }", "in a circle"),
     ('network "x {}', "line 1: a quote or comment does not end"), ("/* x", "line 1: a quote or comment")],
)  # fmt: skip
def test_bad_bif_files_are_refused_by_line(tmp_path, text, message):
    (tmp_path / "a.bif").write_text(text)
    with pytest.raises(FileError, match=message):
        interop.load_bif(tmp_path / "a.bif")


def test_what_is_no_text_is_refused(tmp_path):
    for content, message in ((b"network \xff {}", "UTF-8"), (gzip.compress(A.encode())[:-9], "decompressed")):
        (tmp_path / "a.bif").write_bytes(content)
        with pytest.raises(FileError, match=message):
            interop.load_bif(tmp_path / "a.bif")


def test_what_bif_cannot_hold_is_not_written(tmp_path):
    grid = qf.structures.grid([f"x{i}" for i in range(900)], columns=30)
    large = qf.Model(qf.Domain(dict.fromkeys(grid.attributes, 2)), {c: np.zeros((2, 2)) for c in grid})
    small = qf.Model(qf.Domain({"a": 2}), {"a": [0.0, -800.0]})
    quoted = qf.Model(qf.Domain({'"a"': 2}), {})
    loopy = qf.Model(qf.Domain({"a": 2}), {"a": [0.0, 1.0]}, inference="loopy")
    nobody = qf.Model(qf.Domain({"a": 2, "b": 2}, [{"a": 0}, {"a": 1, "b": [0]}, {"b": [1]}]), {})
    for model, error, message in (
        (large, TooLarge, "save_uai"), (small, Error, "too small for a float"), (quoted, Error, "holds a quote"),
        (loopy, Error, "needs exact inference"), (nobody, Error, "no record is possible"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            interop.save_bif(model, tmp_path / "a.bif")
    assert list(tmp_path.iterdir()) == []


def test_zeros_that_are_alike_become_one_impossible_combination():
    tables = [(("a", "b", "c"), np.array([[[0.0, 1], [0, 1]], [[0, 1], [1, 1]]]))]
    model = interop.from_factors({"a": 2, "b": 2, "c": 2}, tables)
    assert len(model.domain.impossible) == 2
    for cell in product(range(2), repeat=3):
        assert (model.marginal(("a", "b", "c"))[cell] == 0) == (tables[0][1][cell] == 0)
