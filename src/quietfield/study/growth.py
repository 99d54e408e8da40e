"""What one more table would cost exact inference, while tables are chosen: from public sizes alone."""

from collections.abc import Iterable
from math import prod

from quietfield.domain import Clique, Domain
from quietfield.inference.plan import EliminationStep, elimination_order, schedule


class Growth:
    """The bags of exact inference while tables are added, and what one more table would cost.

    Sets of attributes are the bits of whole numbers, by place: there are many to compare.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], limit: int, exact: bool = False) -> None:
        self.domain, self.limit, self.exact = domain, limit, exact
        self.scopes = [tuple(domain.position(name) for name in clique) for clique in cliques]
        self.added: list[Clique] = []
        self._sizes: dict[int, int] = {}
        self._refused: list[int] = []  # what does not fit, by another order either
        self._build()

    def add(self, clique: Clique) -> None:
        self.added.append(clique)
        self.scopes.append(tuple(self.domain.position(name) for name in clique))
        self._build()

    def fits(self, clique: Clique, *, forest: bool) -> bool:
        """Whether a table can be added: within the limit, and with no pair of attributes that this round has joined.

        In a forest, only between attributes that nothing joins yet. Unless costs are asked to be exact, a table whose
        cost is less than its bound may be refused.
        """
        scope = tuple(self.domain.position(name) for name in clique)
        mask = _mask(scope)
        if any((mask & _mask(other)).bit_count() > 1 for other in self.scopes[len(self.scopes) - len(self.added) :]):
            return False
        if forest and len({self.part[v] for v in scope}) < len(scope):
            return False
        return self.work + self._cost(scope) <= self.limit or (self.exact and self._fits_anew(scope, mask))

    def _fits_anew(self, scope: tuple[int, ...], mask: int) -> bool:
        """Whether a table can be added if attributes are summed out in an order of its own.

        That takes longer than a bound, which can be a thousand times what it is. To save time, what did not fit is not
        tried again, nor is what holds it: tables are only added, so that it hardly ever would.
        """
        if any(mask & refused == refused for refused in self._refused):
            return False
        steps = self._plan([*self.scopes, scope])
        if sum(self._cells(_mask(step.bag)) for step in steps) <= self.limit:
            return True
        self._refused.append(mask)
        return False

    def _build(self) -> None:
        steps = self._plan(self.scopes)
        order = [step.bag[0] for step in steps]
        rank = {v: i for i, v in enumerate(order)}
        self.bags = [_mask(step.bag) for step in steps]
        self.work = sum(map(self._cells, self.bags))
        self.links: list[list[tuple[int, int]]] = [[] for _ in steps]
        self.part = {v: v for v in order}
        for k in range(len(steps) - 1, -1, -1):  # parents first
            message = steps[k].message
            if message:
                above = rank[message[0]]
                self.links[k].append((above, _mask(message)))
                self.links[above].append((k, _mask(message)))
                self.part[order[k]] = self.part[message[0]]
        self.holding = {v: [k for k, bag in enumerate(self.bags) if bag >> v & 1] for v in order}
        self._reached: dict[int, dict[int, tuple[int, int]]] = {}

    def _plan(self, scopes: list[tuple[int, ...]]) -> tuple[EliminationStep, ...]:
        order = elimination_order(self.domain.shape, scopes, restarts=0)
        rank = {v: i for i, v in enumerate(order)}
        return schedule([tuple(sorted(scope, key=rank.__getitem__)) for scope in scopes], order)

    def _cost(self, scope: tuple[int, ...]) -> int:
        """How many cells a table adds at most: its attributes are carried, one by one, to a bag that holds the rest."""
        mask = _mask(scope)
        if len({self.part[v] for v in scope}) == len(scope):
            return self._cells(mask)
        best = 2**62
        by_size = sorted(scope, key=self.domain.shape.__getitem__)
        for k in {k for v in scope for k in self.holding[v]}:
            joined, factor, cost = mask & self.bags[k], 1, 0
            if joined == mask:
                return 0
            for v in by_size:
                if self.bags[k] >> v & 1:
                    continue
                paid, separator = self._carried(v).get(k, (0, 0))  # what nothing joins is free to come
                joined |= separator | 1 << v
                # Those that were carried before may lie along the way, and are then carried once more beside it.
                cost += factor * paid + self._cells(joined)
                factor *= self.domain.shape[v]
                if cost >= best:
                    break
            best = min(best, cost)
        return best

    def _carried(self, v: int) -> dict[int, tuple[int, int]]:
        """For each bag, the cells that it takes to carry an attribute to it, and the separator that it comes by."""
        if v not in self._reached:
            size = self.domain.shape[v]
            found = dict.fromkeys(self.holding[v], (0, 0))
            waiting = list(found)
            while waiting:
                k = waiting.pop()
                cost, came = found[k]
                for other, separator in self.links[k]:
                    if other not in found:
                        through = 0 if self.bags[k] >> v & 1 else self._cells(came | separator) * size
                        found[other] = (cost + through, separator)
                        waiting.append(other)
            self._reached[v] = found
        return self._reached[v]

    def _cells(self, mask: int) -> int:
        if mask not in self._sizes:
            self._sizes[mask] = prod(size for v, size in enumerate(self.domain.shape) if mask >> v & 1)
        return self._sizes[mask]


def _mask(places: Iterable[int]) -> int:
    return sum(1 << v for v in places)
