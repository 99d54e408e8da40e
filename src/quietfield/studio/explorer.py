"""The analyst's questions: what a model says of some attributes, in one group or in two, as numbers and a picture."""

import csv
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from quietfield.domain import Domain, Label
from quietfield.drawing.distributions import Distribution, bars_svg, heat_svg, line_svg
from quietfield.errors import Error
from quietfield.models.basis import COUNTED, INFERRED, describe_basis
from quietfield.models.intervals import QUICK_ANSWER, QUICK_MODEL
from quietfield.models.model import Model
from quietfield.models.spreadsheets import defuse_formulas
from quietfield.output.report import limits
from quietfield.output.report.associations import all_strengths, joined_pairs, joint
from quietfield.output.report.contents import error_bars, list_with_intervals
from quietfield.studio.jobs import command_text

PICTURES = ("bars", "line", "heat")
LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")
#: The most cells of an answer that a page shows; a file of the table holds them all.
MOST_CELLS = 2000
#: What an answer rests on, in a word: by whether a published table holds its attributes together.
MARKS = {True: "COUNTED", False: "INFERRED"}
#: The confidence of the error bars of associations, and what stands for them while they are being worked out.
STRENGTH_LEVEL, WAITS = 0.9, "waits"
#: Seconds that an answer waits for the first error bars of a model; it is shown without them meanwhile.
PATIENCE = 0.5


@dataclass(frozen=True)
class Association:
    """How strongly two attributes hang together (Cramér's V), with error bars where there are some."""

    a: str
    b: str
    strength: float
    low: float | None
    high: float | None
    counted: bool

    @property
    def mark(self) -> str:
        """What it rests on, as the page and every file that leaves it say it."""
        return f"{MARKS[self.counted]} ({COUNTED if self.counted else INFERRED})"


class Loaded:
    """A model, and whether its errors are worked out: that takes seconds for some, once, and goes on aside."""

    def __init__(self, model: Model) -> None:
        self.model, self.ready = model, Event()
        Thread(target=self._work_out, daemon=True).start()

    def _work_out(self) -> None:
        try:
            with suppress(Error):  # whoever asks is told
                if self.model.parameters <= QUICK_MODEL:
                    self.model.interval(self.model.domain.attributes[0])
        finally:
            self.ready.set()

    @cached_property
    def pairs(self) -> list[tuple[float, str, str]]:
        """All pairs of attributes, the strongest first, each with its strength before its names."""
        strengths = all_strengths(self.model)
        if strengths is None:
            raise Error("for this model the associations of all pairs take too long; ask for the pairs that you need.")
        names = list(self.model.domain)
        found = [(float(strengths[i, j]), names[i], names[j]) for i, j in combinations(range(len(names)), 2)]
        return sorted(found, key=lambda pair: -pair[0])

    @cached_property
    def bars(self) -> "Future[dict[tuple[str, ...], tuple[float, float]]]":
        """Error bars of the strengths of pairs, worked out aside: of those counted together, and a few more."""
        found: Future[dict[tuple[str, ...], tuple[float, float]]] = Future()

        def work() -> None:
            try:
                counted, many = set(joined_pairs(self.model)), len(self.model.domain) > limits.MANY
                wanted = [(a, b) for _, a, b in self.pairs if not many or (a, b) in counted]
                apart = [pair for pair in wanted if pair not in counted][: limits.MOST_APART]
                joints = {pair: p for pair in (*counted, *apart) if (p := joint(self.model, pair)) is not None}
                asked = list_with_intervals(joints, counted, many)
                found.set_result(error_bars(self.model, STRENGTH_LEVEL, (), asked)[1])
            except BaseException as error:  # noqa: BLE001  # it is raised where the answer is asked for
                found.set_exception(error)

        Thread(target=work, daemon=True).start()
        return found


def load_model(path: str) -> Loaded:
    """A model from its file, kept until the file changes."""
    try:
        seen = Path(path).stat()
    except OSError as error:
        raise Error(f"{path} cannot be read: {error.strerror}; learn the model again.") from None
    return _load(path, seen.st_mtime_ns, seen.st_size, seen.st_ino)


