"""``quietfield export``: the noisy tables of a release for programs, or those of a model for people."""

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from quietfield.cli import arguments, questions
from quietfield.errors import Error
from quietfield.files import archive_kind
from quietfield.models.frames import free_name
from quietfield.models.model import Model
from quietfield.models.spreadsheets import APOSTROPHE, has_formulas
from quietfield.output import exports
from quietfield.output.tables import people_tables
from quietfield.releases.parts import PAPER_NOTE
from quietfield.status import is_terminal, show_status
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.releases.parts import Table
    from quietfield.releases.release import Release

app = typer.Typer()


@app.command(
    epilog="Example: quietfield export visits.qfr --out tables --format csv\n\n"
    "Example: quietfield export visits.qfm --table age,smokes --table visits --out tables.xlsx --format xlsx"
)
def export(
    path: Annotated[Path, typer.Argument(help="The release, or a model.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for the tables, made if need be; of xlsx, the file.")
    ],
    format: Annotated[str, typer.Option(help="csv or parquet; from a model also xlsx.")] = "csv",
    source: Annotated[
        str, typer.Option("--from", help="What PATH is: auto (as the file says), release or model.")
    ] = "auto",
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="From a model: attributes, separated by commas (quoted as in CSV where a name holds one); one option "
            "a table. Default: all tables."
        ),
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="From a model: the confidence of the margins of error; 0.9 unless said.")
    ] = None,
    total: Annotated[
        float | None, typer.Option(help="From a model: the number of records that counts add up to.")
    ] = None,
    release_file: Annotated[
        Path | None, typer.Option("--release", help="From a model: its release, for the statement on privacy.")
    ] = None,
    trust: arguments.Trust = None,
    require_signatures: arguments.RequireSignatures = 1,
    max_epsilon: arguments.MaxEpsilon = None,
    allow_no_promise: arguments.AllowNoPromise = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier export at --out: the files that its index lists.")
    ] = False,
    for_programs: arguments.ForProgramsOption = False,
) -> None:
    """Write tables with their labels: the noisy ones of a release, or a model's for people, with margins of error.

    A release gives a file for each noisy table and an index.csv. A model gives consistent tables that are never
    negative, a data dictionary and a statement on privacy; tables that the model inferred are marked.
    """
    if source not in ("auto", "release", "model"):
        raise Error(f"--from is auto, release or model, not {source!r}.")
    if format not in exports.FORMATS:
        raise Error(f"--format is csv, parquet or, from a model, xlsx; not {format!r}.")
    kind = archive_kind(path) if source == "auto" else source
    if format == "xlsx" and kind == "release":
        raise Error("--format is csv or parquet, not 'xlsx'; xlsx is for tables from a model.")
    exports.check_target(out, format, force)
    if kind == "model":
        if release_file is None and (max_epsilon is not None or allow_no_promise or require_signatures > 1):
            raise Error(
                "--max-epsilon, --allow-no-promise and --require-signatures are about a release; name it with "
                "--release."
            )
        source_release = None
        if release_file is not None:
            source_release = arguments.load_release(
                release_file, trust, max_epsilon, allow_no_promise, require_signatures
            )
        level = 0.9 if level is None else level
        model = Model.load(path, trust or None)
        _for_people(model, out, format, table, level, total, source_release, force, for_programs)
        return
    if table or any(said is not None for said in (level, total, release_file)):
        raise Error(
            "--table, --level, --total and --release are for a model; a release's tables are written as they are."
        )
    release = arguments.load_release(path, trust, max_epsilon, allow_no_promise, require_signatures)
    files: dict[str, bytes] = {}
    index: list[list[Any]] = [list(exports.RELEASE_COLUMNS)]
    tables = [part for part in release.parts if not part.interaction]
    if numbers := [part for part in release.parts if part.interaction]:
        file = f"interactions.{format}"
        files[file] = exports.encode_table(_interactions(release, numbers), format, for_programs=for_programs)
        index.append([file, "", numbers[0].noise.kind, "", "", "", ""])
    for number, part in enumerate(tables, 1):
        file = exports.table_file(number, format)
        files[file] = exports.encode_table(_columns(release, part), format, for_programs=for_programs)
        noise = part.noise
        cell = "" if part.excluded is None else _json(_labels(release, part, part.excluded))
        index.append([file, _json(part.cliques), noise.kind, repr(noise.scale), repr(noise.std), cell, ""])
    if release.total is not None:
        noise_or_none = release.total_noise
        index.append(["total", "", "public" if noise_or_none is None else noise_or_none.kind,
                      "" if noise_or_none is None else repr(noise_or_none.scale),
                      "" if noise_or_none is None else repr(noise_or_none.std), "", repr(release.total)])  # fmt: skip
    remarks = _remarks(release)
    if format == "csv" and not for_programs and has_formulas(_texts(release)):
        remarks.append(APOSTROPHE)
    index += [["remark", "", "", "", "", "", remark] for remark in remarks]
    files[exports.INDEX] = exports.csv_rows(index, for_programs=for_programs)
    exports.write_folder(out, files, force, time=release.created)
    apart = f", {plural(len(numbers), 'interaction')}" if numbers else ""
    typer.echo(f"{plural(len(tables), 'table')}{apart} and index.csv written to {out}")
    for remark in remarks:
        typer.echo(remark)


