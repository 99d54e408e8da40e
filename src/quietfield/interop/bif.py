"""BIF, the text format of Bayesian networks: from text to tables of conditional probabilities, and back.

    network NAME { property ... ; }
    variable NAME { type discrete [ 2 ] { LABEL, LABEL }; }
    probability ( NAME | PARENT, PARENT ) { (LABEL, LABEL) 0.3, 0.7;  default 0.5, 0.5; }
    probability ( NAME ) { table 0.2, 0.8; }

Names and labels are bare words or stand in quotes; commas and bars are room between words, as in the format's own
grammar; ``//`` and ``/* */`` are comments. A ``table`` lists the values of the last parent first, the network's
variable last.
"""

import re
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod

import numpy as np

from quietfield.domain import MOST_AXES, Clique, Domain
from quietfield.errors import Error, FileError
from quietfield.files import MOST_VALUES
from quietfield.text import join_names, plural

#: The most numbers of all tables together: one ``default`` may stand for any number of them.
MOST_NUMBERS = 2**22
#: How far published probabilities may be from a sum of 1; they are scaled to it.
ROUNDING = 0.01
#: A network: per variable its labels, and its table with axes (variable, parents).
Families = list[tuple[Clique, np.ndarray]]

_WORD = r'(?:[^\s{}()\[\],;|"/]|/(?![/*]))+'
_BARE = re.compile(_WORD)
_TOKEN = re.compile(
    rf'(?P<room>[\s,|]+|//[^\n]*|/\*.*?\*/)|(?P<mark>[{{}}()\[\];])|"(?P<quoted>[^"]*)"|(?P<word>{_WORD})', re.DOTALL
)


def parse_bif(text: str, where: str) -> tuple[dict[str, list[str]], Families]:
    """The labels and the tables of a network; an error names the line."""
    return _Parser(text, where).parse()


