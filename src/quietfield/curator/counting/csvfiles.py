"""``CsvFile``: which separator and encoding a CSV file has, and its bytes brought into UTF-8 line by line.

What a line means must depend on its own bytes alone (see ``lines.py``), so only encodings without a memory are read: a
line that is not well formed in its encoding becomes a broken line, and nothing else changes. Where each character is
two bytes, a line is a run of such pairs, and ends with the pair of a line feed.
"""

import codecs
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from quietfield.curator.counting.reading import attempt, mask_path
from quietfield.errors import Error, FileError

SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
#: What separates fields in files that are called CSV, and what it is called in messages.
SEPARATORS = {",": "','", ";": "';'", "\t": "'\\t' (a tab)", "|": "'|'"}
#: East Asian encodings in which no character has a line feed among its bytes and none changes how others are read.
MULTIBYTE = {
    "big5", "big5hkscs", "cp932", "cp949", "cp950", "euc_jis_2004", "euc_jisx0213", "euc_jp", "euc_kr", "gb18030",
    "gb2312", "gbk", "johab", "shift_jis", "shift_jis_2004", "shift_jisx0213",
}  # fmt: skip
PAIRS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: Lines that are no records: one that is not of the encoding (a byte that no UTF-8 has), and one that is too long.
FOREIGN, TOO_LONG = b"\xff", b'"'


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, or a pattern of such files, with what its name does not tell.

    ``delimiter`` separates the fields; without it the name decides: a tab for .tsv and .tab, otherwise a comma.
    ``encoding`` is that of the texts: utf-8, utf-16, or one such as latin-1, cp1252 or shift_jis.
    ``one_line_per_record`` is the curator's word that no record has a line break in it, not even inside quotes. Units
    of persons need it: the lines of such a record would be rows of their own, under any id. A release notes it.

    >>> CsvFile("visits.csv", delimiter=";", encoding="latin-1")
    CsvFile(path='visits.csv', delimiter=';', encoding='latin-1', one_line_per_record=False)
    """

    path: str | Path
    delimiter: str | None = None
    encoding: str = "utf-8"
    one_line_per_record: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | Path):
            raise Error(f"a CSV file is given by its path, not by a {type(self.path).__name__}.")
        sign = self.delimiter
        if sign is not None and not (
            isinstance(sign, str) and len(sign) == 1 and sign.isascii() and not sign.isalnum() and sign not in '"\n\r\0'
        ):
            raise Error(f"a delimiter is one sign such as ',', ';', '|' or '\\t' (a tab), not {sign!r}.")
        find_coding(self.encoding)
        if not isinstance(self.one_line_per_record, bool):
            raise Error(f"one_line_per_record is True or False, not {self.one_line_per_record!r}.")

    def separator(self, path: str) -> str:
        """What separates the fields of one of the files.

        Args:
            path: The file.

        Returns:
            One character.
        """
        return self.delimiter or separator_by_name(path) or ","


def separator_by_name(path: str) -> str | None:
    """What separates the fields of a file, by its name, or None if it is no file of lines."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


