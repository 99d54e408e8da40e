"""Published Bayesian networks as populations."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments import networks
from experiments.trials import NETWORKS, Trial, simulation_of, true_model
from quietfield.errors import Error

CHAIN = """network unknown {
}
variable a {
  type discrete [ 2 ] { yes, no };
}
variable b {
  type discrete [ 3 ] { low, mid, high };
}
variable c {
  type discrete [ 2 ] { yes, no };
}
probability ( a ) {
  table 0.25, 0.75;
}
probability ( b | a ) {
  (yes) 0.5, 0.5, 0.0;
  (no) 0.1, 0.2, 0.7;
}
probability ( c | b, a ) {
  (low, yes) 0.1, 0.9;
  (mid, yes) 0.2, 0.8;
  (high, yes) 0.3, 0.7;
  (low, no) 0.4, 0.6;
  (mid, no) 0.5, 0.5;
  (high, no) 0.6, 0.4;
}
"""


def test_a_network_is_the_product_of_its_tables() -> None:
    model = networks.parse(CHAIN)
    assert model.cliques == (("c", "b", "a"),)
    assert model.marginal("a") == pytest.approx([0.25, 0.75])
    assert model.marginal("b") == pytest.approx([0.2, 0.275, 0.525], abs=1e-5)
    joint = model.marginal(("a", "b", "c"))
    assert joint[1, 2, 0] == pytest.approx(0.75 * 0.7 * 0.6, abs=1e-5)
    assert 0 < joint[0, 2].sum() < 1e-5  # ruled out by the network, and nearly so by the model


def test_a_table_with_gaps_is_told() -> None:
    with pytest.raises(Error, match="no probabilities for some values of b"):
        networks.parse(CHAIN.replace("  (no) 0.1, 0.2, 0.7;\n", ""))


def test_networks_are_read_from_the_folder_of_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    networks.network.cache_clear()
    true_model.cache_clear()
    monkeypatch.setenv("QUIETFIELD_DATA", str(tmp_path))
    assert not any(map(networks.is_available, NETWORKS))
    with pytest.raises(Error, match="--data"):
        networks.network("asia")
    (tmp_path / "bif").mkdir()
    (tmp_path / "bif" / "asia.bif.gz").write_bytes(gzip.compress(CHAIN.encode()))
    assert [name for name in NETWORKS if networks.is_available(name)] == ["asia"]
    trial = Trial("networks", "asia", 0, 500, 1.0, 0, 0, 0, "naive")
    study = simulation_of(trial)
    assert study.model.cliques == (("c", "b", "a"),)
    assert np.sum(study.tables["c", "b", "a"]) == 500
    rows = networks.run([trial])
    assert 0 < rows[0].value < 1
    networks.network.cache_clear()
    true_model.cache_clear()


def test_all_five_are_planned() -> None:
    assert networks.PLANS["full"].structures == NETWORKS == ("asia", "sachs", "child", "insurance", "alarm")
