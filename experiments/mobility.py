"""Sequences of places for figure 3b: data sets, their segments, tables under several weightings, and holdout scores.

A *unit* is what is protected (a person-day; in MSNBC a visitor). Its *segments* are sequences of slots; those in which
nothing was seen are no records. K is the number of a unit's edges that are not null-null, over all its segments.

* ``ours``: each segment of a unit counts 1/K; the tied edge table and the first-slot table have sensitivity 2 together.
* ``paper``: the same tables, with the sensitivity that the paper gives, the number of edges (at least 2, so it covers
  the first slot, too).
* ``equal``: each segment counts 1 in each table; the sensitivity is segments a unit times the number of edges and one
  more, for the first slot.
* ``unnormalised``: as ``equal``, with the first slot left out of the sensitivity. That was a mistake: noise for epsilon
  spends epsilon (edges + 1) / edges. Its trials are kept so that what they say can be checked.
* ``one``: one segment of each unit, at random, counts 1: what PSGD learns from. Without noise it shows what it costs to
  weight units equally where segments are scored. Where a unit has one segment, as in MSNBC, it is ``equal``.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from math import log
from pathlib import Path
from typing import Any, Literal

import numpy as np

import quietfield.curator.counting  # noqa: F401  # before sequences, which it imports and which imports part of it
from experiments.building import SLOTS, START, Building
from quietfield.cliques import Structure
from quietfield.curator.sequences import Sequences
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.privacy.noise import Laplace
from quietfield.releases.parts import Table, Total
from quietfield.releases.release import Release
from quietfield.structures import chain
from quietfield.study.simulation import NOTE
from quietfield.text import join_names

Weighting = Literal["ours", "paper", "equal", "unnormalised", "one"]
WEIGHTINGS: tuple[Weighting, ...] = ("ours", "paper", "equal")
EQUAL = ("equal", "unnormalised", "one")  # each segment counts 1
#: Data sets whose units have one segment each: units weigh the same as segments.
ONE_SEGMENT = ("msnbc",)
DATA_VARIABLE = "QUIETFIELD_DATA"
FILES = {"msnbc": "msnbc.parquet", "geolife": "geolife_userday_10min.parquet"}
BUILDINGS = {"building": Building(), "building-small": Building(people=1000), "building-tiny": Building(60, 5, 2)}
#: Sizes above this one are the same units again: GeoLife has 7,312 user-days, of which three quarters are learned from.
ALL_UNITS = {"geolife": 10_000}


@dataclass(frozen=True, eq=False)
class Walks:
    """Segments (one row each, codes by slot, null last), the unit of each, the individual of each unit for the split,
    and how many segments a unit can have."""

    name: str
    segments: np.ndarray
    units: np.ndarray
    individuals: np.ndarray
    states: int
    most: int
    log: Any = None  # the raw log, where there is one

    @property
    def domain(self) -> Domain:
        return Domain({f"slot {i + 1}": self.states for i in range(self.segments.shape[1])})

    @property
    def structure(self) -> Structure:
        return chain(self.domain, homogeneous=True)


@dataclass(frozen=True, eq=False)
class Split:
    """Units to learn from and segments to score on; no individual is in both."""

    walks: Walks
    train: np.ndarray  # units
    test: np.ndarray  # segments
    number: int = 0


@lru_cache(maxsize=4)
def walks(name: str, seed: int = 0) -> Walks:
    """A data set by name: a simulated building, or one of the files."""
    if name in BUILDINGS:
        return from_log(BUILDINGS[name], seed, name)
    if name not in FILES:
        raise Error(f"there is no data set {name!r}; expected one of {join_names([*BUILDINGS, *FILES])}.")
    path = find(name)
    if path is None:
        raise Error(f"{FILES[name]} was not found; name its folder with --data, or leave {name} out.")
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if name == "msnbc":
        codes = _matrix(table, [f"site_{i}" for i in range(16)])
        return _nonempty(name, _null_last(codes, 18), np.arange(len(codes)), np.arange(len(codes)), 18, 1)
    slots = _null_last(_matrix(table, [f"s{i:03d}" for i in range(SLOTS)]), 10).reshape(-1, 6)
    units = np.repeat(np.arange(len(table)), SLOTS // 6)
    return _nonempty(name, slots, units, table["user_id"].to_numpy(), 10, SLOTS // 6)


def find(name: str) -> Path | None:
    """Where a data set's file is: in the folder that was named, or in ../shared/data; None if it is nowhere."""
    named = os.environ.get(DATA_VARIABLE)
    for folder in [Path(named)] if named else [Path("../shared/data"), Path("shared/data")]:
        if (folder / FILES[name]).exists():
            return folder / FILES[name]
    return None


