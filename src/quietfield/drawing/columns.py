"""Text in columns of a terminal: how wide it is, shortened or padded to a width, and labels that stand in a row."""

from collections.abc import Callable, Iterable


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


def format_shares(shares: Iterable[float], places: int | None = None) -> list[str]:
    """Shares as percentages of one form, with as many places as the smallest takes, up to four.

    Args:
        shares: Numbers from 0 to 1.
        places: How many places; None has it follow from the shares.

    Returns:
        The texts. What is not 0 is never written as 0.

    >>> format_shares([0.25, 0.75]), format_shares([0.25, 0.00034]), format_shares([0.25, 1e-9, 0])
    (['25.0%', '75.0%'], ['25.00%', '0.03%'], ['25.0000%', '<0.0001%', '0.0000%'])
    """
    listed = [float(share) for share in shares]
    if places is None:
        smallest = min((share for share in listed if share > 0), default=1.0)
        places = next((n for n in range(1, 4) if 100 * smallest >= 10.0**-n), 4)
    least = 10.0**-places
    return [f"<{least:.{places}f}%" if 0 < 100 * s < least else f"{s:.{places}%}" for s in listed]


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
