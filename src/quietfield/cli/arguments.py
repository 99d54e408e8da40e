"""The options that commands share, and how units, structures and records are written on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quietfield import structures
from quietfield.cli import questions
from quietfield.cli.outputs import check_named
from quietfield.cliques import Structure
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import archive_kind, parse_json, read_json
from quietfield.privacy.units import Neighbours, Person, Rows, unit_from_json
from quietfield.releases.release import Release
from quietfield.schema import FORMAT, Schema

if TYPE_CHECKING:
    from quietfield.privacy.units import Unit
    from quietfield.study.choice import Choice

# What every command that reads a release takes, with one meaning.
Trust = Annotated[
    list[Path] | None,
    typer.Option(
        "--trust",
        help="A public key (PEM), or several: refuse what none of them signed, and a release that promises nothing. A "
        "release that two persons have to sign needs both their keys.",
    ),
]
RequireSignatures = Annotated[
    int,
    typer.Option(
        "--require-signatures",
        min=1,
        max=2,
        help="With --trust: how many of these keys must have signed the release; with 2, one stolen key is not enough.",
    ),
]
MaxEpsilon = Annotated[
    str | None,
    typer.Option("--max-epsilon", help="Refuse a larger epsilon, and no promise. With --trust, 20 unless said."),
]
AllowNoPromise = Annotated[
    bool, typer.Option("--allow-no-promise", help="With --trust: take a release that promises nothing, too.")
]

#: The structures that have a name, as help and messages list them.
STRUCTURES = "auto, chain, chain:2, homogeneous, star, star:CENTRE, complete, complete:3, grid:4"
#: Where a schema is found, as help says it.
SCHEMA = "The schema: a JSON file, or a release or a model, which have one."
#: The words that stand for weights.
WEIGHTS = ("by_size", "equal")


#: The forms of a unit, as help and messages list them.
UNITS = (
    "rows:1 or rows for one row each; rows:3 for persons with at most 3 rows (your word, not checked); person:COLUMN:3 "
    "for persons of whom at most 3 rows are counted; person:COLUMN+COLUMN:3 where several columns tell persons apart; "
    "person:COLUMN:normalise for all rows of a person, weighted (not to discover or choose); or JSON such as "
    '{"kind":"person","column":"user","rows":3}'
)


def unit(text: str) -> "Unit":
    """A unit in one of the forms of :data:`UNITS`."""
    if text.lstrip().startswith("{"):
        return unit_from_json(parse_json(text.encode(), "--unit"))
    kind, _, rest = text.partition(":")
    if kind == "rows":
        return Rows(_whole(rest or "1", f"--unit {text}"))
    if kind == "person" and ":" in rest:
        columns, _, how = rest.rpartition(":")
        said = f"--unit {text}"
        column: Any = tuple(columns.split("+")) if "+" in columns else columns
        return Person(column, normalise=True) if how == "normalise" else Person(column, rows=_whole(how, said))
    raise Error(f"the unit {text!r} is not understood; write {UNITS}. Columns are named as in the data.")


def records(
    path: Path | str,
    values: Literal["codes", "labels"] = "codes",
    delimiter: str | None = None,
    encoding: str | None = None,
    one_line_per_record: bool = False,
) -> Any:
    """The records of a file or a pattern. Of SPSS and Stata files the codes are read, or the labels that they have.

    A delimiter makes it a CSV file, whatever its name, and so does the word that every record is one line; an encoding
    is for CSV, SPSS, Stata and SAS files.
    """
    from quietfield.curator.counting import is_address, open_address
    from quietfield.curator.counting.csvfiles import CsvFile
    from quietfield.curator.counting.statfiles import StatFile, is_statfile

    check_named(path)
    if is_address(path):
        if values != "codes" or delimiter is not None or encoding is not None or one_line_per_record:
            raise Error("--values, --delimiter, --encoding and --one-line-per-record are for files, not for databases.")
        return open_address(str(path))
    if is_statfile(path):
        if delimiter is not None or one_line_per_record:
            said = "--delimiter" if delimiter is not None else "--one-line-per-record"
            raise Error(f"{said} is for CSV files, which {str(path)!r} is not.")
        return StatFile(path, values, encoding)
    if values == "labels":
        raise Error(f"--values labels is for files of SPSS and Stata, which {str(path)!r} is not.")
    if delimiter is None and encoding is None and not one_line_per_record:
        return path
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        raise Error(
            f"--delimiter, --encoding and --one-line-per-record are for files of text, which {str(path)!r} is not."
        )
    sign = None if delimiter is None else parse_delimiter(delimiter)
    return CsvFile(path, sign, encoding or "utf-8", one_line_per_record)


def read_paths(data: Path | str) -> list[Path]:
    """The files that a path or a pattern names, which nothing may overwrite."""
    from quietfield.curator.counting import is_address

    return [] if is_address(data) else [Path(data), *map(Path, glob(str(data), recursive=True))]


def optional_records(
    path: str | None,
    values: Literal["codes", "labels"],
    delimiter: str | None,
    encoding: str | None,
    one_line_per_record: bool = False,
) -> Any:
    """The same where records need not be named; what says how to read them goes with them."""
    if path is not None:
        return records(path, values, delimiter, encoding, one_line_per_record)
    if values != "codes" or delimiter is not None or encoding is not None or one_line_per_record:
        raise Error(
            "--values, --delimiter, --encoding and --one-line-per-record say how records are read: they go with "
            "--records."
        )
    return None


def parse_delimiter(text: str) -> str:
    """What separates fields, as a command line can say it: a tab by its name."""
    return {"tab": "\t", "\\t": "\t"}.get(text, text)


def load_release(
    path: Path,
    trust: list[Path] | None,
    max_epsilon: str | None,
    allow_no_promise: bool,
    require_signatures: int = 1,
) -> Release:
    """The release at a path, if its promise holds and it is what the options above demand.

    Raises:
        NotSigned, OtherSigner, TooFewSignatures, NoPromise, WeakPromise: It is not what is demanded.
        FileError: It cannot be read, waits for its second signature, or its promise does not hold.
    """
    from quietfield.models.verification import verify

    if allow_no_promise and not trust and max_epsilon is None:
        raise Error("--allow-no-promise goes with --trust or --max-epsilon, which demand a promise.")
    release = Release.load(path, trust or None)
    verify(
        release,
        trust=trust or None,
        max_epsilon=max_epsilon,
        require_promise=False if allow_no_promise else None,
        require_signatures=require_signatures,
    )
    return release


def ledger_unit(text: str) -> "Unit":
    """A unit of a ledger, where the rows of a person do not matter: person:COLUMN will do."""
    if text.startswith("person:") and text.count(":") == 1:
        return unit(f"{text}:1")
    return unit(text)


def schema(path: Path) -> Schema:
    """The schema in a file: a schema, or a release or a model, which have that of their records."""
    kind = archive_kind(path)
    if kind is None:
        return Schema.load(path)
    from quietfield.models.model import Model

    found = (Model.load(path) if kind == "model" else Release.load(path)).schema
    if found is None:
        raise FileError(f"{path} does not say how columns became attributes; give the schema itself.")
    return found


def domain(path: Path) -> Domain:
    """The domain of a schema file, a domain file, a release or a model."""
    if archive_kind(path) is not None:
        return schema(path).domain
    if path.suffix.lower() in (".csv", ".parquet") and path.is_file():
        start = f"quietfield schema {path}{' --header' * (path.suffix.lower() == '.csv')} --out schema.json"
        raise FileError(f"{path} holds records, and a schema was expected; start one with: {start}.")
    content = read_json(path)
    if isinstance(content, dict) and content.get("format") == FORMAT:
        return Schema.load(path).domain
    return Domain.from_json(content)


def structure(text: str, domain: Domain) -> "Structure | Choice":
    """A structure by name (see :data:`STRUCTURES`), in a file or as JSON."""
    if text == "auto":
        from quietfield.study.choice import Choice

        return Choice()
    kind, _, rest = text.partition(":")
    said = f"--structure {text}"
    if kind == "chain":
        order = _whole(rest or "1", said)
        if order > max(1, len(domain) - 1):
            raise Error(
                f"chain:{order} joins each attribute with the {order} before it, and there are {len(domain)} in all; "
                f"write chain:{max(1, len(domain) - 1)}, or complete, to join every pair."
            )
        return structures.chain(domain, order)
    if text == "homogeneous":
        return structures.chain(domain, homogeneous=True)
    if kind == "star":
        if rest:
            questions.check(rest, domain)
        return structures.star(domain, rest or None)
    if kind == "complete":
        return structures.complete(domain, _whole(rest or "2", said))
    if kind == "grid" and rest:
        return structures.grid(domain, _whole(rest, said))
    inline = text.lstrip()[:1] in ("[", "{")
    if not inline and not Path(text).is_file():
        raise _no_structure(text, kind)
    content = parse_json(text.encode(), "the structure") if inline else read_json(text)
    if isinstance(content, list):
        content = {"cliques": content}
    if not isinstance(content, dict) or set(content) - {"cliques", "ties"} or "cliques" not in content:
        raise FileError(f'{text} is not a structure; write [["a", "b"], ...] or {{"cliques": [...], "ties": [...]}}.')
    try:
        cliques = tuple(tuple(c) for c in content["cliques"])
        found = Structure(cliques, tuple(tuple(tuple(c) for c in tie) for tie in content.get("ties", ())))
    except TypeError:
        raise FileError(f"{text} is not a structure: a clique is a list of names.") from None
    found.check(domain)
    return found


def _no_structure(text: str, kind: str) -> Error:
    """What to say of a structure that is neither a name nor a file."""
    expected = f'--structure is {STRUCTURES}, or cliques as JSON, in a file or as \'[["a", "b"]]\''
    if Path(text).is_dir():
        return FileError(f"{text} is a folder; {expected}.")
    if Path(text).suffix or len(Path(text).parts) > 1:
        return FileError(f"there is no file {text}; {expected}.")
    if kind == "grid":
        return Error("--structure grid needs its number of columns, for instance grid:4.")
    close = get_close_matches(kind.lower(), ("auto", "chain", "homogeneous", "star", "complete", "grid"), n=1)
    meant = f" did you mean {close[0]}?" if close and close[0] != kind else ""
    return Error(f"the structure {text!r} is not known;{meant} {expected}.")


def weights(path: Path | None) -> dict[tuple[str, ...], Any] | Literal["by_size", "equal"] | None:
    """Weights from a JSON file: a list of [clique, weight]; the empty clique is the total. Or a word."""
    if path is None:
        return None
    if str(path) in WEIGHTS:
        return str(path)  # type: ignore[return-value]
    content = read_json(path)
    try:
        return {tuple(clique): weight for clique, weight in content}
    except (TypeError, ValueError):
        raise FileError(f'{path} is not a list of weights; write [[["a", "b"], 2], ...].') from None


def total(text: Literal["auto", "yes", "no"]) -> Literal["auto"] | bool:
    """Whether a noisy total is released: auto, yes or no."""
    return "auto" if text == "auto" else text == "yes"


def no_header(data: str) -> str:
    """What to say where --header is given for records that are no CSV file."""
    return (
        f"--header is for CSV files, which {str(data)!r} is not by its name; if it is one, say what separates its "
        "fields: --delimiter ','."
    )


def check_payer(ledger: Path | None, no_ledger: bool) -> None:
    """Refuse a charge of which it is not said, or said twice, who pays."""
    if (ledger is None) == (not no_ledger):
        raise Error("say who pays: --ledger FILE, or --no-ledger to pay from none (and not both).")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line itself, and not by a configuration file or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def tell_charge() -> Iterator[None]:
    """Tell of a charge that stands when the work that it paid for is interrupted."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        for text in stopped.args:
            typer.echo(text, err=True)
        raise


