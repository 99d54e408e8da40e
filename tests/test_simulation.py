"""Simulated studies: everything follows from seeds, tables are those of the population, releases say what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.study import simulation
from quietfield.study.simulation import NOTE, random_model, simulate


def small(**options: object) -> simulation.Simulation:
    return simulate(**{"attributes": 4, "states": 3, "records": 500, **options})  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    one, again, other = small(seed=1), small(seed=1), small(seed=2)
    for clique in one.model.cliques:
        assert (one.tables[clique] == again.tables[clique]).all()
        assert (one.release.tables[clique] == again.release.tables[clique]).all()
    clique = one.model.cliques[0]
    assert (one.model.potentials[clique] == other.model.potentials[clique]).all()
    assert (one.tables[clique] != other.tables[clique]).any()
    assert (small(model_seed=1).model.potentials[clique] != one.model.potentials[clique]).any()


@pytest.mark.parametrize("drawn", [True, False])
def test_tables_count_the_population_also_in_chunks(monkeypatch: pytest.MonkeyPatch, drawn: bool) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 128)
    study = small()
    if drawn:
        assert len(study.population) == 500
    tables = study.tables
    codes = study.population.codes
    assert len(codes) == 500
    for clique, table in tables.items():
        a, b = (codes[:, study.model.domain.position(name)] for name in clique)
        expected = np.zeros((3, 3), int)
        np.add.at(expected, (a, b), 1)
        assert (table == expected).all()


def test_chunks_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 250)
    codes = small().population.codes
    assert (codes[:250] != codes[250:]).any()


def test_releases_are_numbered_and_marked() -> None:
    study = small()
    three = study.releases(3)
    clique = study.model.cliques[0]
    assert (study.releases(1, start=2)[0].tables[clique] == three[2].tables[clique]).all()
    assert (three[0].tables[clique] != three[1].tables[clique]).all()
    assert three[0].notes == (NOTE,)
    assert three[0].promise is None
    assert three[0].total == 500
    assert three[0].total_is_public


def test_noise_has_the_scale_that_it_says() -> None:
    study = small(epsilon=0.5)
    cliques = len(study.model.cliques)
    assert study.noise == qf.Laplace(cliques / 0.5)
    errors = np.concatenate(
        [(r.tables[c] - study.tables[c]).ravel() for r in study.releases(200) for c in study.model.cliques]
    )
    assert abs(np.abs(errors).mean() / study.noise.scale - 1) < 0.05
    gaussian = study.with_epsilon(0.5, 1e-5)
    assert isinstance(gaussian.noise, qf.Gaussian)
    errors = np.concatenate(
        [(r.tables[c] - study.tables[c]).ravel() for r in gaussian.releases(200) for c in study.model.cliques]
    )
    assert abs(errors.std() / gaussian.noise.scale - 1) < 0.05


def test_another_epsilon_keeps_the_population() -> None:
    study = small()
    tables = study.tables
    assert study.with_epsilon(0.1).tables is tables
    assert study.with_epsilon(0.1).noise.scale == pytest.approx(10 * study.noise.scale)


@given(
    st.sampled_from(["chain", "random", "tree", "grid"]),
    st.integers(2, 6),
    st.integers(2, 4),
    st.sampled_from(["dirichlet", "gaussian", "peaked"]),
    st.integers(0, 5),
)
def test_random_models_are_finite_and_cover_all_attributes(
    structure: str, attributes: int, states: int, potentials: str, seed: int
) -> None:
    model = random_model(structure, attributes=attributes, states=states, potentials=potentials, seed=seed)  # type: ignore[arg-type]
    assert all(np.isfinite(table).all() for table in model.potentials.values())
    assert set(model.structure.attributes) == set(model.domain)


def test_dirichlet_potentials_are_distributions_and_strength_makes_them_uneven() -> None:
    mild, strong = (random_model(attributes=4, states=5, strength=s) for s in (0.1, 10.0))
    for model in (mild, strong):
        for table in model.potentials.values():
            assert np.exp(table).sum() == pytest.approx(1)
    spread = [np.mean([np.std(t) for t in m.potentials.values()]) for m in (mild, strong)]
    assert spread[0] < 0.5 < 3 < spread[1]


def test_a_model_of_ones_own() -> None:
    mine = random_model("tree", attributes=3, states=2)
    study = simulate(model=mine, records=10)
    assert study.model is mine
    assert len(study.population) == 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"structure": "ring"}, "structure is one of"),
        ({"potentials": "flat"}, "potentials are one of"),
        ({"records": 0}, "number of records"),
        ({"strength": -1}, "strength"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 2}, "delta"),
        ({"model": 3}, "model is a Model"),
        ({"model": random_model("tree", attributes=3, states=2), "model_seed": 3}, "brings its structure"),
    ],
)
def test_what_cannot_be_simulated_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(qf.Error, match=message):
        simulate(**wrong)  # type: ignore[arg-type]
