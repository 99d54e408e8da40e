"""Units: whom a release protects, what is counted for them, and how much one of them can change it.

Everything here is public and sees no record: it follows from the structure, the domain, the unit and the neighbours
alone, so that whoever reads a release can work it out again. With m the
cliques that share one table and k the rows of a person, one person adds at most k m to that table, all of it in one
cell at worst, so its L1 and L2 sensitivities are both k m: m contributions to one tied table give m, not sqrt(m).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Literal, get_args

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain, Label
from quietfield.errors import Error, FileError
from quietfield.text import join_names

Neighbours = Literal["add_remove", "replace", "paper"]
#: How a person's column is read: as it is, or as whole numbers.
Kind = Literal["integer"] | None
#: The integer grid of fractional contributions: each of a unit's K records adds floor(GRID / K).
GRID = 2**20
#: The public key of the choice among a person's rows; a new one would choose anew.
ROWS_KEY = "quietfield rows 1"


@dataclass(frozen=True)
class Rows:
    """A promise of the curator: one person has at most ``rows`` rows. Nothing checks it.

    >>> Rows(2).describe()
    'any one person, who is promised to have at most 2 rows'
    """

    rows: int = 1

    def __post_init__(self) -> None:
        _check_positive(self.rows)

    @property
    def who(self) -> str:
        """Who is protected, in words."""
        return self.describe()

    def describe(self, lines: bool = False) -> str:
        """What is protected, in words.

        Args:
            lines: Whether a row is a line of a CSV file.

        Returns:
            The words, without a full stop.

        >>> Rows(1).describe(lines=True)
        'any one line of the file (a record with line breaks in it is several)'
        """
        if self.rows == 1:
            return "any one line of the file (a record with line breaks in it is several)" if lines else "any one row"
        return f"any one person, who is promised to have at most {self.rows} {'lines of the file' if lines else 'rows'}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        return {"kind": "rows", "rows": self.rows}


@dataclass(frozen=True)
class Person:
    """All rows that share the value of a column (or of several, such as ``("user", "day")``).

    With ``rows=k``, at most k rows of each person are counted. They are chosen by the MD5 of a fixed public key, the
    person and the row's codes: a choice that depends on that person's rows alone, never on their order, and that every
    engine makes alike.

    With ``normalise=True``, each of a person's K edge records (the pairs of a row that are not ``null`` in both
    places, and larger cliques likewise, over all rows) adds ``floor(2**20 / K)`` on a grid of ``2**-20``. A row whose
    edges are all null is empty and adds nothing anywhere, not even to the total or to tables of one attribute.

    Rows without a person (a null, an empty text, a NaN in any of the columns) are not counted.

    Texts are compared as they are written: ``7``, ``007`` and ``7.0`` are three persons. With ``kind="integer"`` they
    are read as integer labels are, as the whole number 7, and rows in which that fails are not counted. Of several
    columns each may have its own kind, such as ``kind=("integer", None)``.

    >>> Person("user", rows=3).describe()
    "any one 'user', of whom at most 3 rows are counted"
    """

    column: str | tuple[str, ...]
    rows: int | None = None
    normalise: bool = False
    null: Label | None = None
    kind: Kind | tuple[Kind, ...] = None

    def __post_init__(self) -> None:
        for name in ("column", "kind"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.columns or not all(isinstance(name, str) and name for name in self.columns):
            raise Error(f"a person is known by the name of a column, or by several, not by {self.column!r}.")
        if len(set(self.columns)) != len(self.columns):
            raise Error(f"the person's columns {self.columns} repeat a name; name each column once.")
        if (self.rows is None) == (not self.normalise):
            raise Error(
                f"say how many rows of each {self.column!r} count: exactly one of rows=k (at most k rows of each) and "
                "normalise=True (all rows, each with weight 1/K)."
            )
        if self.rows is not None:
            _check_positive(self.rows)
        if self.null is not None and not self.normalise:
            raise Error("null says which label is left out of K, so it goes with normalise only.")
        if any(kind not in (None, "integer") for kind in self.kinds) or len(self.kinds) != len(self.columns):
            raise Error(
                f"the kind of a person's column is 'integer' or None, one for all or one for each of {self.columns}, "
                f"not {self.kind!r}."
            )
        if len(set(self.kinds)) == 1:
            object.__setattr__(self, "kind", self.kinds[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that make up a person's identity."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """How each of the columns is read."""
        return self.kind if isinstance(self.kind, tuple) else (self.kind,) * len(self.columns)

    @property
    def who(self) -> str:
        """Who is protected, in words, however many of their rows are counted."""
        said = [
            f"{name!r} (a whole number)" if kind else repr(name)
            for name, kind in zip(self.columns, self.kinds, strict=True)
        ]
        who = " and ".join(said)
        return f"any one {who}" if len(self.columns) == 1 else f"any one combination of {who}"

    def describe(self, lines: bool = False) -> str:
        """What is protected, in words.

        Args:
            lines: Whether a row is a line of a CSV file, and the curator affirms that each is a record.

        Returns:
            The words, without a full stop.
        """
        affirmed = ", provided that every record is one line of the file, as the curator affirms" if lines else ""
        if self.rows is not None:
            counted = "1 row is" if self.rows == 1 else f"{self.rows} rows are"
            return f"{self.who}, of whom at most {counted} counted{affirmed}"
        return f"{self.who}, all of whose rows are counted with a weight of 1/K in all{affirmed}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        column = self.column if isinstance(self.column, str) else list(self.column)
        how = {"rows": self.rows} if self.rows is not None else {"normalise": True, "null": self.null}
        # Units without kinds are written as they always were: a ledger compares what was written.
        kinds = {"kinds": list(self.kinds)} if any(self.kinds) else {}
        return {"kind": "person", "column": column, **how, **kinds}


Unit = Rows | Person


def check_unit(unit: Any) -> Unit:
    """The unit as it is, or an error if it is none."""
    if not isinstance(unit, Rows | Person):
        raise Error(f"a unit is Rows(k) or Person(column, ...), not {unit!r}.")
    return unit


def protected_part(unit: Unit) -> object:
    """What says who is protected: how many of a person's rows are used, and the order of columns, is no part of it."""
    return unit if isinstance(unit, Rows) else frozenset(zip(unit.columns, unit.kinds, strict=True))


