"""Graphs: every node has its place, every name is there and harmless, and what notebooks show is well-formed."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.drawing import graph as drawing
from tests.report.examples import HOSTILE, hostile
from tests.report.reading import read

SVG = "{http://www.w3.org/2000/svg}"


def domain(n: int) -> qf.Domain:
    return qf.Domain({f"x{i}": 2 for i in range(n)})


SHAPES = {
    "one": (1, lambda d: [("x0",)]),
    "two": (2, qf.structures.chain),
    "chain": (20, qf.structures.chain),
    "long chain": (60, qf.structures.chain),
    "tree": (30, lambda d: qf.structures.tree(d, seed=2)),
    "large tree": (100, lambda d: qf.structures.tree(d, seed=1)),
    "grid": (25, lambda d: qf.structures.grid(d, columns=5)),
    "star": (16, qf.structures.star),
    "complete": (8, qf.structures.complete),
    "apart": (5, lambda d: [("x0", "x1"), ("x2",), ("x3", "x4")]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_do_not_overlap_and_stay_inside(shape):
    n, make = SHAPES[shape]
    structure = qf.Structure.of(make(domain(n)), domain(n))
    root = ElementTree.fromstring(drawing.structure_svg(domain(n), structure))
    places = np.array([[float(c.get("cx")), float(c.get("cy"))] for c in root.iter(f"{SVG}circle")])
    assert len(places) == n
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(n)
    assert gaps.min() > 2 * drawing.RADIUS
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert ((places >= drawing.RADIUS) & (places <= [width - drawing.RADIUS, height - drawing.RADIUS])).all()
    assert len(list(root.iter(f"{SVG}line"))) == len(structure.edges)


def test_a_chain_and_a_grid_are_drawn_as_such():
    names = [f"x{i}" for i in range(9)]
    along = np.array(drawing._places(9, [(i, i + 1) for i in range(8)]))
    assert (np.diff(along[:, 0]) > 0).all()
    edges = [(names.index(a), names.index(b)) for a, b in qf.structures.grid(names, columns=3).edges]
    grid = np.array(drawing._places(9, edges))
    lengths = [np.linalg.norm(grid[a] - grid[b]) for a, b in edges]
    assert max(lengths) < 1.3 * min(lengths)


def test_names_are_escaped_and_there():
    release, model = hostile()
    people = qf.people_tables(model, [model.cliques[0]])
    for shown in (
        model, release, release.domain, model.structure, release.tables, release.parts[0].noise, people,
        people.tables[0], qf.goodness_of_fit(release, model, draws=19), model.sample(5, seed=0),
    ):  # fmt: skip
        page = read(shown._repr_html_())
        assert not page.all("script")
        assert "<script" not in shown._repr_html_()
    text = read(release.domain._repr_html_()).text
    for name in HOSTILE:
        assert name in text
    assert "impossible" in text
    titles = [title.text for title in read(model._repr_html_()).all("title")]
    assert any(title.startswith('<script>alert("x")</script>: 4') for title in titles)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1), min_size=1,
                max_size=6, unique=True))  # fmt: skip
def test_any_name_gives_well_formed_pictures(names):
    known = qf.Domain(dict.fromkeys(names, 2))
    structure = qf.structures.chain(known)
    read(drawing.structure_svg(known, structure))
    read(known._repr_html_())


def test_displays_say_what_matters_and_stay_short():
    names = [f"x{i}" for i in range(60)]
    chain = qf.structures.chain(names, homogeneous=True)
    text = read(chain._repr_html_()).text
    assert "Structure of 60 cliques" in text
    assert "x0 × x1; " in text
    assert "… 20 more" in text
    assert "tied" in text
    assert "x59" not in text
    domain = qf.Domain(dict.fromkeys(names, 2))
    tables = {clique: np.full((2,) * len(clique), 50.0) for clique in qf.structures.chain(names)}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0, step=1), total=200)
    text = read(release.tables._repr_html_()).text
    for part in ("59 noisy tables", "x0 × x1", "2 × 2", "discrete Laplace of scale 2", "… 19 more tables"):
        assert part in text
    noise = read(qf.Gaussian(3.0)._repr_html_()).text
    for part in ("Gaussian noise", "standard deviation", "3", "continuous"):
        assert part in noise
    small = qf.Release.from_tables(domain.project(["x0", "x1"]), {("x0", "x1"): [[90, 10], [10, 90]]}, qf.Laplace(1.0))
    wrong = qf.Model(small.domain, {("x0", "x1"): np.zeros((2, 2))})
    check = qf.goodness_of_fit(small, wrong)
    text = " ".join(read(check._repr_html_()).text.split())
    for part in (check.verdict, check.blind, "x0 × x1", "Fit of the model: p = "):
        assert part in text
    people = qf.people_tables(wrong, [("x0", "x1"), "x0"], total=100)
    text = read(people._repr_html_()).text
    assert "2 tables for people" in text
    assert people.tables[0].note in text
    assert "0.25" in read(people.tables[0]._repr_html_()).text
