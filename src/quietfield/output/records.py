"""Files of synthetic records with the columns and types of their source, and the data card that goes with them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.random import SeedSequence

from quietfield.errors import Error
from quietfield.files import set_time, write_atomically
from quietfield.models.basis import UNMEASURED, describe_basis
from quietfield.models.frames import write_table
from quietfield.models.sampling import check_whole
from quietfield.models.values import check_schema, describe_rule, record_columns, write_column
from quietfield.models.verification import check_learned_from
from quietfield.releases.description import explain_promise, list_warnings, summarize_promise
from quietfield.schema import Attribute, Cuts
from quietfield.status import show_status
from quietfield.text import join_names, plural, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from quietfield.models.model import Model
    from quietfield.releases.release import Release
    from quietfield.schema import Schema

#: The first line of every data card.
CARD = "# Data card: synthetic records by quietfield"
FILES = "- **Files**: "
MOST_SHOWN = 40  # measured tables in a card
#: Of a column that no table holds.
NOT_MEASURED = "not measured: its values are drawn as if all were equally likely"


def record_files(path: str | Path, copies: int = 1) -> list[Path]:
    """The files of some synthetic data sets: one has the path itself, several are numbered.

    >>> [file.name for file in record_files("people.csv", 2)]
    ['people-1.csv', 'people-2.csv']
    """
    path = Path(path)
    return [path] if copies == 1 else [path.with_stem(f"{path.stem}-{i}") for i in range(1, copies + 1)]


def card_file(path: str | Path) -> Path:
    """The data card that lies beside records."""
    return Path(path).with_suffix(".card.md")


def is_described(file: Path, card: Path) -> bool:
    """Whether a data card lies beside a file of records and names it: then the file is synthetic, and ours."""
    return _cell(file.name) in described_files(card)


def described_files(card: Path) -> list[str]:
    """The names of the files of records that a data card lists, as it spells them; none where it is no data card."""
    try:
        lines = card.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    listed = next((line.removeprefix(FILES) for line in lines if line.startswith(FILES)), "")
    return listed.rpartition("; ")[0].split(", ") if lines[:1] == [CARD] else []


def write_records(
    path: str | Path,
    model: "Model",
    n: int | None = None,
    *,
    seed: int | None = None,
    copies: int = 1,
    schema: "Schema | None" = None,
    release: "Release | None" = None,
    delimiter: str = ",",
    for_programs: bool = False,
    progress: bool = False,
) -> list[Path]:
    """Draw synthetic records and write them as their source would be, with a data card beside them.

    Args:
        path: A file whose name ends in .csv or .parquet; replaced if it is there, like all others that are written.
        model: The model.
        n: How many records per file; by default as many as the release counted, as far as it tells.
        seed: The same seed gives the same records.
        copies: How many data sets. Several are numbered (``people-1.csv``), and each is of other parameters
            (:meth:`quietfield.Model.draws`): analyse each, and combine with :func:`quietfield.combine_estimates`.
        schema: How columns became attributes; by default the schema of the release.
        release: The release that the model was learned from: the card then says what was promised, and all files bear
            the time of the release.
        delimiter: What separates the fields of a CSV file.
        for_programs: Whether programs alone read a CSV file; else no text in it is a formula.
        progress: Whether a line on the error stream says what it is at.

    Returns:
        The files of records, and the card.

    Raises:
        FileError: The ending is another one, or a file cannot be written.
        Error: No schema is known, or the model keeps no errors to draw several data sets from.
        OtherRelease: The model was learned from another release.

    >>> import quietfield as qf
    >>> schema = qf.Schema({"age": qf.Cuts([18, 65], least=0), "sex": ["f", "m"]})
    >>> model = qf.Model(schema.domain, {("age", "sex"): [[0, 0], [1, 1], [0, 0]]}, schema=schema)
    >>> [file.name for file in write_records("people.csv", model, 100, seed=0)]
    ['people.csv', 'people.card.md']
    """
    if release is not None:
        check_learned_from(model, release)
    schema = model.schema if schema is None else schema
    files = record_files(path, check_whole("the number of data sets", copies, 1))
    with show_status(f"drawing models for {plural(copies, 'data set')}", progress and copies > 1):
        drawn = [model] if copies == 1 else model.draws(copies, seed)
    seeds: Sequence[int | None] = [seed]
    if copies > 1:
        seeds = [None] * copies if seed is None else [int(s) for s in SeedSequence(seed).generate_state(copies)]
    # One data set stands for the model, and the closer the better; several stand for what is unknown of it, and rules
    # that combine their results take records to be independent.
    even = copies == 1 and model.inference == "exact"
    rows, how = 0, "exact, spread evenly" if even else "exact"
    for i, (file, one, number) in enumerate(zip(files, drawn, seeds, strict=True), 1):
        with show_status(f"drawing records: data set {i} of {copies}", progress):
            table = one.records(n, number, schema, even=even)
            rows, how = len(table), (table.schema.metadata or {}).get(b"diagnostics", how.encode()).decode()
            if file.suffix.lower() == ".csv" and schema is not None:
                table = _write_forms(schema, table)
            write_table(file, table, delimiter=delimiter, for_programs=for_programs, stacklevel=3)
    card = card_file(path)
    text = describe_records(model, files, rows, schema=schema, release=release, how=how)
    created = "" if release is None else release.created  # else the files would tell how long the count took
    write_atomically(card, text.encode(), time=created)
    for file in files:
        set_time(file, created)
    return [*files, card]


def _write_forms(schema: "Schema", table: "pa.Table") -> "pa.Table":
    """The records as CSV has them, where rules read decimal commas and dates in another form than ISO's."""
    for place, name in enumerate(record_columns(schema)):
        written = write_column(schema[name], table.column(place))
        if written is not table.column(place):
            table = table.set_column(place, table.field(place).name, written)
    return table


