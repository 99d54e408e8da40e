"""Every type of column meets every kind of rule with its extreme values, in files and frames: no count fails."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import extremes

ARROW = extremes.arrow_columns()


@pytest.mark.parametrize("name", ARROW)
def test_arrow(name: str) -> None:
    array, values = ARROW[name]
    extremes.check_column(pa.table({"a": array}), "a", values)
