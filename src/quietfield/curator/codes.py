"""Records as codes, one row each and in their order: what a model needs to score them. All of it is NOT PRIVATE.

Counting may drop a record and forget the order; a score belongs to its record, so here nothing is dropped or moved.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.curator.counting.coding import Parameters, code_column
from quietfield.curator.counting.duckdb_engine import DuckEngine, codes_sql, connect
from quietfield.curator.counting.reading import hide_details
from quietfield.schema import DROP, Attribute, Schema

if TYPE_CHECKING:
    from quietfield.models.model import Model


def codes(source: Any, schema: Schema) -> np.ndarray:
    """The codes of all records, in order; -1 where a value would drop its record from a count. NOT PRIVATE.

    >>> codes({"sex": ["m", "?", "f"], "visits": [0, 1, 1]}, Schema({"sex": ["f", "m"], "visits": 2})).tolist()
    [[1, 0], [-1, 1], [0, 1]]
    """
    engine = DuckEngine(source)
    kept = {name: _keep_all(schema[name]) for name in schema}

    def work() -> np.ndarray:
        with connect() as con:
            con.execute("SET preserve_insertion_order = true")
            parameters = Parameters()
            table, columns = engine.attach(con, [schema.column(name) for name in schema])
            rules = [code_column(kept[a], columns[schema.column(a)], i, parameters) for i, a in enumerate(schema)]
            found = con.execute(codes_sql(table, rules), parameters.values).fetchnumpy()
            parts = [_places(kept[a], schema[a])[np.asarray(found[f"k{i}"])] for i, a in enumerate(schema)]
            return np.stack(parts, axis=1)

    return hide_details(work)


def log_prob(model: "Model", source: Any, schema: Schema) -> np.ndarray:
    """The log-probability of each record; NaN for one that would not be counted. NOT PRIVATE."""
    found = codes(source, schema)
    counted = (found >= 0).all(axis=1)
    scores = np.full(len(found), np.nan)
    scores[counted] = model.log_prob(found[counted])
    return scores


def _keep_all(rule: Attribute) -> Attribute:
    """The same rule with a label of its own for whatever would drop a record."""
    outside: Any = "outside"
    while outside in rule.labels:
        outside += "_"
    return replace(
        rule,
        null=outside if rule.null == DROP else rule.null,
        unknown=outside if rule.unknown == DROP else rule.unknown,
    )


def _places(kept: Attribute, rule: Attribute) -> np.ndarray:
    """For each label of the one rule, its position among those of the other, or -1."""
    place = {label: i for i, label in enumerate(rule.labels)}
    return np.array([place.get(label, -1) for label in kept.labels])
