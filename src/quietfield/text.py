"""Text for people: numbers with nouns, names as they may be shown, and what a notebook shows of an object."""

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from html import escape

# Characters that could reorder or hide what stands beside them. Joiners stay: Persian and emoji need them.
REORDERING = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0xFEFF)}
REORDERING |= {chr(c) for c in (0x200B, *range(0x2060, 0x2065))}  # no room at all, between letters that need none


def printable(text: object) -> str:
    """A name or label as text that can be shown: control characters become escapes.

    >>> printable("a\\nb")
    'a\\\\nb'
    """
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or c in REORDERING else c
        for c in str(text)
    )


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