@dataclass(frozen=True)
class Coding:
    """How bytes become lines of UTF-8: the codec's name, and how its characters are stored.

    ``kind`` is "plain" (UTF-8 itself), "single" (a byte is a character), "several" or "pairs".
    """

    name: str
    kind: str

    def ends(self, data: bytes) -> tuple[int, int]:
        """Where the first line in some bytes ends and where the last one does; 0 where none does."""
        if self.kind != "pairs":
            return data.find(b"\n") + 1, data.rfind(b"\n") + 1
        units = np.frombuffer(data, ">u2" if self.name.endswith("be") else "<u2", len(data) // 2)
        found = np.flatnonzero(units == ord("\n"))
        return (2 * int(found[0]) + 2, 2 * int(found[-1]) + 2) if len(found) else (0, 0)

    def before_return(self, line: bytes) -> tuple[bytes, bool]:
        """What stands before the first carriage return, and whether that one, if there is any, ends the line."""
        size, order = (2, "big" if self.name.endswith("be") else "little") if self.kind == "pairs" else (1, "little")
        sign = [ord(c).to_bytes(size, order) for c in "\r\n"]  # type: ignore[arg-type]  # one of the two
        place = line.find(sign[0])
        while place % size and place > 0:  # not a character, but halves of two
            place = line.find(sign[0], place + 1)
        return (line, True) if place < 0 else (line[:place], line[place + size :] == sign[1])

    def utf8(self, block: bytes, longest: int) -> bytes:
        """Whole lines in UTF-8; broken ones for those that are not well formed, or longer than ``longest`` bytes."""
        if self.kind == "plain":
            return block
        if self.kind == "pairs":
            even = block[: len(block) - len(block) % 2]
            # A surrogate without its other half stays one, which is no UTF-8: that line alone is broken.
            text = even.decode(self.name, "surrogatepass")
            made = text.encode("utf-8", "surrogatepass") + (FOREIGN if len(block) % 2 else b"")
            if len(block) <= longest:
                return made
            raw = [2 * len(line) + 2 * sum(c > "\uffff" for c in line) for line in text.split("\n")]
            return b"\n".join(
                line if size <= longest else TOO_LONG for line, size in zip(made.split(b"\n"), raw, strict=True)
            )
        if self.kind == "single" and len(block) <= longest:
            try:
                return block.decode(self.name).encode()
            except UnicodeDecodeError:
                pass  # then line by line
        return b"\n".join(self._line(line) if len(line) <= longest else TOO_LONG for line in block.split(b"\n"))

    def _line(self, line: bytes) -> bytes:
        try:
            return line.decode(self.name).encode()
        except UnicodeError:
            return FOREIGN


#: Codecs of Python that fail on texts, or warn of them, also when they are told to replace what they cannot read.
NOT_OF_FILES = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")


def encoding_name(encoding: str) -> str:
    """The name by which Python knows an encoding of texts.

    >>> encoding_name("Latin-1")
    'iso8859-1'
    """
    found = attempt(lambda: codecs.lookup(encoding), LookupError, TypeError, ValueError)
    # Some codecs make bytes of bytes (hex), and some are no encodings of files: they fail on texts, or quote them in
    # a warning, so that what is said would depend on a record.
    if found is None or not found._is_text_encoding or found.name in NOT_OF_FILES:
        raise Error(
            f"there is no encoding {encoding!r}; write one such as utf-8, utf-16, latin-1, cp1252 or shift_jis."
        )
    return found.name


def find_coding(encoding: str) -> Coding:
    """The coding of a name; those with a memory, and those that are not like ASCII, are refused.

    >>> find_coding("Latin-1").kind, find_coding("cp1252").kind, find_coding("UTF16").kind
    ('single', 'single', 'pairs')
    """
    name = encoding_name(encoding)
    if name in ("utf-8", "utf-8-sig", "ascii"):
        return Coding("utf-8", "plain")
    if name.startswith("utf-16"):
        return Coding(name, "pairs")
    if name.replace("-", "_") in MULTIBYTE:
        return Coding(name, "several")
    module = attempt(lambda: import_module(f"encodings.{name.replace('-', '_')}"), ImportError)
    if name == "iso8859-1" or (hasattr(module, "decoding_table") and _like_ascii(name)):
        return Coding(name, "single")
    raise Error(
        f"a CSV file in {encoding!r} is not read: what one of its lines means may depend on others, or it is not like "
        "ASCII; convert it to UTF-8 first (iconv does)."
    )


def with_byte_order(coding: Coding, start: bytes, path: str) -> Coding:
    """The coding of a file from its first two bytes, where they say in which order pairs stand."""
    if coding.name != "utf-16":
        return coding
    if start[:2] not in PAIRS:
        raise FileError(
            f"{mask_path(path)} does not begin with a byte order mark; say which UTF-16 it is: encoding "
            "utf-16-le or utf-16-be."
        )
    return Coding(PAIRS[start[:2]], "pairs")


def encoding_hint(start: bytes) -> str:
    """What to do about a first line that is not UTF-8."""
    if start[:2] in PAIRS or b"\0" in start[:64]:
        return "It looks like UTF-16: read it with CsvFile(path, encoding='utf-16') or --encoding utf-16."
    return (
        "If the file was written on Windows or long ago, name its encoding, such as cp1252 or latin-1: read it with "
        "CsvFile(path, encoding='cp1252') or --encoding cp1252."
    )


def _like_ascii(name: str) -> bool:
    """Whether the bytes of ASCII, and no others, stand for its characters."""
    table = [bytes([byte]).decode(name, "replace") for byte in range(256)]
    return table[:128] == [chr(byte) for byte in range(128)] and all(ord(c) >= 128 for c in table[128:])
