"""The analyst's pages: the folder, a release and what it promises, a model and what it says."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from quietfield.curator.ledger import Ledger
from quietfield.drawing.distributions import heat_svg
from quietfield.errors import Error, FileError, Incomplete
from quietfield.files import archive_kind
from quietfield.learning.observation import estimate_records, warn_of_noise
from quietfield.models.verification import verify
from quietfield.output.records import card_file
from quietfield.output.report.associations import name_strength
from quietfield.releases.release import Release
from quietfield.studio import explorer
from quietfield.studio.drafts import RECORDS, Draft
from quietfield.studio.jobs import STATE, command_text

if TYPE_CHECKING:
    from quietfield.studio.server import Handler, Studio

#: How the names of databases that are files end, and how their addresses begin.
DATABASES = {".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
#: The most files of one kind that a page lists.
MOST_FILES = 200


def list_files(*endings: str) -> list[str]:
    """Files of the folder and of the folders in it, by how their names end; what is hidden is left out."""
    found = (path for pattern in ("*", "*/*") for path in Path().glob(pattern) if path.name.endswith(endings))
    return sorted(str(p) for p in found if p.is_file() and p.parts[0] != STATE)[:MOST_FILES]


def list_ledgers() -> list[str]:
    """The files of the folder that are ledgers."""
    return [path for path in list_files(".db") if _is_ledger(path)]


def _is_ledger(path: str) -> bool:
    try:
        Ledger(path)
    except FileError:  # another database: the list leaves it out
        return False
    return True


def home(studio: "Studio", asked: dict[str, Any]) -> str:
    drafts: list[tuple[str, str]] = []
    for name in Draft.names():
        try:
            drafts.append((name, Draft.load(name).state(studio.jobs)))
        except Error as error:
            drafts.append((name, str(error)))
    return studio.render(
        "home.html", folder=Path.cwd().name, drafts=drafts, data=_data(), releases=list_files(".qfr"),
        models=list_files(".qfm"), ledgers=list_ledgers(), running=studio.jobs.running(),
    )  # fmt: skip


def _data() -> list[str]:
    """What may hold records: files, those of a folder together, and databases. Drafts' own files are not among them."""
    drafts = set(Draft.names())
    files = [Path(path) for path in list_files(*RECORDS) if Path(path).parts[0] not in drafts]
    many = Counter((path.parent, path.suffix) for path in files if path.parent != Path())
    found = {str(path.with_name(f"*{path.suffix}") if many[path.parent, path.suffix] > 1 else path) for path in files}
    tables = list_files(*DATABASES) if find_spec("ibis") else []
    return sorted(found) + [f"{DATABASES[Path(path).suffix]}://{path}" for path in tables]


def ledger(studio: "Studio", asked: dict[str, Any]) -> str:
    book = Ledger(str(asked.get("path", "")))
    return studio.render("ledger_page.html", ledger=book, command=command_text(["ledger", "show", str(book.path)]))


def release(studio: "Studio", asked: dict[str, Any]) -> str:
    """A release: what it promises, who signed it, and what can be made of it."""
    path, trust = str(asked.get("path", "")), str(asked.get("trust", ""))
    found = Release.load(path, [trust] if trust else None, complete=False)
    lines = verify(found, trust=[trust] if trust else None, complete=False)
    waits = ""
    try:
        found.check_complete(path)
    except Incomplete as waiting:
        waits = str(waiting)
    counted, doubts = count_in_words(found)
    model, report, records = _made_of(path)
    jobs = {target: studio.jobs.find(target) for target in (model, report, records)}
    if jobs[model].state == "done":
        explorer.load_model(model)  # so that its errors are worked out when it is explored
    return studio.render(
        "release.html", path=path, trust=trust, keys=list_files(".pub.pem"), promise=lines[0], findings=lines[1:],
        release=found, waits=waits, model=model, report=report, records=records, card=str(card_file(records)),
        verified=command_text(["verify", path, *_trusted(trust)]),
        jobs=jobs, counted=counted, doubts=doubts,
    )  # fmt: skip


def count_in_words(found: Release) -> tuple[str, str]:
    """About how many records a release counts, and what speaks against it: both from its noisy numbers alone."""
    try:
        return f"{max(1, round(estimate_records(found).value)):,}", warn_of_noise(found)
    except Error as error:  # the noise is larger than the data
        return "", str(error)


