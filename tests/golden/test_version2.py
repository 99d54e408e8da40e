"""Files with what came later stay readable too: choices, a discovered schema, rules, ledgers that account for delta.

The files were written once and are never written again.
"""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf

FOLDER = Path(__file__).parent / "version2"
FACTS = json.loads((FOLDER / "facts.json").read_text())


def test_a_release_keeps_its_choices_and_its_discovery() -> None:
    release = qf.Release.load(FOLDER / "synthesis.qfr")
    assert release.digest == FACTS["digest"]
    found = [
        [list(one.chosen), one.candidates, one.measured, str(one.sensitivity), str(one.scale)]
        for one in release.selections
    ]
    assert found == FACTS["selections"]
    assert release.discovery is not None
    assert [str(release.discovery.cost), str(release.discovery.threshold)] == FACTS["discovery"]
    release.check_promise()


def test_a_model_draws_records_with_the_columns_of_the_source() -> None:
    model = qf.Model.load(FOLDER / "synthesis.qfm")
    np.testing.assert_allclose(model.marginal(tuple(FACTS["clique"])), FACTS["marginal"], rtol=1e-9, atol=1e-12)
    assert model.records(3, seed=0).column_names == FACTS["columns"]
    assert model.schema == qf.Schema.load(FOLDER / "schema.json")


def test_a_ledger_accounts_for_thresholds(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(FOLDER / "zcdp.db", path)
    ledger = qf.Ledger(path)
    (charge,) = ledger.charges
    assert [charge.digest, str(charge.threshold), str(ledger.remaining)] == FACTS["ledger"]
    asked = {"unit": qf.Rows(1), "neighbours": "add_remove"}
    ledger.charge("another", epsilon="0.1", **asked)
    assert qf.Ledger(path).remaining < Fraction(FACTS["ledger"][2])
    with pytest.raises(qf.BudgetExceeded):
        ledger.charge("too much", epsilon=8, delta="1e-6", rho=ledger.total, **asked)
