"""Structures: the builders, and what they refuse."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield import structures
from quietfield.errors import Error

NAMES = [f"x{i}" for i in range(12)]


def graph(structure, nodes=NAMES):
    found = nx.Graph(structure.edges)
    found.add_nodes_from(nodes)
    return found


@given(st.integers(1, 12), st.integers(1, 4))
def test_a_chain_joins_neighbours_up_to_its_order(count, order):
    nodes = NAMES[:count]
    expected = {(nodes[i], nodes[j]) for i in range(count) for j in range(count) if 1 <= j - i <= order}
    pairs = [c for c in structures.chain(nodes, order) if len(c) == 2]
    assert set(pairs) == expected
    assert len(pairs) == len(expected)
    assert set(structures.chain(nodes, order).attributes) == set(nodes)


def test_a_homogeneous_chain_has_one_tie_and_a_first_node():
    chain = structures.chain("abcd", homogeneous=True)
    assert chain.cliques == (("a",), ("a", "b"), ("b", "c"), ("c", "d"))
    assert chain.groups == ((("a",),), (("a", "b"), ("b", "c"), ("c", "d")))


@given(st.integers(2, 12), st.integers(0, 2**32))
def test_trees_are_trees_and_random_graphs_connected(count, seed):
    nodes = NAMES[:count]
    tree = structures.tree(nodes, seed)
    assert nx.is_tree(graph(tree, nodes))
    assert structures.tree(nodes, seed) == tree
    random = structures.erdos_renyi(nodes, 0.5, seed)
    assert nx.is_connected(graph(random, nodes))
    assert structures.erdos_renyi(nodes, 0.5, seed) == random


def test_other_builders_equal_networkx():
    assert nx.is_isomorphic(graph(structures.grid(NAMES, 4)), nx.grid_2d_graph(3, 4))
    assert nx.is_isomorphic(graph(structures.star(NAMES, "x3")), nx.star_graph(11))
    assert nx.is_isomorphic(graph(structures.complete(NAMES)), nx.complete_graph(12))
    assert len(structures.complete(NAMES[:5], 3)) == 10
    assert structures.from_edges([("a", "b"), ("c", "b")]).cliques == (("a", "b"), ("c", "b"))


def test_treewidth_limits_hold():
    from networkx.algorithms.approximation import treewidth_min_degree

    for seed in range(5):
        found = structures.erdos_renyi(NAMES[:10], 0.3, seed, max_treewidth=3)
        assert treewidth_min_degree(graph(found, NAMES[:10]))[0] <= 4


def test_an_attribute_without_edges_gets_a_table_of_its_own():
    assert structures.chain(["a"]).cliques == (("a",),)
    assert structures.grid(["a"], 3).cliques == (("a",),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: structures.Structure((("a", "b"), ("b", "a"))), r"is there twice \(also as \('a', 'b'\)\)"),
        (lambda: structures.Structure((("a", "a"),)), "twice"),
        (lambda: structures.Structure(((),)), "at least one attribute"),
        (lambda: structures.Structure(((1, 2),)), "by strings"),
        (lambda: structures.Structure((("a", "b"),), ((("a", "b"),),)), "fewer than two"),
        (lambda: structures.Structure((("a", "b"), ("c", "d")), ((("a", "b"), ("d", "c")),)), "no such clique"),
        (
            lambda: structures.Structure(
                (("a", "b"), ("c", "d"), ("e", "f")), ((("a", "b"), ("c", "d")), (("a", "b"), ("e", "f")))
            ),
            "tied twice",
        ),
        (lambda: structures.Structure.of("ab"), "expected a list of cliques, not 'ab'"),
        (lambda: structures.Structure.of([("a", "z")], qf.Domain({"a": 2})), "'z' is not an attribute"),
        (
            lambda: structures.Structure((("a", "b"), ("b", "c")), ((("a", "b"), ("b", "c")),)).check(
                qf.Domain({"a": 2, "b": 2, "c": 3})
            ),
            "tied cliques need one shape",
        ),
        (lambda: structures.chain(NAMES, 0), "order 1 or more"),
        (lambda: structures.chain(NAMES, 2, homogeneous=True), "order 1, not 2"),
        (lambda: structures.star(NAMES, "z"), "'z' is not an attribute"),
        (lambda: structures.grid(NAMES, 0), "one column or more"),
        (lambda: structures.complete(NAMES, 20), "cannot be made from 12"),
        (lambda: structures.erdos_renyi(NAMES, 0.01, 0), "none of 10,000 graphs"),
        (lambda: structures.erdos_renyi(NAMES, 1.2, 0), "between 0 and 1"),
        (lambda: structures.from_edges([("a", "b", "c")]), "joins two attributes"),
    ],
)
def test_bad_structures_are_refused(make, message):
    with pytest.raises(Error, match=message):
        make()


def test_a_clique_that_is_there_twice_is_refused_wherever_a_structure_is_given():
    """Also with its attributes in another order: whose axes count, and what a second table costs, is up to users."""
    domain, twice = qf.Domain({"a": 2, "b": 2}), [("a", "b"), ("b", "a")]
    tables = {clique: np.ones((2, 2)) for clique in twice}
    schema, records = qf.Schema({"a": [0, 1], "b": [0, 1]}), {"a": [0], "b": [1]}
    for call in (
        lambda: structures.from_edges(twice),
        lambda: qf.Structure(tuple(twice)),
        lambda: qf.Model(domain, tables),
        lambda: qf.inference.marginals(domain, tables),
        lambda: qf.Release.from_tables(domain, tables, noise=qf.Laplace(1.0)),
        lambda: qf.release(records, schema, twice, epsilon=1, unit=qf.Rows(1), ledger=None),
        lambda: qf.rehearse(domain, twice, records=100),
        lambda: qf.simulate(twice),
    ):
        with pytest.raises(Error, match=r"\('b', 'a'\) is there twice \(also as \('a', 'b'\)\); keep one of them"):
            call()


def test_sets_that_are_too_many_are_refused_before_they_are_listed():
    with pytest.raises(Error, match=r"at most 524,288 cliques, not 137,846,528,820; join fewer attributes"):
        structures.complete([f"x{i}" for i in range(40)], 20)
