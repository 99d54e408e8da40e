"""Files of version 1 stay readable: releases, models, ledgers, schemas and domains that were written before 0.1.0.

The files were written once and are never written again; a change that cannot read them breaks what people have stored.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf

FOLDER = Path(__file__).parent / "version1"
FACTS = json.loads((FOLDER / "facts.json").read_text())


@pytest.mark.parametrize("name", FACTS)
def test_a_release_reads_back_with_its_numbers_and_its_promise(name: str) -> None:
    facts = FACTS[name]
    release = qf.Release.load(FOLDER / f"{name}.qfr")
    assert str(release.promise.epsilon) == facts["epsilon"]
    assert (release.promise.delta and str(release.promise.delta)) == facts["delta"]
    assert [list(clique) for clique in release.tables] == facts["cliques"]
    for clique, table in zip(release.tables, facts["tables"], strict=True):
        np.testing.assert_array_equal(release.tables[clique], table)
    assert (release.total, release.signer) == (facts["total"], facts["signer"])
    release.check_promise()


def test_a_signed_release_is_trusted_by_its_key() -> None:
    release = qf.Release.load(FOLDER / "pure.qfr", trust=FOLDER / "curator.pub.pem")
    assert release.signer == FACTS["pure"]["signer"]


@pytest.mark.parametrize("name", FACTS)
def test_a_model_answers_as_it_did(name: str) -> None:
    model = qf.Model.load(FOLDER / f"{name}.qfm")
    first = tuple(FACTS[name]["cliques"][0])
    np.testing.assert_allclose(model.marginal(first), FACTS[name]["marginal"], rtol=1e-9, atol=1e-12)
    low, high = model.interval(first)
    assert np.all(low <= high)


@pytest.mark.parametrize(("name", "releases"), [("pure", ("pure", "tied")), ("zcdp", ("gaussian",))])
def test_a_ledger_knows_its_charges_and_takes_another(name: str, releases: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(FOLDER / f"{name}.db", path)
    ledger = qf.Ledger(path)
    assert [[charge.number, charge.digest] for charge in ledger.charges] == [FACTS[r]["ledger"] for r in releases]
    spent = ledger.spent
    unit = qf.Rows(1) if name == "pure" else qf.Person("user", rows=2)
    if name == "zcdp":
        ledger.charge("another", epsilon="0.001", unit=unit, neighbours="add_remove")
        assert qf.Ledger(path).spent > spent
    else:  # all of it is spent
        with pytest.raises(qf.Error, match="remains"):
            ledger.charge("another", epsilon="0.001", unit=unit, neighbours="add_remove")


def test_a_schema_and_a_domain_read_back_as_they_were() -> None:
    schema = qf.Schema.load(FOLDER / "schema.json")
    assert schema.to_json() == json.loads((FOLDER / "schema.json").read_text())
    assert qf.Domain.load(FOLDER / "domain.json") == schema.domain