def format_bif(domain: Domain, families: Iterable[tuple[Clique, np.ndarray]]) -> str:
    """A network as text; tables have axes (variable, parents)."""
    lines = ["network unknown {", "}"]
    for name in domain:
        labels = ", ".join(map(_quote, domain.labels(name)))
        lines += [f"variable {_quote(name)} {{", f"  type discrete [ {domain.size(name)} ] {{ {labels} }};", "}"]
    for (name, *parents), table in families:
        bar = f" | {', '.join(map(_quote, parents))}" if parents else ""
        lines.append(f"probability ( {_quote(name)}{bar} ) {{")
        rows = np.moveaxis(table, 0, -1).reshape(-1, domain.size(name)).tolist()
        labels_of = [[_quote(label) for label in domain.labels(parent)] for parent in parents]
        for given, row in zip(product(*labels_of), rows, strict=True):
            where = f"({', '.join(given)})" if parents else "table"
            lines.append(f"  {where} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _quote(name: object) -> str:
    text = str(name)
    if '"' in text:
        raise Error(f"{text!r} holds a quote, for which BIF has no form; rename it.")
    return text if _BARE.fullmatch(text) else f'"{text}"'


#: A token: a mark such as "{" and no word, or no mark and a word. Words in quotes may look like marks.
_Token = tuple[str, str]
_END = ("end of the file", "")


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.at = 0  # where the token that was read last begins
        self.tokens = self._scan()
        self.labels: dict[str, list[str]] = {}
        self.codes: dict[str, dict[str, int]] = {}
        self.families: dict[str, tuple[Clique, np.ndarray]] = {}
        self.values = self.numbers = 0

    def parse(self) -> tuple[dict[str, list[str]], Families]:
        while (token := self._next()) != _END:
            match token:
                case ("", "network"):
                    self._read_words("{", MOST_AXES)
                    for token in self._statements():
                        self._skip_property(token)
                case ("", "variable"):
                    self._read_variable()
                case ("", "probability"):
                    self._read_probability()
                case _:
                    raise self._error(f"expected network, variable or probability, not {_show(token)}")
        if not self.labels:
            raise FileError(f"{self.where} is not a network in BIF: it declares no variable.")
        absent = [name for name in self.labels if name not in self.families]
        if absent:
            raise FileError(f"{self.where} has no probabilities of {join_names(absent)}; every variable needs some.")
        try:
            TopologicalSorter({name: clique[1:] for name, (clique, _) in self.families.items()}).prepare()
        except CycleError as error:
            circle = join_names(error.args[1][1:])
            raise FileError(f"{self.where}: {circle} depend on each other in a circle; a network has none.") from None
        return self.labels, [self.families[name] for name in self.labels]

    def _read_variable(self) -> None:
        name = self._read_word()
        if name in self.labels:
            raise self._error(f"the variable {name[:40]!r} is declared twice")
        self._expect("{")
        labels: list[str] = []
        for token in self._statements():
            if token != ("", "type"):
                self._skip_property(token)
                continue
            if (kind := self._read_word()) != "discrete":
                raise self._error(f"{name[:40]!r} is of type {kind[:40]!r}; only discrete variables are read")
            self._expect("[")
            size = self._read_word()
            self._expect("]")
            self._expect("{")
            labels = self._read_words("}", MOST_VALUES - self.values)
            self.values += len(labels)
            if size != str(len(labels)):
                raise self._error(f"{name[:40]!r} should have {size[:40]!r} values and lists {len(labels)}")
            self._expect(";")
        codes = {label: code for code, label in enumerate(labels)}
        if not labels or len(codes) < len(labels):
            raise self._error(f"{name[:40]!r} has no values, or one twice; list each once after 'type discrete'")
        self.labels[name], self.codes[name] = labels, codes

    def _read_probability(self) -> None:
        self._expect("(")
        clique = tuple(self._read_words(")", MOST_AXES))
        unknown = [name for name in clique if name not in self.labels]
        if not clique or unknown or len(set(clique)) < len(clique):
            why = f"{unknown[0][:40]!r} is not declared before" if unknown else "name a variable, and each parent once"
            raise self._error(f"these are probabilities of no family of variables: {why}")
        name, *parents = clique
        if name in self.families:
            raise self._error(f"the probabilities of {name[:40]!r} are there twice")
        size, shape = len(self.labels[name]), [len(self.labels[parent]) for parent in parents]
        self.numbers += size * prod(shape)
        if self.numbers > MOST_NUMBERS:
            raise self._error(
                f"up to the table of {name[:40]!r} there are {self.numbers:,} cells, more than the {MOST_NUMBERS:,} "
                "that all tables of a network may have"
            )
        self._expect("{")
        table: np.ndarray | None = None
        default: list[float] | None = None
        rows: dict[tuple[int, ...], list[float]] = {}
        for token in self._statements():
            match token:
                case ("", "table") if table is None:
                    listed = np.array(self._read_numbers(size * prod(shape))).reshape(size, *shape)
                    table = np.moveaxis(listed, 0, -1)
                    self._check_sums(table)
                case ("", "default") if default is None:
                    default = self._read_numbers(size)
                    self._check_sums(np.array(default))
                case ("(", _):
                    codes = self._read_codes(parents)
                    if codes in rows:
                        raise self._error("these values of the parents are there twice")
                    rows[codes] = self._read_numbers(size)
                    self._check_sums(np.array(rows[codes]))
                case _:
                    self._skip_property(token)
        if table is None:
            table = self._fill(clique, rows, default, shape)
        elif rows or default:
            raise self._error(f"the probabilities of {name[:40]!r} are given as a table and by rows; keep one")
        self.families[name] = clique, np.moveaxis(table / table.sum(-1, keepdims=True), -1, 0)

    def _fill(
        self, clique: Clique, rows: dict[tuple[int, ...], list[float]], default: list[float] | None, shape: list[int]
    ) -> np.ndarray:
        if default is None and len(rows) < prod(shape):
            missing = next(codes for codes in product(*map(range, shape)) if codes not in rows)
            labels = [self.labels[parent][code] for parent, code in zip(clique[1:], missing, strict=True)]
            raise self._error(
                f"{clique[0][:40]!r} has {len(rows):,} of {plural(prod(shape), 'row')}, and none for "
                f"({join_names(labels)}); give all, or a default"
            )
        table = np.empty((*shape, len(self.labels[clique[0]])))
        if default is not None:
            table[...] = default
        for codes, row in rows.items():
            table[codes] = row
        return table

    def _read_codes(self, parents: list[str]) -> tuple[int, ...]:
        labels = self._read_words(")", MOST_AXES)
        if len(labels) != len(parents):
            raise self._error(f"a row names a value of each parent, {len(parents)} in all, not {len(labels)}")
        for label, parent in zip(labels, parents, strict=True):
            if label not in self.codes[parent]:
                expected = join_names(self.labels[parent])
                raise self._error(f"{label[:40]!r} is no value of {parent[:40]!r}; expected one of {expected}")
        return tuple(self.codes[parent][label] for label, parent in zip(labels, parents, strict=True))

    def _read_numbers(self, expected: int) -> list[float]:
        found: list[float] = []
        for word in self._read_words(";", expected):
            try:
                found.append(float(word))
            except ValueError:
                raise self._error(f"{word[:40]!r} is no number") from None
        if len(found) != expected:
            raise self._error(f"expected {plural(expected, 'number')}, not {len(found)}")
        return found

    def _check_sums(self, table: np.ndarray) -> None:
        sums = table.sum(-1)
        if not ((table >= 0).all() and (np.abs(sums - 1) <= ROUNDING).all()):
            raise self._error("probabilities are not negative and add up to 1 for any values of the parents")

    def _read_words(self, end: str, most: int) -> list[str]:
        """The words up to a mark."""
        words: list[str] = []
        while (token := self._next()) != (end, ""):
            words.append(self._word(token))
            if len(words) > most:
                raise self._error(f"expected {end!r} after {plural(most, 'word')} at most")
        return words

    def _read_word(self) -> str:
        return self._word(self._next())

    def _word(self, token: _Token) -> str:
        if token[0]:
            raise self._error(f"expected a word, not {_show(token)}")
        return token[1]

    def _statements(self) -> Iterator[_Token]:
        """The first token of each statement of a block."""
        while (token := self._next()) != ("}", ""):
            yield token

    def _skip_property(self, token: _Token) -> None:
        if token != ("", "property"):
            raise self._error(f"{_show(token)} is out of place here")
        while (token := self._next()) != (";", ""):
            if token == _END:
                raise self._error("expected ';' after a property")

    def _expect(self, mark: str) -> None:
        if (token := self._next()) != (mark, ""):
            raise self._error(f"expected {mark!r}, not {_show(token)}")

    def _next(self) -> _Token:
        return next(self.tokens)

    def _scan(self) -> Iterator[_Token]:
        end = 0
        while end < len(self.text):
            self.at = end
            found = _TOKEN.match(self.text, end)
            if found is None:
                raise self._error("a quote or comment does not end")
            end = found.end()
            match found.lastgroup:
                case "mark":
                    yield found["mark"], ""
                case "quoted" | "word" as kind:
                    yield "", found[kind]
        self.at = end
        while True:
            yield _END

    def _error(self, what: str) -> FileError:
        line = self.text.count("\n", 0, self.at) + 1
        return FileError(f"{self.where}, line {line:,}: {what}.")


def _show(token: _Token) -> str:
    mark, word = token
    return mark if token == _END else repr(mark or word[:40])
