"""Workbooks that Excel, LibreOffice and Numbers open (Office Open XML), written with the standard library alone.

Texts are written as texts, never as formulas, whatever they begin with, and stay texts if they are edited. Equal
content gives equal bytes.
"""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from quietfield.errors import Error
from quietfield.text import has_formulas

#: What Excel can hold in one sheet.
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS = 1_048_576, 16_384, 32_767
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_HEADER = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


@dataclass(frozen=True)
class Sheet:
    """One sheet: its name, the names of its columns (bold, always in view) or none, and rows of texts and numbers."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    widths: tuple[int, ...] = ()


def workbook(sheets: Sequence[Sheet]) -> bytes:
    """The bytes of an .xlsx file.

    >>> workbook([Sheet("Ages", ("age", "share"), [("18-40", 0.25)])])[:2]
    b'PK'
    """
    if not sheets:
        raise Error("a workbook needs at least one sheet.")
    titles = sheet_names([sheet.name for sheet in sheets])
    numbers = range(1, len(sheets) + 1)
    listed = "".join(
        f'<sheet name={quoteattr(_clean(title))} sheetId="{i}" r:id="rId{i}"/>'
        for i, title in zip(numbers, titles, strict=True)
    )
    links = "".join(
        f'<Relationship Id="rId{i}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in numbers
    )
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}.worksheet+xml"/>' for i in numbers
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{kind}.styles+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}'
        f'<Relationship Id="rId{len(sheets) + 1}" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><fonts count="2"><font><sz val="11"/><name val="Calibri"/>'
        '</font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="2"><fill><patternFill '
        'patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1">'
        "<border><left/><right/><top/><bottom/><diagonal/></border></borders>"
        '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
        f'<cellXfs count="4">{"".join(_style(bold, quoted) for quoted in (0, 1) for bold in (0, 1))}</cellXfs>'
        '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>',
    }
    for i, sheet in zip(numbers, sheets, strict=True):
        members[f"xl/worksheets/sheet{i}.xml"] = _sheet(sheet)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, (_HEADER + text).encode(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def sheet_names(wanted: Sequence[str]) -> list[str]:
    """Names that Excel accepts: at most 31 letters, none of []:*?/\\, no quote at an end, no two alike.

    >>> sheet_names(["a/b", "A:B", "History", ""])
    ['a b', 'A B 2', 'History 2', 'Sheet']
    """
    taken, found = {"history"}, []  # a name that Excel keeps for itself
    for name in wanted:
        plain = " ".join(_clean("".join(" " if c in "[]:*?/\\" else c for c in name)).split()).strip("'")
        number, title = 1, plain[:31] or "Sheet"
        while title.lower() in taken:
            number += 1
            end = f" {number}"
            title = (plain or "Sheet")[: 31 - len(end)] + end
        taken.add(title.lower())
        found.append(title)
    return found


def _sheet(sheet: Sheet) -> str:
    head = [sheet.columns] if sheet.columns else []
    widest = max((len(row) for row in [*head, *sheet.rows]), default=0)
    if len(sheet.rows) + len(head) > MOST_ROWS or widest > MOST_COLUMNS:
        raise Error(f"the sheet {sheet.name!r} is larger than Excel allows; write CSV or Parquet instead.")
    lines = []
    for i, row in enumerate([*head, *sheet.rows], 1):
        bold = i == 1 and bool(head)
        lines.append(f'<row r="{i}">{"".join(_cell(i, j, value, bold) for j, value in enumerate(row))}</row>')
    frozen = '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>' if head else ""
    widths = "".join(
        f'<col min="{i}" max="{i}" width="{width}" customWidth="1"/>' for i, width in enumerate(sheet.widths, 1)
    )
    columns = f"<cols>{widths}</cols>" if widths else ""
    return (
        f'<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0">{frozen}</sheetView></sheetViews>'
        f"{columns}<sheetData>{''.join(lines)}</sheetData></worksheet>"
    )


def _cell(row: int, column: int, value: Any, bold: bool) -> str:
    place, number = f"{_letters(column)}{row}", 2 * has_formulas([value]) + bold
    style = f' s="{number}"' if number else ""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}"{style} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"{style}><v>{value!r}</v></c>'
    text = escape(_clean(str(value))[:MOST_LETTERS])
    return f'<c r="{place}"{style} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


def _style(bold: int, quoted: int) -> str:
    """The style of a cell. One that is ``quoted`` stays a text also if somebody edits it, as after an apostrophe."""
    font, prefix = ' applyFont="1"' if bold else "", ' quotePrefix="1"' if quoted else ""
    return f'<xf numFmtId="0" fontId="{bold}" fillId="0" borderId="0" xfId="0"{font}{prefix}/>'


def _letters(column: int) -> str:
    found = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        found = chr(65 + rest) + found
    return found


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(c if c in "\t\n\r" or 0x20 <= ord(c) <= 0xD7FF or 0xE000 <= ord(c) <= 0xFFFD or ord(c) > 0xFFFF
                   else "\ufffd" for c in text)  # fmt: skip