def describe_records(
    model: "Model",
    files: Sequence[Path],
    rows: int,
    *,
    schema: "Schema | None" = None,
    release: "Release | None" = None,
    how: str = "exact",
) -> str:
    """The data card of synthetic records: what they are, how they were drawn, and what must not be concluded."""
    schema = model.schema if schema is None else schema
    if schema is None:
        raise Error("a data card describes columns, and this model has no schema; give schema=....")
    check_schema(schema, model.domain)
    each = "" if len(files) == 1 else " each, from parameters of its own"
    held = ", ".join(_cell(file.name) for file in files)
    cliques = [" × ".join(map(_cell, clique)) for clique in model.cliques[:MOST_SHOWN]]
    more = len(model.cliques) - len(cliques)
    cliques += [f"and {more:,} more"] if more > 0 else []
    unmeasured = find_unmeasured(model, schema)
    columns = [
        f"| {_cell(column)} | {_cell(_describe_column(schema[name], column in unmeasured))} |"
        for name, column in record_columns(schema).items()
    ]
    sets = (
        "Each file is one data set. Do the same analysis in each, and combine the results with "
        "`quietfield.combine_estimates`: the spread between the files shows what noise and sample leave unknown."
        if len(files) > 1
        else "Standard errors and tests that take these records for real ones are too optimistic: they know nothing of "
        "the noise. Ask the model for intervals, or draw several data sets (`--copies`) and combine their results."
    )
    return "\n".join(
        [
            CARD,
            "",
            "Nobody's: every record was drawn from a statistical model of noisy counts, and none was copied or altered "
            "from data.",
            "",
            f"{FILES}{held}; {plural(rows, 'record')}{each}.",
            *_weight(model, rows),
            f"- **Model**: {_cell(repr(model))}. Sampling: {_cell(how)}.",
            *(f"- **{name}**: {text}" for name, text in _origin(model, release)),
            "",
            "## Columns",
            "",
            "| column | how its values are drawn |",
            "|---|---|",
            *columns,
            "",
            "## What must not be concluded",
            "",
            f"- Only these tables were measured: {', '.join(cliques)}. What the records show of other combinations is "
            "the model's inference from them.",
            "- Within a bin or a period, values are spread evenly by rule. Their distribution there, and how it hangs "
            "together with anything else, was not measured.",
            "- A record that resembles a person says nothing of that person. A rare combination that is here need not "
            "occur in the source, and one that occurs need not be here.",
            *(f"- {_cell(text[0].upper() + text[1:])}." for text in note_unmeasured(unmeasured)),
            *_left_out(schema),
            f"- {sets}",
            "",
        ]
    )