@lru_cache(maxsize=4)
def _load(path: str, *seen: int) -> Loaded:
    return Loaded(Model.load(path))


@dataclass(frozen=True)
class Question:
    """What is asked: one attribute or two, among whom, and how it is to be shown."""

    path: str
    domain: Domain
    shown: tuple[str, ...]
    given: dict[str, Label]
    other: dict[str, Label] | None
    level: str
    picture: str

    @classmethod
    def read(cls, path: str, domain: Domain, asked: Mapping[str, str]) -> "Question":
        """A question from the fields of its form: ``g.ATTRIBUTE`` holds the place of a label, ``h.`` the other group's.

        Args:
            path: The model's file.
            domain: Its domain.
            asked: The fields.

        Returns:
            The question.

        Raises:
            Error: A field names what is not there.
        """
        first = asked.get("a") or domain.attributes[0]
        shown = tuple(dict.fromkeys(name for name in (first, asked.get("b", "")) if name))
        domain.clique(shown)
        given, other = (_filters(domain, shown, asked, sign) for sign in ("g.", "h."))
        level = asked.get("level", "0.9")
        picture = asked.get("picture", "")
        if level not in LEVELS or (picture and picture not in PICTURES):
            raise Error("this question is not one of the form's; begin again with the form.")
        if len(shown) == 1 and picture in ("", "heat"):
            picture = "bars"
        compared = bool(asked.get("compare"))
        if len(shown) == 2:
            picture = "heat"
        return cls(path, domain, shown, given, other if compared else None, level, picture)

    @property
    def groups(self) -> list[dict[str, Label]]:
        """What is known of each group."""
        return [self.given] if self.other is None else [self.given, self.other]

    def python(self) -> str:
        """The lines of Python that give the same answer."""
        asked = [f"{list(self.shown)!r}", f"level={self.level}"]
        lines = ["import quietfield as qf", "", f"model = qf.load({self.path!r})"]
        for given in self.groups:
            known = [asked[0], *([f"given={given!r}"] if given else []), asked[1]]
            lines.append(f"print(model.query({', '.join(known)}))")
        return "\n".join(lines)

    def commands(self) -> list[str]:
        """The commands that give the same answer."""
        found = []
        for given in self.groups:
            known = [word for name, label in given.items() for word in ("--given", f"{name}={label}")]
            found.append(command_text(["query", self.path, *self.shown, *known, "--level", self.level]))
        return found


@dataclass(frozen=True)
class Answer:
    """What the model says of one group: a share for each cell, error bars or why there are none, what it rests on."""

    group: str
    shares: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    why: str
    basis: str

    @property
    def counted(self) -> bool:
        """Whether a published table holds the attributes together; otherwise it is the model's inference."""
        return self.basis == COUNTED

    @property
    def mark(self) -> str:
        """What the answer rests on, as the page and every file that leaves it say it."""
        return f"{MARKS[self.counted]} ({self.basis})"


def answer(loaded: Loaded, question: Question, patience: float | None = None) -> list[Answer]:
    """Answer a question, once for each group; without error bars where they take longer than ``patience`` seconds."""
    bars, level = loaded.ready.wait(patience), float(question.level)
    return [_answer(loaded.model, question.shown, given, level, bars) for given in question.groups]


def _answer(model: Model, shown: tuple[str, ...], given: dict[str, Label], level: float, bars: bool) -> Answer:
    shares = model.conditional(shown, given) if given else model.marginal(shown)
    low = high = None
    why = _why_none(model, model.domain.cells(shown))
    if bars and not why:
        try:
            low, high = model.interval(shown, level, given=given or None)
        except Error as error:
            why = str(error).rstrip(".")
    group = ", ".join(f"{name} = {label}" for name, label in given.items())
    return Answer(group, shares, low, high, why, describe_basis(model, (*shown, *given)))


def _why_none(model: Model, cells: int) -> str:
    """Why an answer of some cells has no error bars; an empty text where it has."""
    if model.uncertainty is None:
        return "this model does not know its errors; models learned by the default method do"
    if model.parameters > QUICK_MODEL or cells > QUICK_ANSWER:
        return "for a model or a table of this size they take long; `quietfield query --error-bars` works them out"
    return ""


