"""Tables for people: what a model says about any attributes, consistent and never negative, with margins of error.

All tables come from one model, so whatever two of them both hold agrees. A table of attributes that no clique joins was
never counted: it is the model's inference from other tables, and marked so wherever it is written. The tables go with a
data dictionary and a statement on privacy to paste beside them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Clique, Domain
from quietfield.drawing.columns import format_level
from quietfield.errors import Error
from quietfield.files import write_atomically
from quietfield.models import intervals
from quietfield.models.basis import INFERRED, UNMEASURED, describe_basis
from quietfield.models.frames import free_name, import_pandas
from quietfield.models.spreadsheets import APOSTROPHE, has_formulas
from quietfield.models.verification import check_learned_from
from quietfield.output import exports
from quietfield.output.workbooks import Sheet, workbook
from quietfield.privacy.accounting import format_number
from quietfield.releases.checks import check_same
from quietfield.releases.description import describe_counted, describe_signers, explain_promise, list_warnings
from quietfield.status import show_status
from quietfield.text import join_names, plural, table_html

if TYPE_CHECKING:
    import pandas

    from quietfield.models.model import Model
    from quietfield.releases.release import Release

#: The most cells of one table: people do not read more, and an inferred table may be astronomical.
MOST_CELLS = 1_000_000
MOST_SHOWN = 60  # rows in a notebook
UNSURE = "the model keeps no record of how far it may be from the truth"


@dataclass(frozen=True)
class PeopleTable:
    """One table: attributes, columns by name (labels first), whether the model inferred it, whether it has margins."""

    attributes: Clique
    inferred: bool
    margins: bool
    columns: dict[str, list[Any]] = field(repr=False)
    note: str  # what it rests on: see :func:`quietfield.models.basis.describe_basis`

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas DataFrame, one row per cell."""
        return import_pandas("people_tables(...).tables[0].columns").DataFrame(self.columns)

    def _repr_html_(self) -> str:
        rows = list(zip(*self.columns.values(), strict=True))
        more = [f"… {plural(len(rows) - MOST_SHOWN, 'more row')}"] if len(rows) > MOST_SHOWN else []
        return table_html(" × ".join(self.attributes), list(self.columns), rows[:MOST_SHOWN], more)


@dataclass(frozen=True)
class Publication:
    """Tables for people, and what goes with them. Get one from :func:`people_tables`; :meth:`save` writes it."""

    domain: Domain
    tables: tuple[PeopleTable, ...]
    statement: tuple[str, ...]
    level: float
    counts: bool
    created: str = ""  # when the release was, where there is one: files bear that time
    counted: str = "records that were counted"  # what the shares are shares of

    def _repr_html_(self) -> str:
        rows = [(" × ".join(t.attributes), f"{self.domain.cells(t.attributes):,}", t.note) for t in self.tables]
        return table_html(f"{plural(len(self.tables), 'table')} for people", ("attributes", "cells", "basis"), rows)

    @property
    def margins(self) -> bool:
        """Whether some table has margins of error."""
        return any(table.margins for table in self.tables)

    @property
    def dictionary(self) -> list[tuple[str, str, str]]:
        """Each attribute with its labels, and each other column with its meaning."""
        used = dict.fromkeys(name for table in self.tables for name in table.attributes)
        rows = [(name, str(label), "a value of the attribute") for name in used for label in self.domain.labels(name)]
        return rows + [(name, "", text) for name, text in self._meanings.items()]

    @property
    def _meanings(self) -> dict[str, str]:
        found = {"share": f"estimated share of {self.counted} in this cell; the shares of a table add up to 1"}
        if self.margins:
            sure = f"{format_level(self.level)} confidence"
            found["share_low, share_high"] = f"margin of error: with {sure} the share lies between"
        if self.counts:
            found["count"] = f"share times the estimated number of {self.counted}; not rounded, so that sums agree"
        if self.margins and self.counts:
            found["count_low, count_high"] = "the margin of error of the share, times the same number"
        found["basis"] = "what the table rests on: " + ", or ".join(
            repr(note) for note in dict.fromkeys(table.note for table in self.tables)
        )
        return found

    def save(
        self, out: str | Path, format: str = "csv", *, force: bool = False, for_programs: bool = False
    ) -> list[Path]:
        """Write a folder of CSV or Parquet files, or one workbook (``format="xlsx"``, ``out`` is the file).

        In a folder: ``table-0001.csv`` and so on, ``index.csv`` (which file holds what), ``dictionary.csv`` and
        ``privacy.txt``. No text in CSV is a formula: an apostrophe stands before what a spreadsheet would take for one.
        Programs that read CSV want texts as they are: say ``for_programs=True``. Parquet has them so anyway.
        An earlier export is replaced with ``force`` alone, whole; files of other origin never are.
        """
        if format not in exports.FORMATS:
            raise Error(f"the format is one of {join_names(exports.FORMATS)}, not {format!r}.")
        out = Path(out)
        exports.check_target(out, format, force)
        if format == "xlsx":
            write_atomically(out, workbook(self._sheets()), time=self.created)
            return [out]
        return exports.write_folder(out, self._files(format, for_programs), force, time=self.created)

    def _files(self, format: str, for_programs: bool) -> dict[str, bytes]:
        files, index = {}, [exports.PEOPLE_COLUMNS]
        for number, table in enumerate(self.tables, 1):
            name = exports.table_file(number, format)
            files[name] = exports.encode_table(table.columns, format, for_programs=for_programs)
            index.append((name, " × ".join(table.attributes), table.note))
        texts = [text for row in self.dictionary for text in row]
        apostrophe = [("any text", "", APOSTROPHE)] if has_formulas(texts) and not for_programs else []
        rows = [("column", "value", "meaning"), *self.dictionary, *apostrophe]
        files["dictionary.csv"] = exports.csv_rows(rows, for_programs=for_programs)
        files["privacy.txt"] = ("\n\n".join(self.statement) + "\n").encode()
        index += [("dictionary.csv", "", "what each column means"), ("privacy.txt", "", "the statement on privacy")]
        return {**files, exports.INDEX: exports.csv_rows(index, for_programs=for_programs)}

    def _sheets(self) -> list[Sheet]:
        contents = [(f"Table {i}", " × ".join(t.attributes), t.note) for i, t in enumerate(self.tables, 1)]
        about = [*((text,) for text in self.statement), ("",), ("sheet", "attributes", "basis"), *contents]
        sheets = [
            Sheet("About", (), about, (100, 40, 60)),
            Sheet("Dictionary", ("column", "value", "meaning"), self.dictionary, (28, 24, 80)),
        ]
        for number, table in enumerate(self.tables, 1):
            rows = list(zip(*table.columns.values(), strict=True))
            sheets.append(Sheet(f"Table {number}", tuple(table.columns), rows, (16,) * len(table.columns)))
        return sheets


