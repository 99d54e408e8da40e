"""``quietfield export``: the tables of a release for other programs."""

import csv
import io
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from quietfield.domain import Clique
    from quietfield.releases import Release

app = typer.Typer()


@app.command(epilog="Example: quietfield export visits.qfr --out tables --format csv")
def export(
    path: Annotated[Path, typer.Argument(help="The release.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the tables; it is made if need be.")],
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
) -> None:
    """Write each table, with its labels, as a CSV or Parquet file, and an index.csv that says which is which."""
    from quietfield.errors import Error, FileError
    from quietfield.files import write_atomically
    from quietfield.releases import Release

    if format not in ("csv", "parquet"):
        raise Error(f"--format is csv or parquet, not {format!r}.")
    release = Release.load(path)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {out}: {error.strerror}; choose another.") from None
    index: list[list[Any]] = [["file", "cliques", "noise", "scale", "std"]]
    for number, part in enumerate(release.parts, 1):
        file = f"table-{number:04d}.{format}"  # numbered: attribute names may hold anything
        columns = _columns(release, part.cliques[0])
        write_atomically(out / file, _csv(columns) if format == "csv" else _parquet(columns))
        noise = part.noise
        index.append([file, " = ".join(repr(c) for c in part.cliques), noise.kind, repr(noise.scale), repr(noise.std)])
    if release.total is not None:
        noise_or_none = release.total_noise
        index.append(["total", repr(release.total), "public" if noise_or_none is None else noise_or_none.kind,
                      "" if noise_or_none is None else repr(noise_or_none.scale),
                      "" if noise_or_none is None else repr(noise_or_none.std)])  # fmt: skip
    write_atomically(out / "index.csv", _rows(index))
    typer.echo(f"{len(release.parts)} tables and index.csv written to {out}")


def _columns(release: "Release", clique: "Clique") -> dict[str, list[Any]]:
    labels = list(zip(*product(*(release.domain.labels(name) for name in clique)), strict=True))
    counts = "noisy_count"
    while counts in clique:
        counts += "_"
    columns: dict[str, list[Any]] = {name: list(values) for name, values in zip(clique, labels, strict=True)}
    return {**columns, counts: release.tables[clique].ravel().tolist()}


def _csv(columns: dict[str, list[Any]]) -> bytes:
    return _rows([list(columns), *zip(*columns.values(), strict=True)])


def _rows(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()