def unit_json(unit: Any) -> dict[str, Any]:
    """A unit, or the JSON of one, as plain JSON."""
    return (unit_from_json(unit) if isinstance(unit, Mapping) else check_unit(unit)).to_json()


def unit_from_json(data: Mapping[str, Any]) -> Unit:
    """The unit that ``to_json`` wrote.

    >>> unit_from_json(Rows(2).to_json())
    Rows(rows=2)
    """
    try:
        content = dict(data)
        kind = content.pop("kind")
        if kind == "rows":
            return Rows(**content)
        if kind == "person":
            column, kinds = content.pop("column"), content.pop("kinds", None)
            kind = None if kinds is None else tuple(kinds)
            return Person(column if isinstance(column, str) else tuple(column), **content, kind=kind)
    except (KeyError, TypeError, ValueError):
        raise FileError('a unit in JSON is an object such as {"kind": "rows", "rows": 1}.') from None
    raise FileError(f"the kind of unit {kind!r} is not known here; expected 'rows' or 'person'.")


@dataclass(frozen=True)
class CountedTable:
    """One table that is counted: the sum over a group of tied cliques, or the table of a single one.

    ``excluded`` is the cell that is left at zero (all null, with normalise), or None. ``l1`` and ``l2_squared`` bound
    the change of this table alone. Of an ``interaction`` one number is published, so that its shape is ().
    """

    cliques: tuple[Clique, ...]
    shape: tuple[int, ...]
    excluded: tuple[int, ...] | None
    l1: Fraction
    l2_squared: Fraction
    interaction: bool = False

    @property
    def clique(self) -> Clique:
        """The clique that names the table: the first of its group."""
        return self.cliques[0]

    @property
    def counted(self) -> tuple[int, ...]:
        """The shape of what is counted for it: of an interaction, the table of its attributes of two values."""
        return (2,) * len(self.clique) if self.interaction else self.shape