def _for_people(
    model: Model,
    out: Path,
    format: str,
    tables: list[str] | None,
    level: float,
    total: float | None,
    release: "Release | None",
    force: bool,
    for_programs: bool,
) -> None:
    wanted = None
    if tables is not None:  # each once, however often it is said
        wanted = list(dict.fromkeys(tuple(questions.attributes([text], model.domain)) for text in tables))
    made = people_tables(model, wanted, level=level, total=total, release=release, progress=is_terminal())
    cells = plural(sum(model.domain.cells(one.attributes) for one in made.tables), "cell")
    tables_said = f"{plural(len(made.tables), 'table')} for people, {cells},"
    with show_status(f"export: writing {tables_said} to {out} ...", is_terminal()):
        made.save(out, format, force=force, for_programs=for_programs)
    inferred = sum(one.inferred for one in made.tables)
    beside = "sheets About and Dictionary" if format == "xlsx" else "index.csv, dictionary.csv and privacy.txt"
    typer.echo(f"{tables_said} with {beside} written to {out}")
    if inferred:
        join = "joins" if inferred == 1 else "join"
        typer.echo(f"{inferred} of them {join} attributes that no clique joins: the model's inference, and marked so")
    for text in made.statement[1:]:
        typer.echo(f"\n{text}")


def _remarks(release: "Release") -> list[str]:
    """What whoever gets the tables must be told, since the release does not travel with them."""
    remarks = []
    if not release.signed:
        remarks.append("NOT SIGNED: anyone could have made or changed the release")
    if release.promise is None:
        remarks.append("no promise is made: the tables were noised elsewhere")
    elif release.promise.neighbours == "paper":
        remarks.append(PAPER_NOTE)
    if release.structure.interactions:
        remarks.append(
            "an interaction is the number of records with an even number of second labels less those with an odd number"
        )
    if any(part.excluded is not None for part in release.parts):
        remarks.append("the cell under not_counted holds noise alone: nothing was counted there")
    return remarks


def _json(value: Any) -> str:
    """For people and programs, in the way in which structures are written."""
    return json.dumps(value, ensure_ascii=False)


def _texts(release: "Release") -> list[Any]:
    """The names and labels in the tables."""
    used = dict.fromkeys(name for part in release.parts for name in part.cliques[0])
    return [text for name in used for text in (name, *release.domain.labels(name))]


def _labels(release: "Release", part: "Table", cell: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(release.domain.labels(name)[i] for name, i in zip(part.cliques[0], cell, strict=True))


def _interactions(release: "Release", parts: "list[Table]") -> dict[str, list[Any]]:
    """One row an interaction; each of its attributes has two labels, in the order of the dictionary."""
    return {
        "attributes": [_json(part.cliques[0]) for part in parts],
        "noisy_value": [release.interactions[part.cliques[0]] for part in parts],
        "scale": [part.noise.scale for part in parts],
        "std": [part.noise.std for part in parts],
    }


def _columns(release: "Release", part: "Table") -> dict[str, list[Any]]:
    """The labels of each cell, its noisy count and, where a cell was left out, whether it is that one."""
    clique = part.cliques[0]
    labels = list(zip(*product(*(release.domain.labels(name) for name in clique)), strict=True))
    columns: dict[str, list[Any]] = {name: list(values) for name, values in zip(clique, labels, strict=True)}
    columns[free_name("noisy_count", clique)] = release.tables[clique].ravel().tolist()
    if part.excluded is not None:
        left_out = np.zeros(part.values.shape, dtype=bool)
        left_out[part.excluded] = True
        columns[free_name("not_counted", clique)] = left_out.ravel().tolist()
    return columns