def people_tables(
    model: "Model",
    tables: str | Iterable[str | Sequence[str]] | None = None,
    *,
    level: float = 0.9,
    total: float | None = None,
    release: "Release | None" = None,
    progress: bool = False,
) -> Publication:
    """Tables of any attributes from a model, for people.

    Args:
        model: The model.
        tables: Names of attributes, one name or several for each table (one name alone is one table); without it, every
            attribute and every clique.
        level: The confidence of the margins of error.
        total: The number of records that counts add up to; by default that of the model's fit, and without either there
            are shares alone.
        release: The release that the model was learned from: the statement on privacy then says what was promised.
        progress: Whether a line on the error stream shows that it goes on.

    Returns:
        The tables, a statement on privacy and a description of the columns.

    Raises:
        Incomplete: The release waits for a signature.
        Error: A name is not an attribute, a table has too many cells, a number is out of range, or the model was not
            learned from the release.

    >>> import quietfield as qf
    >>> model = qf.Model(qf.Domain({"sex": ["f", "m"], "smokes": ["no", "yes"]}), {("sex", "smokes"): [[1, 0], [0, 0]]})
    >>> found = people_tables(model, ["sex"], total=1000)
    >>> [round(count) for count in found.tables[0].columns["count"]]
    [650, 350]
    """
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0 < level < 1:
        raise Error(f"the level of margins of error lies between 0 and 1, not at {level!r}; 0.9 is usual.")
    if release is not None:
        check_same(release.domain, model.domain, "the release and the model")
        check_learned_from(model, release)
    wanted = _list_tables(model, tables)
    if total is None and model.report is not None:
        total = model.report.total
    if total is not None and not 0 < total < float("inf"):
        raise Error(f"the number of records is a positive number, not {total!r}.")
    _check_sizes(model, wanted)
    with show_status("tables: margins of error ...", progress):
        margins = _margins(model, wanted, level)
    missing = unmeasured = ""
    made = []
    for attributes in wanted:
        note = basis = describe_basis(model, attributes)
        if (estimate := model.estimate(attributes)) is not None:
            note = f"{basis}; {estimate}"
        ends, why = margins[attributes]
        missing, unmeasured = missing or ("" if basis == UNMEASURED else why), unmeasured or why
        columns = _columns(model, attributes, ends, total, note)
        made.append(PeopleTable(attributes, basis == INFERRED, ends is not None, columns, note))
    said = _statement(model, release, made, level, missing or unmeasured)
    created = "" if release is None else release.created
    counted = describe_counted(None if release is None else release.promise)
    return Publication(model.domain, tuple(made), tuple(said), level, total is not None, created, counted)


def _list_tables(model: "Model", tables: str | Iterable[str | Sequence[str]] | None) -> list[Clique]:
    if tables is None:
        singles: list[Clique] = [(name,) for name in model.domain]
        return singles + [clique for clique in model.cliques if len(clique) > 1]
    found = [model.domain.clique(table) for table in ([tables] if isinstance(tables, str) else tables)]
    if not found or not all(found):
        raise Error("name at least one attribute for each table.")
    return found


