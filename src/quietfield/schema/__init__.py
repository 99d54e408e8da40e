"""Schema: how the columns of a source become the attributes of a Domain.

A schema is public and written by a person. Each record is mapped on its own, so nothing about one person moves another.
Values are read in the same way from every source:

* an empty text, a missing field and a NaN are *nulls*, and so is the text ``nan`` where numbers are read; anything
  else that no rule covers is *unknown*;
* text labels match a text exactly as written, a whole number by its digits, a truth value as ``true`` or ``false``, a
  date as ``2024-01-31``;
* integer labels match whole numbers, however they are stored: ``1``, ``1.0``, the texts ``"1"``, ``" 1"``, ``"1.0"``
  (never truth values, which are the texts ``true`` and ``false`` and nothing else);
* cut points take any finite number, and any text that spells one (``"12"``, ``" 1.5e3 "``; not ``"inf"`` or ``"1,5"``)
  below 1e308, with at most 200 digits on each side of its point; with ``decimal=","``, ``"1,5"`` and ``"1.234,5"``,
  with ``thousands=","``, ``"1,234.5"``, with ``before="$"``, ``"-$5"``;
* periods take dates, times and texts such as ``2024-01-31`` or ``2024-01-31 23:59:59``; times are in UTC, and texts
  with an offset, such as ``2024-01-31T12:00:00+05:00``, are converted to it; with ``written="dd.mm.yyyy"``, texts such
  as ``31.1.2024 23:59`` or ``31.1.2024 11:59 PM``, with ``written="dd.mm.yy"`` and ``years_from=1930``, ``31.1.29`` for
  2029, and with ``written="mon dd, yyyy"``, ``Jan 31, 2024`` and ``January 31, 2024``, in capitals or not;
* texts that a rule lists as ``missing`` are nulls to it.
"""

from quietfield.schema.rules import DROP as DROP
from quietfield.schema.rules import FILL_IN as FILL_IN
from quietfield.schema.rules import FORMAT as FORMAT
from quietfield.schema.rules import SECONDS as SECONDS
from quietfield.schema.rules import YEARS_FROM as YEARS_FROM
from quietfield.schema.rules import Attribute as Attribute
from quietfield.schema.rules import Clock as Clock
from quietfield.schema.rules import ColumnType as ColumnType
from quietfield.schema.rules import Cuts as Cuts
from quietfield.schema.rules import DateForm as DateForm
from quietfield.schema.rules import Dates as Dates
from quietfield.schema.rules import Decimal as Decimal
from quietfield.schema.rules import Labels as Labels
from quietfield.schema.rules import NumberForm as NumberForm
from quietfield.schema.rules import Thousands as Thousands
from quietfield.schema.rules import TimeForm as TimeForm
from quietfield.schema.rules import is_short as is_short
from quietfield.schema.rules import strptime_form as strptime_form
from quietfield.schema.schema import Rule as Rule
from quietfield.schema.schema import Schema as Schema
from quietfield.schema.schema import starter as starter