def associations(loaded: Loaded, patience: float | None = None) -> tuple[list[Association], str]:
    """How strongly the attributes hang together, the strongest pairs first; and why error bars are missing, if so.

    Args:
        loaded: The model.
        patience: Seconds to wait for error bars; None for as long as it takes.

    Returns:
        The associations and a text: empty where the error bars that there are were given, "waits" where they are being
        worked out, else the reason.

    Raises:
        Error: Not all pairs of this model can be asked for.
    """
    bars: Mapping[tuple[str, ...], tuple[float, float]] = {}
    counted, why = set(joined_pairs(loaded.model)), _why_none(loaded.model, 0)
    if not why:
        try:
            bars = loaded.bars.result(patience)
        except TimeoutError:
            why = WAITS
        except Error as error:
            why = str(error).rstrip(".")
    found = []
    for v, a, b in loaded.pairs:
        low, high = bars.get((a, b), (None, None))
        found.append(Association(a, b, v, low, high, (a, b) in counted))
    return found, why


def associations_csv(found: Sequence[Association]) -> str:
    """Associations as a CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["attribute", "and", "cramers_v", "low", "high", "basis"])
    for one in found:
        cells = (one.a, one.b, one.strength, one.low, one.high, one.mark)
        writer.writerow(["" if cell is None else defuse_formulas(cell) for cell in cells])
    return file.getvalue()


def rows(question: Question, answers: list[Answer]) -> list[list[Any]]:
    """The answer as a table: labels, then share, low and high of each group (None where there are no error bars)."""
    flat = [[a.shares.ravel(), *(None if e is None else e.ravel() for e in (a.low, a.high))] for a in answers]
    cells = product(*(question.domain.labels(name) for name in question.shown))
    return [
        [*cell, *(None if column is None else float(column[i]) for group in flat for column in group)]
        for i, cell in enumerate(cells)
    ]


def table_csv(question: Question, answers: list[Answer]) -> str:
    """The answer as a CSV file, with texts that a spreadsheet would take for formulas made harmless."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    ends = [""] if len(answers) == 1 else [f" ({a.group or 'everybody'})" for a in answers]
    heads = [f"{name}{end}" for end in ends for name in ("probability", "low", "high")]
    heads += [f"basis{end}" for end in ends]
    marks = [a.mark for a in answers]
    writer.writerow(map(defuse_formulas, [*question.shown, *heads]))
    writer.writerows(
        [["" if cell is None else defuse_formulas(cell) for cell in (*row, *marks)] for row in rows(question, answers)]
    )
    return file.getvalue()


def pictures(question: Question, answers: list[Answer], everybody: str) -> list[str]:
    """The answer as SVG: one picture, or a heat map for each group."""
    labels = [question.domain.labels(name) for name in question.shown]
    title = " and ".join(question.shown)
    if len(labels) == 2:
        return [
            heat_svg(labels[0], labels[1], a.shares.tolist(), f"{title}: {a.group or everybody}", notes=[a.mark])
            for a in answers
        ]
    groups = [
        Distribution(
            a.group or everybody, a.shares.tolist(), *(() if e is None else e.tolist() for e in (a.low, a.high))
        )
        for a in answers
    ]
    named = title if len(groups) > 1 or not answers[0].group else f"{title}, where {answers[0].group}"
    notes = [a.mark if len(answers) == 1 else f"{a.group or everybody}: {a.mark}" for a in answers]
    return [(line_svg if question.picture == "line" else bars_svg)(labels[0], groups, named, notes)]


def _filters(domain: Domain, shown: tuple[str, ...], asked: Mapping[str, str], sign: str) -> dict[str, Label]:
    found = {}
    for field, text in asked.items():
        name = field.removeprefix(sign)
        if not field.startswith(sign) or not text or name in shown:
            continue
        labels = domain.labels(name)
        if not text.isdecimal() or int(text) >= len(labels):
            raise Error(f"{name!r} has no value number {text[:20]!r}; choose one of the form's.")
        found[name] = labels[int(text)]
    return found
