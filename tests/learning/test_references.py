"""Reference models: closed forms against iteration, enumeration and pgmpy; bad tables; the random estimator."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.errors import Error
from quietfield.learning.decomposable import junction_tree, recipe
from tests.brute_force import joint, marginal

DOMAIN = qf.Domain({"a": 2, "b": 3, "c": 2, "d": 2})
TREE = [("a", "b"), ("c", "b"), ("c", "d")]
JUNCTION = [("c", "a", "b"), ("b", "d", "c"), ("b",), ("c", "b")]
SPARSE = [("a", "b"), ("d",)]  # in two parts, and c in neither
SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]


def true_tables(cliques, domain=DOMAIN, seed=0, count=1000, zeros=False):
    random = np.random.default_rng(seed)
    cells = int(np.prod(domain.shape))
    n = random.multinomial(count, random.dirichlet(np.full(cells, 0.3 if zeros else 3.0))).reshape(domain.shape)
    n = n if zeros else n + 1
    return {c: marginal(domain, n, c) for c in cliques}


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True), min_size=1, max_size=7,
                unique_by=frozenset))  # fmt: skip
def test_a_junction_tree_is_found_exactly_where_the_graph_is_chordal_and_the_cliques_are_its_largest(listed):
    cliques = [tuple(c) for c in listed]
    graph = nx.Graph()
    graph.add_nodes_from({name for c in cliques for name in c})
    graph.add_edges_from(pair for c in cliques for pair in combinations(c, 2))
    largest = {frozenset(c) for c in cliques if not any(set(c) < set(other) for other in cliques)}
    decomposable = nx.is_chordal(graph) and {frozenset(c) for c in nx.find_cliques(graph)} == largest
    found = junction_tree(cliques)
    assert (found is not None) == decomposable
    if found is not None:
        assert {frozenset(c) for c, s in zip(cliques, found, strict=True) if s is not None} == largest


@given(st.integers(0, 2**32), st.sampled_from([TREE, JUNCTION, SPARSE]))
def test_the_closed_form_has_the_marginals_that_it_was_given(seed, cliques):
    tables = {c: t / t.sum() for c, t in true_tables(cliques, seed=seed).items()}
    theta = recipe(DOMAIN, cliques)(np.concatenate([tables[c].ravel() for c in cliques]))
    ends = np.cumsum([tables[c].size for c in cliques])[:-1]
    parts = dict(zip(cliques, np.split(theta, ends), strict=True))
    p, log_z = joint(DOMAIN, {c: part.reshape(tables[c].shape) for c, part in parts.items()})
    free = np.prod([DOMAIN.size(a) for a in DOMAIN if not any(a in c for c in cliques)])
    assert log_z == pytest.approx(np.log(free), abs=1e-12)
    for c in cliques:
        np.testing.assert_allclose(marginal(DOMAIN, p, c), tables[c], atol=1e-12)


def test_closed_form_and_iteration_agree():
    tables = true_tables(JUNCTION)
    closed = qf.references.fit_true_tables(DOMAIN, tables)
    slow = qf.references.fit_true_tables(DOMAIN, tables, closed_form=False)
    assert (closed.report.steps, closed.report.method) == (0, "maximum-likelihood")
    assert slow.report.steps > 0
    assert slow.report.converged
    assert closed.kl(slow) < 1e-9
    assert closed.report.objective == pytest.approx(slow.report.objective, abs=1e-8)
    assert closed.report.total == tables[JUNCTION[0]].sum()


def test_where_there_is_no_closed_form_newton_matches_the_tables():
    tables = true_tables(SQUARE)
    model = qf.references.fit_true_tables(DOMAIN, tables)
    assert model.report.steps > 0
    for c, table in tables.items():
        np.testing.assert_allclose(model.marginal(c), table / table.sum(), atol=1e-6)
    bethe = qf.references.fit_true_tables(DOMAIN, tables, inference="loopy")  # its own closed form
    assert (bethe.inference, bethe.report.steps) == ("loopy", 0)
    for c, table in tables.items():
        np.testing.assert_allclose(bethe.marginal(c), table / table.sum(), atol=1e-6)


@pytest.mark.slow
def test_the_tree_is_the_one_that_pgmpy_learns():
    pd = pytest.importorskip("pandas")
    models = pytest.importorskip("pgmpy.models")
    from pgmpy.estimators import MaximumLikelihoodEstimator
    from pgmpy.inference import VariableElimination

    records = qf.Model(DOMAIN, {c: np.random.default_rng(1).normal(size=DOMAIN.table_shape(c)) for c in TREE})
    codes = records.sample(2000, seed=0).codes.astype(int)
    tables = {c: np.zeros(DOMAIN.table_shape(c)) for c in TREE}
    for c, table in tables.items():
        np.add.at(table, tuple(codes[:, DOMAIN.position(name)] for name in c), 1)
    network = models.DiscreteBayesianNetwork([("a", "b"), ("b", "c"), ("c", "d")])  # the same tree, directed
    frame = pd.DataFrame(codes, columns=list(DOMAIN))
    states = {name: list(range(DOMAIN.size(name))) for name in DOMAIN}
    estimator = MaximumLikelihoodEstimator(network, frame, state_names=states)
    network.add_cpds(*estimator.get_parameters())
    answers = VariableElimination(network).query(list(DOMAIN), show_progress=False)
    wanted = answers.values.transpose([answers.variables.index(name) for name in DOMAIN])
    model = qf.references.fit_true_tables(DOMAIN, tables)
    np.testing.assert_allclose(model.marginal(tuple(DOMAIN)), wanted, atol=1e-9)


def test_empty_cells_give_numbers_and_smoothing_gives_finite_divergences():
    tables = true_tables(JUNCTION, zeros=True, count=30)
    assert any((table == 0).any() for table in tables.values())
    even = qf.Model(DOMAIN, {c: np.zeros(DOMAIN.table_shape(c)) for c in JUNCTION})
    for closed_form in (True, False):
        model = qf.references.fit_true_tables(DOMAIN, tables, closed_form=closed_form)
        for c, table in tables.items():
            np.testing.assert_allclose(model.marginal(c), table / 30, atol=2e-3)
    smoothed = qf.references.fit_true_tables(DOMAIN, tables, pseudocount=6.0)
    for c, table in tables.items():
        np.testing.assert_allclose(smoothed.marginal(c), (table + 6 / table.size) / 36, atol=1e-9)
    regular = qf.references.fit_true_tables(DOMAIN, tables, regularisation=1e-2)
    assert even.kl(smoothed) < 2
    assert even.kl(regular) < 3
    assert even.kl(qf.references.fit_true_tables(DOMAIN, tables)) > 10  # the truth allows what was never seen


def test_ties_and_impossible_combinations():
    domain = qf.Domain(dict.fromkeys("abc", 3), [{"a": 0, "b": 2}])
    truth = qf.Model(
        domain, {("a", "b"): np.arange(9.0).reshape(3, 3) / 5, ("b", "c"): np.eye(3), ("c", "a"): np.eye(3)}
    )
    tables = {("a", "b"): 5000 * truth.marginal(("a", "b"))}
    tables["b", "c"] = 5000 * (truth.marginal(("b", "c")) + truth.marginal(("c", "a")))
    model = qf.references.fit_true_tables(domain, tables, ties=[[("b", "c"), ("c", "a")]])
    assert truth.kl(model) < 1e-8
    free = qf.Domain({"a": 2, "b": 2, "c": 2}, [{"a": 0, "c": 1}])  # joins what no clique holds together
    assert recipe(free, [("a", "b"), ("b", "c")]) is None
    truth = qf.Model(free, {("a", "b"): [[1.0, 0.0], [0.0, 1.0]], ("b", "c"): [[0.5, 0.0], [0.0, 0.2]]})
    assert truth.kl(qf.references.fit_true_tables(free, {c: 900 * truth.marginal(c) for c in truth.cliques})) < 1e-8


def test_the_random_estimator_knows_nothing_and_repeats_itself():
    domain = qf.Domain({f"x{i}": 4 for i in range(5)})
    chain = qf.structures.chain(domain, 2)
    one, again, other = (qf.references.fit_random_tables(domain, chain, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(one.potentials[c], again.potentials[c]) for c in one.cliques)
    assert one.kl(other) > 0.3
    even = qf.Model(domain, {c: np.zeros((4, 4)) for c in chain})
    assert other.kl(one) > other.kl(even)  # a guess is worse than none
    tied = qf.references.fit_random_tables(domain, qf.structures.chain(domain, homogeneous=True), seed=0)
    assert np.array_equal(tied.potentials["x0", "x1"], tied.potentials["x3", "x4"])


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ({("a", "b"): [[1, 2], [-1, 3]]}, {}, "holds a negative count"),
        ({("a", "b"): [[0, 0], [0, 0]]}, {}, "the tables are empty"),
        ({("a", "b"): [[1, 2], [1, 3]], ("b", "c"): [[1, 2], [1, 1]]}, {}, "same number of records"),
        ({("a", "b"): [[1, 2], [1, 3]], ("b", "c"): [[3, 2], [1, 1]]}, {}, r"disagree about \('b',\).*qf.fit"),
        ({("a", "b"): [[1, 2], [1, float("nan")]]}, {}, "not a finite number"),
        ({("a", "b"): [1, 2]}, {}, "shape"),
        ({("a", "x"): [[1, 2], [1, 3]]}, {}, "'x' is not an attribute"),
        ({("a", "c"): [[1, 2], [1, 3]]}, {}, "declares impossible"),
        ([1, 2], {}, "tables must map cliques"),
        ({}, {}, "at least one"),
        ({("a",): [1, 2]}, {"regularisation": -1.0}, "the regularisation is a finite number"),
        ({("a",): [1, 2]}, {"pseudocount": float("nan")}, "the pseudocount is a finite number"),
        ({("a",): [1, 2]}, {"inference": "magic"}, "'magic' is not a kind of inference"),
    ],
)
def test_bad_tables_are_refused(tables, options, message):
    domain = qf.Domain({"a": 2, "b": 2, "c": 2}, [{"a": 0, "c": 1}])
    with pytest.raises(Error, match=message):
        qf.references.fit_true_tables(domain, tables, **options)


def test_bad_calls_of_the_random_estimator_are_refused():
    with pytest.raises(Error, match="seed"):
        qf.references.fit_random_tables(DOMAIN, TREE, seed=-1)
    with pytest.raises(Error, match="'z' is not an attribute"):
        qf.references.fit_random_tables(DOMAIN, [("a", "z")], seed=0)
    with pytest.raises(Error, match="must be positive"):
        qf.references.fit_random_tables(DOMAIN, TREE, seed=0, regularisation=0)
