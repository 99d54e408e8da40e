"""What one more table would cost exact inference, while tables are chosen."""

from itertools import combinations

from quietfield.domain import Domain
from quietfield.study.growth import Growth


def test_a_table_fits_wherever_another_order_of_elimination_has_room_for_it():
    """Two attributes that hang on one of two values need one bag for the three of them, wherever that one lies else."""
    domain = Domain({"a": 20, "b": 15, "c": 10, "income": 2, "gain": 100, "hours": 99})
    cliques = [("a", "b"), ("b", "c", "income"), ("gain", "income"), ("a", "hours"), ("a", "income")]
    before = Growth(domain, cliques, 0).work
    for pair in combinations(domain, 2):
        room = Growth(domain, [*cliques, pair], 0).work
        assert Growth(domain, cliques, max(before, room), exact=True).fits(pair, forest=False)
    growth = Growth(domain, cliques, before + 2 * 100 * 15, exact=True)
    assert growth.fits(("b", "gain"), forest=False)
    assert not growth.fits(("gain", "hours"), forest=False)
    assert not growth.fits(("gain", "hours", "a"), forest=False)