def _check_sizes(model: "Model", wanted: Iterable[Clique]) -> None:
    for attributes in wanted:
        if (cells := model.domain.cells(attributes)) > MOST_CELLS:
            raise Error(
                f"the table of {join_names(attributes)} has {cells:,} cells, more than the {MOST_CELLS:,} that are "
                "written for people; name fewer attributes."
            )


def _margins(
    model: "Model", wanted: Sequence[Clique], level: float
) -> dict[Clique, tuple[tuple[np.ndarray, np.ndarray] | None, str]]:
    """The ends of the margins of each table, or None and why it has none."""
    found: dict[Clique, tuple[tuple[np.ndarray, np.ndarray] | None, str]] = {}
    held = set(model.structure.attributes)
    for attributes in wanted:
        if unknown := [name for name in attributes if name not in held]:
            found[attributes] = None, f"no published table holds {join_names(unknown)}"
    rest = [attributes for attributes in wanted if attributes not in found]
    joined = [
        attributes
        for attributes in rest
        if model.structure.joins(attributes) and model.domain.cells(attributes) <= intervals.MOST_CELLS
    ]
    # What cliques hold is worked out in one go; any other table by itself, since its inference may not fit.
    for group in [joined, *([attributes] for attributes in rest if attributes not in joined)]:
        try:
            found |= {
                one: (ends, "") for one, ends in zip(group, intervals.intervals(model, group, level), strict=True)
            }
        except Error as error:
            why = UNSURE if model.uncertainty is None else str(error)
            found |= dict.fromkeys(group, (None, why))
    return found


def _columns(
    model: "Model", attributes: Clique, ends: tuple[Any, Any] | None, total: float | None, note: str
) -> dict[str, list[Any]]:
    shares = model.marginal(attributes)
    numbers = {"share": shares}
    if ends is not None:
        numbers["share_low"], numbers["share_high"] = (np.clip(end, 0.0, 1.0) for end in ends)
    if total is not None:
        numbers["count"] = shares * total
        if ends is not None:
            numbers["count_low"], numbers["count_high"] = numbers["share_low"] * total, numbers["share_high"] * total
    labels = zip(*product(*(model.domain.labels(name) for name in attributes)), strict=True)
    columns: dict[str, list[Any]] = {name: list(values) for name, values in zip(attributes, labels, strict=True)}
    for name, values in numbers.items():
        columns[free_name(name, attributes)] = np.round(values.ravel(), 8 if name.startswith("share") else 3).tolist()
    columns[free_name("basis", attributes)] = [note] * shares.size
    return columns


def _statement(
    model: "Model", release: "Release | None", tables: Sequence[PeopleTable], level: float, missing: str
) -> list[str]:
    """A statement on privacy and accuracy, to paste beside the tables."""
    said = ["About these tables"]
    if release is not None and release.promise is not None:
        delta = "" if release.promise.delta is None else f" and delta = {format_number(release.promise.delta)}"
        found = list_warnings(release)
        said += [f"WARNING: {text}" for text in found]
        epsilon, whom = f"epsilon = {format_number(release.promise.epsilon)}{delta}", release.promise.protects
        said.append(
            f"The release behind these tables states {epsilon} for {whom}. {explain_promise(release)}"
            if found
            else f"These tables were made with differential privacy, with {epsilon}. They protect {whom}. "
            f"{explain_promise(release)}"
        )
        signed = describe_signers(release.signers) if release.signed else "which is not signed"
        said.append(f"They come from the release {release.id}, {signed}; whoever has its file can check all this.")
    elif release is not None:
        said.append(
            "No promise of privacy is made here: the tables behind them were noised elsewhere, and whether they "
            "protect anyone is for whoever noised them to say."
        )
    else:
        said.append(
            "They were computed from a model alone, not from records. The model's privacy is that of the release that "
            "it was learned from: quote the promise of that release here."
        )
    vouched = describe_signers(model.signers) if model.signed else "not signed: anyone could have made or changed it"
    said.append(f"The model behind these tables is {vouched}.")
    if model.report is not None or release is not None:
        said.append("Random noise was added before anything was published, and a model was fitted to the noisy tables.")
    said.append(
        "The numbers in them are estimates from that model: consistent with each other and never negative, but not "
        "exact counts."
    )
    if any(table.margins for table in tables):
        said.append(
            f"The margins of error are at a confidence of {format_level(level)} for each cell. They cover the added "
            "noise and chance in who was sampled, provided that the model's structure is right."
        )
    if missing:
        which = "There are no margins of error" if not any(t.margins for t in tables) else "Some tables have none"
        said.append(f"{which}: {missing.rstrip('.')}.")
    if any(table.inferred for table in tables):
        said.append(
            "Tables marked as the model's inference join attributes that were not published together. They follow from "
            "other tables and the assumption that nothing else connects the attributes; treat them with care."
        )
    return said
