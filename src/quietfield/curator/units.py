"""Units as the curator's own code knows them. They see no record, so they live in :mod:`quietfield.units`."""

from quietfield.units import GRID as GRID
from quietfield.units import ROWS_KEY as ROWS_KEY
from quietfield.units import Counted as Counted
from quietfield.units import Kind as Kind
from quietfield.units import Neighbours as Neighbours
from quietfield.units import Person as Person
from quietfield.units import Rows as Rows
from quietfield.units import Statistics as Statistics
from quietfield.units import Unit as Unit
from quietfield.units import chosen as chosen
from quietfield.units import from_json as from_json
from quietfield.units import null_cell as null_cell
from quietfield.units import statistics as statistics
