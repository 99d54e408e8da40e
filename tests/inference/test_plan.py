"""Plans: valid elimination orders, figures known before an array exists."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield import structures
from quietfield.errors import TooLarge
from quietfield.inference.plan import plan_elimination
from tests.brute_force import models


@given(models())
def test_every_factor_is_used_once_and_every_message_where_its_attribute_is_summed_out(parts):
    domain, potentials = parts
    figures = plan_elimination(domain, tuple(potentials))
    used = [f for step in figures.steps for f in step.factors]
    assert sorted(used) == list(range(len(figures.scopes)))
    done = set()
    for i, step in enumerate(figures.steps):
        mentioned = {v for f in step.factors for v in figures.scopes[f]}
        mentioned |= {v for child in step.children for v in figures.steps[child].message}
        assert set(step.bag) == mentioned
        assert all(child < i for child in step.children)
        assert done.isdisjoint(step.bag)
        done.add(step.bag[0])
    assert done | set(figures.free) == set(range(len(domain)))


@given(st.integers(3, 9), st.integers(0, 2**32))
def test_treewidth_is_at_most_that_of_networkx(count, seed):
    names = [f"x{i}" for i in range(count)]
    structure = structures.erdos_renyi(names, 0.5, seed)
    figures = plan_elimination(qf.Domain(dict.fromkeys(names, 3)), structure)
    theirs, _ = nx.algorithms.approximation.treewidth_min_fill_in(nx.Graph(structure.edges))
    assert figures.treewidth <= theirs


def test_treewidths_that_are_known():
    names = [f"x{i}" for i in range(36)]
    domain = qf.Domain(dict.fromkeys(names, 2))
    assert plan_elimination(domain, structures.tree(domain, 0)).treewidth == 1
    assert plan_elimination(domain, structures.chain(domain, 3)).treewidth == 3
    assert plan_elimination(domain, structures.grid(domain, 6)).treewidth in (6, 7)
    assert plan_elimination(domain.project(names[:7]), structures.complete(names[:7])).treewidth == 6
    assert plan_elimination(domain, [("x0",), ("x1",)]).treewidth == 0


def test_weights_count():
    """Eliminating the hub first would join ten small attributes; summing out the leaves first joins nothing."""
    domain = qf.Domain({"hub": 1000, **{f"leaf{i}": 2 for i in range(10)}})
    assert plan_elimination(domain, structures.star(domain)).largest_table == 2000


def test_the_refusal_gives_figures_and_advice():
    domain = qf.Domain({f"x{i}": 10 for i in range(12)})
    figures = plan_elimination(domain, structures.complete(domain))
    assert figures.largest_table == 10**12
    with pytest.raises(
        TooLarge,
        match=r"treewidth is at most 11 and the largest table joins 12 attr.*1e\+12 cells.*inference='loopy' in qf.fit",
    ):
        figures.check_memory()
    figures.check_memory(limit=10**15)
    assert figures.to_json()["treewidth"] == 11
