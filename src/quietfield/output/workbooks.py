"""Workbooks that Excel, LibreOffice and Numbers open, written with XlsxWriter.

Texts are written as texts, never as formulas, whatever they begin with, and stay texts if they are edited. Equal
content gives equal bytes.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from quietfield.errors import Error
from quietfield.models.spreadsheets import has_formulas

#: What Excel can hold in one sheet.
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS = 1_048_576, 16_384, 32_767


@dataclass(frozen=True)
class Sheet:
    """One sheet: its name (at most 31 letters), names of columns (bold, always in view) or none, and rows of cells."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    widths: tuple[int, ...] = ()


def workbook(sheets: Sequence[Sheet]) -> bytes:
    """The bytes of an .xlsx file.

    >>> workbook([Sheet("Ages", ("age", "share"), [("18-40", 0.25)])])[:2]
    b'PK'
    """
    import xlsxwriter

    if not sheets:
        raise Error("a workbook needs at least one sheet.")
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        book.set_properties({"created": datetime(1980, 1, 1)})
        # A text that could be a formula stays a text also if somebody edits it, as after an apostrophe.
        styles = {
            (bold, quoted): book.add_format({"bold": bold, "quote_prefix": quoted})
            for bold in (False, True)
            for quoted in (False, True)
        }
        for sheet in sheets:
            head = [sheet.columns] if sheet.columns else []
            rows = [*head, *sheet.rows]
            if len(rows) > MOST_ROWS or max(map(len, rows), default=0) > MOST_COLUMNS:
                raise Error(f"the sheet {sheet.name!r} is larger than Excel allows; write CSV or Parquet instead.")
            page = book.add_worksheet(sheet.name)
            for column, width in enumerate(sheet.widths):
                page.set_column(column, column, width)
            if head:
                page.freeze_panes(1, 0)
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    _write_cell(page, i, j, value, styles[bool(head) and i == 0, has_formulas([value])])
    return buffer.getvalue()


def _write_cell(page: Any, row: int, column: int, value: Any, style: Any) -> None:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return
    if isinstance(value, bool):
        page.write_boolean(row, column, value, style)
    elif isinstance(value, int | float):
        page.write_number(row, column, value, style)
    else:
        page.write_string(row, column, str(value)[:MOST_LETTERS], style)
