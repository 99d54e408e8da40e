"""How much a report shows: what is in sight, what is folded, and what is left out with a sentence that says so."""

MANY = 20  # attributes: a report on more folds each of them, has one matrix of associations and a field to search

MOST_ROWS = 24  # values of one attribute in sight
MOST_FOLDED_ROWS = 10_000  # values of all attributes together that are folded
MOST_PARTNERS = 3  # attributes that are named beside one that is folded

MOST_PAIRS = 60  # pairs in the list in sight; below it are folded those that a table joins
MOST_MAPS = 12  # pairs with a heat map
MOST_FOLDED_MAPS = 150  # the same where maps are folded
MOST_NUMBERS = 10_000  # cells with a number in all folded heat maps together
MOST_LABELS = 12  # on a side of a heat map with numbers
MOST_PIXELS = 10_000  # cells of a heat map that is drawn as a picture
MOST_TELLING = 10  # cells listed of a heat map without numbers
MOST_INFERRED = 40  # pairs that no clique joins and that are worked out one by one
MOST_APART = 4  # of them with an interval, each by an inference of its own; in a report that folds nothing
MOST_DERIVATIVES = 10**9  # values times cells: up to here all pairs are worked out
MOST_IN_MATRIX = 150  # attributes of a matrix of associations
MOST_INTERVALS = 200_000  # cells of pairs with intervals, together

MOST_TABLES = 60  # tables in the list of fits in sight
MOST_FOLDED_TABLES = 1000
