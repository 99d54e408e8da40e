"""From what a report says to HTML: the templates, and the few filters that they use."""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from quietfield.drawing.columns import format_level, truncate
from quietfield.text import plural, printable

FOLDER = Path(__file__).parent
MOST_LETTERS = 48


def render(template: str, content: Any) -> str:
    """A page from its template."""
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("style.css", "find.js"))
    # A page with the script allows this one alone, by its digest: no name or label can bring another.
    digest = "sha256-" + b64encode(sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template(template)
        .render(page=content, style=Markup(style), script=Markup(script), script_digest=Markup(digest))
    )  # ours, from beside this file


def mark_up_name(text: object, most: int = MOST_LETTERS) -> Markup:
    """A name or label as HTML: escaped, and isolated so that its direction does not disturb the line.

    One that is very long is cut, with the whole of it as a tooltip. Nothing is cut where ``most`` is 0.
    """
    whole = printable(text) or "(empty)"
    short = truncate(whole, most) if most else whole
    if short == whole:
        return Markup("<bdi>{}</bdi>").format(whole)
    return Markup('<bdi title="{}">{}</bdi>').format(whole, short)


def format_percent(share: float) -> str:
    """A share as a percentage, to a tenth.

    >>> format_percent(0.1234), format_percent(0.0002)
    ('12.3%', '<0.1%')
    """
    return "<0.1%" if 0 < share < 0.0005 else f"{max(share, 0.0):.1%}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        name=mark_up_name, shown=printable, percent=format_percent, many=plural, confidence=format_level
    )
    return found