@dataclass(frozen=True)
class Statistics:
    """What is counted, and how much one person can change all of it together.

    Counts are integers in units of ``1 / denominator``; ``l1`` and ``l2_squared`` are in units of one count.
    ``total`` says that the (weighted) number of records is counted as one more noisy table; ``known_total`` that it
    is public.
    """

    tables: tuple[CountedTable, ...]
    total: bool
    known_total: bool
    denominator: int
    neighbours: Neighbours
    l1: Fraction
    l2_squared: Fraction
    total_l1: Fraction

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are read, in order of appearance."""
        return tuple(dict.fromkeys(name for table in self.tables for clique in table.cliques for name in clique))

    @property
    def edges(self) -> tuple[tuple[Clique, tuple[int, ...] | None], ...]:
        """The cliques of two attributes or more, each with its all-null cell if it has one: what K runs over."""
        tables = (table for table in self.tables if len(table.clique) > 1)
        return tuple((clique, table.excluded) for table in tables for clique in table.cliques)

    @property
    def cells(self) -> int:
        """The number of cells counted, with the total where there is one."""
        return sum(prod(table.counted) for table in self.tables) + self.total


def statistics(
    structure: Structure, domain: Domain, unit: Unit, neighbours: Neighbours = "add_remove", total: bool = True
) -> Statistics:
    """The tables to count and their exact sensitivity.

    ``add_remove``: data sets with and without one person. ``replace``: one person's rows become other rows; the
    number of persons is public, and with one row each it is the total, which then needs no noise. ``paper``: as
    published, the tables' sensitivity under add_remove while the total is taken as known, which protects less than it
    seems.

    >>> found = statistics(Structure((("a", "b"), ("b", "c"))), Domain({"a": 2, "b": 2, "c": 2}), Rows(1), total=False)
    >>> found.l1, found.l2_squared
    (Fraction(2, 1), Fraction(2, 1))
    """
    structure = Structure.of(structure, domain)
    check_unit(unit)
    if neighbours not in get_args(Neighbours):
        raise Error(f"neighbours is one of {join_names(get_args(Neighbours))}, not {neighbours!r}.")
    if not structure.cliques and not total:
        raise Error("there is nothing to count: name at least one clique.")
    normalise = isinstance(unit, Person) and unit.normalise
    if normalise and not any(len(clique) > 1 for clique in structure.cliques):
        raise Error(
            "normalise=True divides by a person's edges, so it needs a clique of two attributes or more; use rows=k."
        )
    rows = 1 if normalise else int(unit.rows or 1)
    replace = 2 if neighbours == "replace" else 1  # one person leaves and another comes
    known = is_total_public(unit, neighbours)
    if normalise and structure.interactions:
        raise Error("interactions are not known for normalise=True, which weighs edges; count tables, or use rows=k.")
    numbers = set(structure.interactions)
    tables = tuple(
        _counted_interaction(group, rows * replace)
        if group[0] in numbers
        else _counted_table(group, domain, unit, rows, replace)
        for group in structure.groups
    )
    counts_total = total and not known
    # The change of a total lies between -rows and rows, also when one person replaces another.
    total_l1 = Fraction(rows if counts_total else 0)
    # K runs over a person's edges in all edge tables at once: what they add to all of those together is at most 1.
    shared = [table for table in tables if normalise and len(table.clique) > 1]
    apart = [table for table in tables if not normalise or len(table.clique) == 1]
    l1 = sum((table.l1 for table in apart), total_l1) + (replace if shared else 0)
    l2_squared = sum((table.l2_squared for table in apart), total_l1**2) + (replace if shared else 0)
    denominator = GRID if normalise else 1
    return Statistics(
        tables, counts_total, known, denominator, neighbours, Fraction(l1), Fraction(l2_squared), total_l1
    )


def is_total_public(unit: Unit, neighbours: str) -> bool:
    """Whether the number of records is the same in neighbouring data sets, or is published all the same.

    >>> is_total_public(Rows(1), "replace"), is_total_public(Rows(2), "replace"), is_total_public(Rows(1), "add_remove")
    (True, False, False)
    """
    return neighbours == "paper" or (neighbours == "replace" and unit == Rows(1))


def sensitivities(statistics: Statistics) -> tuple[list[Fraction], list[Fraction]]:
    """The L1 and squared L2 bounds of each table and, last, of the total where one is counted."""
    l1s = [Fraction(table.l1) for table in statistics.tables]
    l2s = [Fraction(table.l2_squared) for table in statistics.tables]
    if statistics.total:
        l1s.append(Fraction(statistics.total_l1))
        l2s.append(Fraction(statistics.total_l1) ** 2)
    return l1s, l2s


def _counted_table(group: tuple[Clique, ...], domain: Domain, unit: Unit, rows: int, replace: int) -> CountedTable:
    edge, null = len(group[0]) > 1, unit.null if isinstance(unit, Person) else None
    shared = edge and isinstance(unit, Person) and unit.normalise
    most = Fraction(1 if shared else rows * len(group))
    cells = {null_cell(clique, domain, null) for clique in group} if shared else {None}
    if len(cells) > 1:
        raise Error(
            f"the tied cliques {join_names(group)} have the null {null!r} in different places; give them one order."
        )
    excluded = cells.pop()
    return CountedTable(group, domain.table_shape(group[0]), excluded, replace * most, replace * most**2)


def _counted_interaction(group: tuple[Clique, ...], most: int) -> CountedTable:
    """One number to which each record adds 1 or -1, so that one that becomes another moves it by 2."""
    return CountedTable(group, (), None, Fraction(most), Fraction(most**2), interaction=True)


def null_cell(clique: Clique, domain: Domain, null: Label | None) -> tuple[int, ...] | None:
    """The cell of a clique's table where all is null, or None if some attribute has no such label."""
    if null is None or not all(domain.has_label(name, null) for name in clique):
        return None
    return tuple(domain.code(name, null) for name in clique)


def _check_positive(rows: Any) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise Error(f"the number of rows of a person is a whole number of 1 or more, not {rows!r}.")