def find_unmeasured(model: "Model", schema: "Schema | None" = None) -> list[str]:
    """The columns of synthetic records that no published table holds; without a schema, the attributes."""
    columns = {} if schema is None else record_columns(schema)
    return [columns.get(name, name) for name in model.domain if describe_basis(model, [name]) == UNMEASURED]


def note_unmeasured(columns: Sequence[str]) -> list[str]:
    """What there is to say of columns that were not measured.

    >>> note_unmeasured(["income"])
    ["nothing was measured of 'income': values there are drawn as if all were equally likely"]
    """
    if not columns:
        return []
    return [f"nothing was measured of {join_names(columns, 100)}: values there are drawn as if all were equally likely"]


def _describe_column(rule: Attribute, unmeasured: bool) -> str:
    """How the values of a column are drawn, in words; what gaps leave between whole numbers is told as these.

    >>> _describe_column(Cuts([2, 3, 4], least=1, most=9.5, gaps=[(1, 2), (2, 3)], type="number"), True)
    'number: uniform within each bin; the first begins at 1, the last ends at 9.5; from 1 to 3 whole numbers alone; \
not measured: its values are drawn as if all were equally likely'
    """
    said = describe_rule(rule)
    if isinstance(rule, Cuts) and len(rule.gaps) > 1 and all(a == int(a) and b == a + 1 for a, b in rule.gaps):
        lows, highs = ({int(gap[end]) for gap in rule.gaps} for end in (0, 1))
        runs = zip(sorted(lows - highs), sorted(highs - lows), strict=True)
        spans = ", ".join(f"from {first} to {last}" for first, last in runs)
        said = f"{describe_rule(replace(rule, gaps=()))}; {spans} whole numbers alone"
    return f"{said}; {NOT_MEASURED}" if unmeasured else said


def _weight(model: "Model", rows: int) -> list[str]:
    """How many of the records that were counted each synthetic one stands for, where these are not as many."""
    if model.total is None or not rows or rows == model.total:
        return []
    counted = f"about {model.total:,} that were counted"
    return [
        f"- **Weight**: each record stands for {model.total / rows:.6g} of {counted}: multiply counts and sums by it."
    ]


def _origin(model: "Model", release: "Release | None") -> list[tuple[str, str]]:
    """Which release the model was learned from, and what that promises."""
    report = model.report
    digest = release.digest if release is not None else "" if report is None else report.release_digest
    if release is None:
        known = f"SHA-256 {digest}; its promise is told there" if digest else "none is known"
        return [("Release", f"{known}.")]
    found = [("Release", f"SHA-256 {digest}."), ("Privacy", f"{_cell(summarize_promise(release))}.")]
    found += [("Warning", _cell(text)) for text in list_warnings(release)]
    found += [("Note", f"{_cell(text)}.") for text in release.notes]
    if release.promise is not None:
        found.append(("In words", f"{_cell(explain_promise(release))} Drawing records from it costs nothing more."))
    return found


def _left_out(schema: "Schema") -> list[str]:
    if not schema.drops:
        return []
    names = ", ".join(_cell(name) for name in schema.drops[:MOST_SHOWN])
    return [f"- Records of the source whose value of {names} no rule covers were not counted, and are not modelled."]


def _cell(text: object) -> str:
    """A text as Markdown shows it: in a table too, and whatever names people give to columns."""
    shown = printable(text)
    for sign in "\\`*_|<>[]":
        shown = shown.replace(sign, f"\\{sign}")
    return shown