def make(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """Start a command that makes something of a release: a model, a report or synthetic records."""
    path, what, trust = (str(asked.get(name, "")) for name in ("path", "what", "trust"))
    if archive_kind(path) != "release":
        raise FileError(f"{path} is not a release; open one from the first page.")
    model, report, records = _made_of(path)
    if what == "model":
        studio.jobs.start(model, ["fit", path, "--out", model, *_trusted(trust)])
    elif what == "report":
        studio.jobs.start(report, ["report", path, "--model", model, "--out", report])
    elif what == "records":
        rows = str(asked.get("rows", ""))
        if not rows.isdecimal() or not 1 <= int(rows) <= 10_000_000:
            raise Error(f"the number of records is a whole number from 1 to 10,000,000, not {rows[:40]!r}.")
        # Others may be wanted than those that are there: they are nobody's, and are drawn anew.
        if studio.jobs.find(records).state != "running":
            for old in (Path(records), card_file(records)):
                old.unlink(missing_ok=True)
        studio.jobs.start(records, ["sample", model, "--release", path, "--rows", rows, "--out", records])
    else:
        raise Error("a model, a report or records can be made of a release.")
    return {"reload": True}


def _trusted(trust: str) -> list[str]:
    return ["--trust", trust] if trust else []


def _made_of(path: str) -> tuple[str, str, str]:
    """The files that are made of a release: beside it, and called after it."""
    stem = str(Path(path).with_suffix(""))
    return f"{stem}.qfm", f"{stem}-report.html", f"{stem}-records.csv"


def explore(studio: "Studio", asked: dict[str, Any]) -> str:
    """What a model says of one attribute or two, in one group or in two."""
    loaded = explorer.load_model(str(asked.get("model", "")))
    domain = loaded.model.domain
    question = explorer.Question.read(str(asked["model"]), domain, asked)
    answers = explorer.answer(loaded, question, explorer.PATIENCE)
    everybody = studio.texts["explore"]["everybody"]
    return studio.render(
        "explore.html", question=question, answers=answers, asked=asked, domain=domain,
        rows=explorer.rows(question, answers)[: explorer.MOST_CELLS], cells=answers[0].shares.size,
        pictures=[Markup(svg) for svg in explorer.pictures(question, answers, everybody)],  # ours: names are escaped
        levels=explorer.LEVELS, waits=answers[0].low is None and not answers[0].why,
        marks=explorer.MARKS,
    )  # fmt: skip


def table(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """The answer as a file."""
    loaded = explorer.load_model(str(asked.get("model", "")))
    question = explorer.Question.read(str(asked["model"]), loaded.model.domain, asked)
    name = "-".join(question.shown) + ".csv"
    return {"save": name, "text": explorer.table_csv(question, explorer.answer(loaded, question)), "kind": "text/csv"}


def associations(studio: "Studio", asked: dict[str, Any]) -> str:
    """How strongly each pair of attributes hangs together, and which pairs were counted together."""
    path = str(asked.get("model", ""))
    loaded = explorer.load_model(path)
    found, why = explorer.associations(loaded, explorer.PATIENCE)
    names = list(loaded.model.domain)
    cells = np.full((len(names), len(names)), np.nan)
    inferred = np.zeros(cells.shape, dtype=bool)
    for one in found:
        i, j = names.index(one.a), names.index(one.b)
        cells[i, j] = cells[j, i] = one.strength
        inferred[i, j] = inferred[j, i] = not one.counted
    notes = [studio.texts["associations"]["dotted"]] if inferred.any() else []
    picture = heat_svg(
        names, names, cells.tolist(), studio.texts["associations"]["title"], False, notes, inferred.tolist()
    )
    return studio.render(
        "associations.html", model=path, pairs=found[: explorer.MOST_CELLS], picture=Markup(picture), why=why,
        waits=why == explorer.WAITS, word=name_strength, level=explorer.STRENGTH_LEVEL, marks=explorer.MARKS,
    )  # fmt: skip


def associations_table(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """The associations as a file."""
    found, _ = explorer.associations(explorer.load_model(str(asked.get("model", ""))))
    return {"save": "associations.csv", "text": explorer.associations_csv(found), "kind": "text/csv"}


PAGES: "dict[str, Handler]" = {
    "home": home, "release": release, "explore": explore, "associations": associations, "ledger": ledger,
}  # fmt: skip
ACTIONS: "dict[str, Handler]" = {"make": make, "table": table, "associations": associations_table}