def is_available(name: str) -> bool:
    """Whether a data set can be had here."""
    return name in BUILDINGS or find(name) is not None


def from_log(building: Building, seed: int, name: str = "building") -> Walks:
    """The segments of a building's log; a slot has the last place seen in it."""
    log = building.log(seed)
    user = log["user"].to_numpy()
    moment = log["seen"].cast("int64").to_numpy() - START
    place = log["place"].combine_chunks().dictionary_encode()
    rank = {value: i for i, value in enumerate(building.places)}
    code = np.array([rank[value] for value in place.dictionary.to_pylist()])[place.indices.to_numpy()]
    day, slot = moment // 86_400, moment % 86_400 // 600
    unit_of, units = np.unique(user * building.days + day, return_inverse=True)
    states = len(building.places) + 1
    grid = np.full((len(unit_of), SLOTS), states - 1, np.int16)
    # Sorted by time, and of equal moments the lower code last: what is written last stays.
    order = np.lexsort((-code, moment))
    grid[units[order], slot[order]] = code[order]
    found = _nonempty(
        name, grid.reshape(-1, 6), np.repeat(np.arange(len(unit_of)), SLOTS // 6), None, states, SLOTS // 6
    )
    return Walks(found.name, found.segments, found.units, np.arange(len(unit_of)), states, SLOTS // 6, log)


def sequences(building: Building) -> Sequences:
    """How the curator reads a building's log."""
    return Sequences("user", "seen", "place", labels=list(building.places), unit="person-day", kind="integer")


def split(data: Walks, number: int, units: int | None = None) -> Split:
    """A quarter of the individuals to score on; of the others, all units or some at random."""
    random = np.random.default_rng([number, 11])
    people = np.unique(data.individuals)
    held = np.isin(data.individuals, random.permutation(people)[: max(len(people) // 4, 1)])
    train = random.permutation(np.flatnonzero(~held))
    if units is not None:
        train = train[:units]
    return Split(data, np.sort(train), data.segments[held[data.units]], number)


def weights(part: Split, weighting: Weighting) -> tuple[np.ndarray, np.ndarray]:
    """The training segments and what each counts."""
    if weighting == "one":
        segments = one_each(part, part.number)
        return segments, np.ones(len(segments))
    inside = np.isin(part.walks.units, part.train)
    segments, units = part.walks.segments[inside], part.walks.units[inside]
    if weighting in EQUAL:
        return segments, np.ones(len(segments))
    null = part.walks.states - 1
    edges = ((segments[:, 1:] != null) | (segments[:, :-1] != null)).sum(1)
    return segments, 1 / np.bincount(units, edges)[units]


@lru_cache(maxsize=64)
def tables(part: Split, weighting: Weighting) -> tuple[dict[Clique, np.ndarray], float]:
    """The true tables (first slot, all edges) and the weighted number of segments W."""
    segments, weight = weights(part, weighting)
    s, structure = part.walks.states, part.walks.structure
    first = np.bincount(segments[:, 0], weight, minlength=s)
    pairs = segments[:, :-1].astype(np.int64) * s + segments[:, 1:]
    edges = np.bincount(pairs.ravel(), np.repeat(weight, pairs.shape[1]), minlength=s * s).reshape(s, s)
    if weighting not in EQUAL:
        edges[-1, -1] = 0.0  # not counted: it follows from the rest and W
    return {structure.groups[0][0]: first, structure.groups[1][0]: edges}, float(weight.sum())


def sensitivity(data: Walks, weighting: Weighting) -> int:
    """How much one unit can change all tables together, as each of the weightings has it."""
    edges = data.segments.shape[1] - 1
    return {
        "ours": 2,
        "paper": edges,
        "equal": data.most * (edges + 1),
        "unnormalised": data.most * edges,
        "one": edges + 1,
    }[weighting]


def segments_of(structure: str) -> int:
    """How many segments a unit of a data set can have."""
    return 1 if structure in ONE_SEGMENT else SLOTS // shape_of(structure)[0]


def contribution(slots: int, nulls: bool = False, first: bool = True) -> float:
    """The most that one unit adds to all tables with 1/K weights, in L1.

    ``nulls``: edges between null and null are counted as well. ``first``: there is a table of the first slot, too. A
    unit's segments share its weight, so that no unit adds more than the segment that adds the most for its edges.

    >>> contribution(6), contribution(6, nulls=True, first=False), contribution(6, nulls=True)
    (2.0, 5.0, 6.0)
    """
    most = 0.0
    for seen in product((False, True), repeat=slots):
        edges = sum(a or b for a, b in pairwise(seen))
        if edges:
            most = max(most, ((slots - 1 if nulls else edges) + first) / edges)
    return most


def spent(structure: str, weighting: str) -> float:
    """What a release costs, as a multiple of the epsilon that it is said to cost: more than 1 is a mistake.

    >>> spent("building", "unnormalised"), spent("building", "equal")
    (1.2, 1.0)
    """
    slots, _ = shape_of(structure)
    return slots / (slots - 1) if weighting == "unnormalised" else 1.0


def shape_of(structure: str) -> tuple[int, int]:
    """Slots of a segment and values of a slot, null included."""
    if structure in BUILDINGS:
        return 6, len(BUILDINGS[structure].places) + 1
    return {"msnbc": (16, 18), "geolife": (6, 10)}[structure]


def know_nothing(structure: str) -> float:
    """The score of a model that knows nothing: every sequence of slots has the same chance.

    It is what an analyst has after a fit that broke down, and counts as its result.
    """
    slots, states = shape_of(structure)
    return -slots * log(states)


def release(part: Split, weighting: Weighting, epsilon: float | None, seed: int) -> Release:
    """The tables with simulated noise (none without epsilon). The paper's weightings take W for known, ours not."""
    data, (true, total) = part.walks, tables(part, weighting)
    scale = 1e-9 if epsilon is None else sensitivity(data, weighting) / epsilon
    random = np.random.default_rng([seed, 13])
    null = (data.states - 1,) * 2
    parts = []
    for group, values in zip(data.structure.groups, true.values(), strict=True):
        noisy = values + (random.laplace(0.0, scale, values.shape) if epsilon is not None else 0.0)
        excluded = null if len(group) > 1 and weighting not in EQUAL else None
        parts.append(Table(group, noisy, Laplace(scale), excluded=excluded))
    known = Total(total, None) if weighting != "ours" or epsilon is None else None
    return Release(data.domain, data.structure, tuple(parts), known, notes=(NOTE,))


def filled(made: Release) -> Release:
    """The release with its null-null cell worked out: (slots - 1) W less the other cells, W from the first slot.

    For estimates that take noisy tables for true ones and need whole tables.
    """
    first, edges = made.parts
    if edges.excluded is None:
        return made
    total = float(first.values.sum()) if made.total is None else made.total
    values = edges.values.copy()
    values[edges.excluded] = 0.0
    values[edges.excluded] = len(edges.cliques) * total - values.sum()
    return replace(made, parts=(first, replace(edges, values=values, excluded=None)), total_part=Total(total, None))


def score(part: Split, model: Any) -> float:
    """The mean log-probability of a segment that was not learned from."""
    return float(model.log_prob(part.test).mean())


def one_each(part: Split, seed: int) -> np.ndarray:
    """One segment of each training unit at random: records for a method that protects one row per unit."""
    inside = np.flatnonzero(np.isin(part.walks.units, part.train))
    shuffled = np.random.default_rng([seed, 17]).permutation(inside)
    _, first = np.unique(part.walks.units[shuffled], return_index=True)
    return part.walks.segments[shuffled[first]]


def _matrix(table: Any, columns: list[str]) -> np.ndarray:
    return np.stack([table[name].to_numpy() for name in columns], axis=1)


def _null_last(codes: np.ndarray, states: int) -> np.ndarray:
    """Codes with 0 for null become codes with null last."""
    return ((codes.astype(np.int16) - 1) % states).astype(np.int16)


def _nonempty(
    name: str, segments: np.ndarray, units: np.ndarray, individuals: np.ndarray | None, states: int, most: int
) -> Walks:
    """Without the segments in which nothing was seen."""
    there = (segments != states - 1).any(1)
    return Walks(
        name, segments[there], units[there], individuals if individuals is not None else np.arange(0), states, most
    )
