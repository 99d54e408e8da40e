"""Texts that a spreadsheet could run as formulas: an apostrophe before them takes the harm out."""

import re
from collections.abc import Iterable
from typing import Any

from quietfield.text import REORDERING

#: What begins a formula in a spreadsheet, also in other widths and sizes.
_SIGNS = "=+\\-@＝＋－＠﹦﹢﹣﹫⁼₌⁺₊﬩"
#: What may stand before such a sign without hiding it: room, quotes, and what nobody sees.
_BEFORE = rf"[\s\x00-\x1f\x7f\"'{''.join(sorted(REORDERING))}]*"
_HARMFUL = re.compile(f"[{_SIGNS}\t\r\n\0]")
_FORMULA = re.compile(f"{_BEFORE}[{_SIGNS}]")
_BREAK = re.compile(rf"{_BEFORE}[\t\r\n\0]")
#: Where a program that is told of another separator, or of none of our quotes, may begin a new cell.
_CELLS = re.compile("([,;|\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
APOSTROPHE = (
    "in CSV files an apostrophe stands before what a spreadsheet could run as a formula: a text, or a part of one "
    "after a separator, that begins with an equals, plus, minus or at sign, a tab or a line break; the apostrophe is "
    "no part of the text (--for-programs, in Python for_programs=True, leaves texts as they are)"
)


def defuse_formulas(value: Any) -> Any:
    """Put an apostrophe before whatever a spreadsheet could run as a formula. Numbers, and texts of numbers, stay.

    These are the rules of OWASP (CSV injection) and of its ASVS 5.0 (1.2.10): a text that begins with an equals, plus,
    minus or at sign, in any width, or with a tab, a line break or a null; also behind spaces, quotes and what is not
    seen; and each part of a text that would be a cell of its own if the file were opened with another separator. A part
    that has such an apostrophe already gets another one: no two texts become alike.

    Args:
        value: A cell for people; whatever is no text is returned as it is.

    Returns:
        The text, with apostrophes where they are needed.

    >>> [defuse_formulas(value) for value in ("=1+1", "-5", "-5-10", "'=1", "'tis", -5, "x;=1+1", "＝1")]
    ["'=1+1", '-5', "'-5-10", "''=1", "'tis", -5, "x;'=1+1", "'＝1"]
    """
    if not isinstance(value, str) or not _HARMFUL.search(value):
        return value
    parts = _CELLS.split(value)
    for i in range(0, len(parts), 2):
        formula = _FORMULA.match(parts[i]) and not _NUMBER.fullmatch(parts[i].strip())
        if formula or (i == 0 and _BREAK.match(value)):
            parts[i] = f"'{parts[i]}"
    return "".join(parts)


def has_formulas(texts: Iterable[Any]) -> bool:
    """Whether :func:`defuse_formulas` changes one of these texts; :data:`APOSTROPHE` tells people of it."""
    return any(defuse_formulas(text) != text for text in texts)