def warn(*warnings: str | None) -> None:
    """Tell of what is allowed and hardly meant, on the standard error; None is nothing to tell."""
    for text in warnings:
        if text is not None:
            typer.echo(f"Warning: {text}", err=True)


def _whole(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1 or len(text) > 9:
        raise Error(f"{option}: a whole number from 1 to 999,999,999 was expected, not {text[:40]!r}.")
    return int(text)


# What several commands take, with one meaning: declared here, used by all. Help lists each group under its heading.
reading_option = partial(typer.Option, rich_help_panel="How records are read")
privacy_option = partial(typer.Option, rich_help_panel="Privacy")
EPSILON = privacy_option("--epsilon", help="The privacy loss, such as 1 or 0.1 or 1/3; taken exactly as written.")
UNIT = privacy_option("--unit", help=f"Who is protected: {UNITS}.")
DataArgument = Annotated[
    str,
    typer.Argument(
        help="The records: a CSV, Parquet, SPSS, Stata or SAS file, a pattern 'visits-*.csv', or a table in a "
        "database, postgresql://host/clinic#visits."
    ),
]
SchemaOption = Annotated[Path, typer.Option("--schema", help=SCHEMA)]
StructureOption = Annotated[
    str,
    typer.Option(
        "--structure",
        help=f"""{STRUCTURES}, or cliques as JSON: a file, or '[["a", "b"]]' itself. With auto, the tables are chosen
        privately, as a part of what epsilon pays for.""",
    ),
]
ValuesOption = Annotated[
    Literal["codes", "labels"], reading_option("--values", help="Of SPSS and Stata files, what is read.")
]
DelimiterOption = Annotated[
    str | None, reading_option("--delimiter", help="Of CSV files, what separates fields: ';', '|' or tab.")
]
EncodingOption = Annotated[
    str | None, reading_option("--encoding", help="Of texts that are not UTF-8, such as cp1252 or utf-16.")
]
OneLinePerRecordOption = Annotated[
    bool,
    reading_option("--one-line-per-record", help="Affirm that every record of a CSV file is one line; for persons."),
]
DeltaOption = Annotated[
    str | None,
    privacy_option(
        "--delta", help="Promised beside epsilon, such as 1e-6: for Gaussian noise, and to discover labels."
    ),
]
NoiseOption = Annotated[
    Literal["laplace", "gaussian"], privacy_option("--noise", help="laplace is pure; gaussian needs --delta.")
]
NeighboursOption = Annotated[Neighbours, privacy_option("--neighbours", help="Which data sets cannot be told apart.")]
TotalOption = Annotated[
    Literal["auto", "yes", "no"], privacy_option("--total", help="Whether a noisy total is released too.")
]
WeightsOption = Annotated[
    Path | None,
    privacy_option(
        "--weights",
        help="""A JSON file of weights, [[["a", "b"], 2], ...], or by_size: larger tables get less noise, such
        that the sum of all errors is least; or equal: just the tables asked for. Without any, Gaussian noise measures
        some attributes by themselves, too, or interactions of yes-or-no attributes in place of tables.""",
    ),
]
LedgerOption = Annotated[Path | None, privacy_option("--ledger", help="The ledger that pays.")]
IdOption = Annotated[
    str | None,
    privacy_option(
        "--id",
        help="The id of what is paid for: 32 hexadecimal digits, drawn at random. A ledger pays once for one id, so "
        "that the same command, run twice, is charged once.",
    ),
]
NoLedgerOption = Annotated[
    bool, privacy_option("--no-ledger", help="Pay from no ledger: nothing adds up what is spent.")
]
InferenceOption = Annotated[
    Literal["exact", "loopy", "convex"], typer.Option("--inference", help="How marginals are computed.")
]
ForProgramsOption = Annotated[
    bool,
    typer.Option(
        "--for-programs",
        help="In CSV, write texts as they are; else an apostrophe stands before what a spreadsheet could run.",
    ),
]
