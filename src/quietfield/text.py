"""Text for people: numbers with nouns, names and labels as they may be shown, their width, and spreadsheets."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from html import escape
from typing import Any

# Characters that could reorder or hide what stands beside them. Joiners stay: Persian and emoji need them.
REORDERING = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0xFEFF)}
REORDERING |= {chr(c) for c in (0x200B, *range(0x2060, 0x2065))}  # no room at all, between letters that need none

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


def printable(text: object) -> str:
    """A name or label as text that can be shown: control characters become escapes.

    >>> printable("a\\nb")
    'a\\\\nb'
    """
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or c in REORDERING else c
        for c in str(text)
    )


def quote_label(label: object) -> str:
    """A label that stands among others: in quotes where it holds what separates them, or could be overlooked.

    >>> ", ".join(map(quote_label, ["18-40", "no, never", 3, ""]))
    '18-40, "no, never", 3, ""'
    """
    text = str(label)
    if text and text == text.strip() and not any(c in text for c in ',="'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def format_level(level: float) -> str:
    """A level of confidence as a percentage, with as many digits as it takes: no one is 100% sure.

    >>> format_level(0.9), format_level(0.996), format_level(0.9999999)
    ('90%', '99.6%', '99.99999%')
    """
    texts = (f"{100 * level:.{digits}g}" for digits in range(6, 18))
    return next(text for text in texts if float(text) < 100 or level >= 1) + "%"


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes: East Asian letters and emoji take two, marks none.

    >>> text_width("age"), text_width("年齢"), text_width("e\\u0301")
    (3, 4, 1)
    """
    from wcwidth import width

    return width(text)


def truncate(text: str, most: float, measure: Callable[[str], float] = text_width) -> str:
    """Shorten a text to a number of columns (or of whatever ``measure`` measures), with an ellipsis at its end.

    Marks stay with their letters.

    >>> truncate("attributes", 6), truncate("年齢層です", 6)
    ('attri…', '年齢…')
    """
    from wcwidth import iter_graphemes

    if measure(text) <= most:
        return text
    kept, room = "", most - measure("…")
    for letter in iter_graphemes(text):
        room -= measure(letter)
        if room < 0:
            break
        kept += letter
    return kept + "…"


def pad_left(text: str, width: int) -> str:
    """A text with spaces before it, so many columns wide."""
    return " " * max(width - text_width(text), 0) + text


# Inline, because a notebook keeps no style sheet; colours that read on light and dark backgrounds alike.
BOX = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45"
CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0;border:0;background:none"


def facts_html(caption: str, facts: Iterable[tuple[str, str]], picture: str = "") -> str:
    """Facts as an HTML table, beside a picture if there is one: what a notebook shows for an object."""
    rows = "".join(
        f"<tr style='background:none'><th scope='row' style='{CELL};font-weight:600'>{escape(printable(name))}</th>"
        f"<td style='{CELL};overflow-wrap:anywhere'><bdi>{escape(printable(text))}</bdi></td></tr>"
        for name, text in facts
    )
    table = (
        f"<table style='border-collapse:collapse;{BOX}'><caption style='text-align:left;font-weight:600;"
        f"padding-bottom:4px;caption-side:top'>{escape(caption)}</caption><tbody>{rows}</tbody></table>"
    )
    if not picture:
        return table
    return f"<div style='display:flex;flex-wrap:wrap;gap:24px;align-items:center'>{picture}{table}</div>"


def table_html(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = (), picture: str = ""
) -> str:
    """Rows under their heads as an HTML table, with notes below and a picture above: what a notebook shows."""
    head = "".join(f"<th scope='col' style='{CELL};font-weight:600'>{escape(printable(text))}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td style={CELL!r}><bdi>{escape(printable(cell))}</bdi></td>' for cell in row)}</tr>"
        for row in rows
    )
    title = f"<caption style='text-align:left;font-weight:600;caption-side:top'>{escape(printable(caption))}</caption>"
    below = "".join(f"<li>{escape(printable(note))}</li>" for note in notes)
    return (
        f"<div style='{BOX}'>{picture}<table style='border-collapse:collapse'>{title if caption else ''}"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{f'<ul>{below}</ul>' if below else ''}</div>"
    )


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name for a column that no attribute has.

    >>> free_name("share", ("age", "share"))
    'share_'
    """
    held = set(taken)
    while name in held:
        name += "_"
    return name


def plural(count: int, one: str, several: str = "") -> str:
    """A number with its noun, for use in messages.

    >>> plural(1, "table"), plural(1200, "table"), plural(0, "person", "people")
    ('1 table', '1,200 tables', '0 people')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def type_name(value: object) -> str:
    """What sort of thing a value is, with its article, for use in messages: never the value itself.

    >>> type_name(3), type_name("x"), type_name(None)
    ('an int', 'a str', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def join_names(items: Iterable[object], most: int = 8) -> str:
    """Public names, quoted and cut to a readable length, for use in messages."""
    listed = items if isinstance(items, Sequence) else list(items)
    more = len(listed) - most
    return ", ".join(map(repr, listed[:most])) + (f", ... ({more} more)" if more > 0 else "")


def suggest_names(text: object, known: Sequence[str]) -> str:
    """Say what may have been meant by a name that is not known, and what there is: the end of a sentence.

    >>> "'smoke' is no name" + suggest_names("smoke", ["Smokes", "age"])
    "'smoke' is no name; did you mean 'Smokes'? Expected one of 'Smokes', 'age'"
    """
    lower = {name.lower(): name for name in reversed(known)}
    close = get_close_matches(str(text).lower(), lower, n=1)
    meant = f"; did you mean {lower[close[0]]!r}? Expected" if close else "; expected"
    return f"{meant} one of {join_names(known)}"
