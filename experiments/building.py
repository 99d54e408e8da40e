"""A simulated academic building and the log of its wireless network: who was seen by which access point when.

The paper's log is not public. This one has what makes such logs hard: people who come on some days only and stay for
some hours, lobbies that all pass, classes at fixed hours, rooms that close, phones that sleep or hop to a neighbouring
access point, and nights without anyone. Everything follows from the public parameters below and a seed; no number in
them comes from data. With the defaults, three weeks have about 124,000 person-days, as in the paper.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quietfield.errors import Error

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

SLOTS = 144  # of ten minutes, a day
START = 1_725_235_200  # Monday 2024-09-02, midnight UTC
KINDS = ("lobby", "cafe", "library", "class", "office")
#: Opening hours by kind of room.
HOURS = {"lobby": (0, 24), "cafe": (7, 19), "library": (8, 23), "class": (8, 21), "office": (6, 23)}
#: Mean length of a stay by kind of room, in slots.
STAY = {"lobby": 1.2, "cafe": 3.0, "library": 9.0, "class": 7.0, "office": 14.0}
#: Where a student or a member of staff goes next, by kind; what is left over is leaving.
STUDENT = {"lobby": 0.06, "cafe": 0.22, "library": 0.34, "class": 0.12, "office": 0.02}
STAFF = {"lobby": 0.05, "cafe": 0.15, "library": 0.06, "class": 0.08, "office": 0.48}


@dataclass(frozen=True)
class Building:
    """The parameters: ``floors`` of five access points each, ``people`` of whom a share are staff, ``days`` from a
    Monday, the chance to come on a weekday and at a weekend, the chance that a phone is seen in a slot, and that it is
    seen by another access point of its floor.

    >>> log = Building(people=50, days=2).log(seed=1)
    >>> log.column_names, log.num_rows > 200
    (['user', 'seen', 'place'], True)
    """

    people: int = 14_750
    days: int = 21
    floors: int = 4
    staff: float = 0.2
    weekday: float = 0.56
    weekend: float = 0.07
    seen: float = 0.85
    hops: float = 0.08

    def __post_init__(self) -> None:
        if self.people < 1 or self.days < 1 or self.floors < 1:
            raise Error("a building has at least one person, one day and one floor.")

    @property
    def places(self) -> tuple[str, ...]:
        """The access points: one of each kind on every floor."""
        return tuple(f"{floor + 1}-{kind}" for floor in range(self.floors) for kind in KINDS)

    def log(self, seed: int = 0) -> "pyarrow.Table":
        """The log as an Arrow table of users, times (seconds since 1970 as timestamps) and access points."""
        import numpy as np
        import pyarrow as pa

        random = np.random.default_rng([seed, 5])
        user, day, place = self._walks(random)
        who, slot = np.nonzero(place >= 0)
        seen = random.random(len(who)) < self.seen
        who, slot = who[seen], slot[seen]
        at = place[who, slot]
        hop = random.random(len(at)) < self.hops
        at = np.where(hop, at - at % len(KINDS) + random.integers(len(KINDS), size=len(at)), at)
        moment = START + day[who] * 86_400 + slot * 600 + random.integers(600, size=len(who))
        order = np.argsort(moment, kind="stable")
        names = pa.DictionaryArray.from_arrays(pa.array(at[order].astype(np.int32)), pa.array(self.places))
        return pa.table(
            {
                "user": pa.array(user[who][order]),
                "seen": pa.array(moment[order], pa.timestamp("s")),
                "place": names.cast(pa.string()),
            }
        )

    def _walks(self, random: "np.random.Generator") -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        """Person, day and place by slot (-1: not in the building) of every person-day."""
        import numpy as np

        staff = random.random(self.people) < self.staff
        floor = random.integers(self.floors, size=self.people)  # where a person works or has most classes
        weekday = np.arange(self.days) % 7 < 5
        come = random.random((self.people, self.days)) < np.where(weekday, self.weekday, self.weekend)
        user, day = np.nonzero(come)
        home = floor[user]
        worker = staff[user]
        lessons = self._lessons(random, user, day, worker, home)
        arrive = np.where(worker, random.normal(51, 5, len(user)), random.normal(58, 10, len(user)))
        arrive = np.clip(arrive, 36, 130).astype(int)
        first = np.where(lessons.any(1), lessons.argmax(1) - random.integers(1, 6, size=len(user)), SLOTS)
        arrive = np.maximum(np.minimum(arrive, first), 0)

        here = np.full(len(user), -1)
        left = np.zeros(len(user), int)
        gone = np.zeros(len(user), bool)
        places = np.full((len(user), SLOTS), -1, np.int8)
        for slot in range(SLOTS):
            arriving = arrive == slot
            here[arriving], left[arriving] = 0, 1  # the lobby of the ground floor
            due = lessons[:, slot] & (here >= 0)
            here[due] = home[due] * len(KINDS) + KINDS.index("class")
            left[due] = self._stay(random, here[due])
            moving = (here >= 0) & (left <= 0) & ~due
            here[moving], left[moving] = self._next(random, slot, worker[moving], home[moving])
            gone |= moving & (here < 0)
            places[:, slot] = np.where(gone, -1, here)
            left -= 1
        return user, day, places

    def _lessons(
        self, random: "np.random.Generator", user: "np.ndarray", day: "np.ndarray", worker: "np.ndarray", home: object
    ) -> "np.ndarray":
        """Whether a class of a person begins in a slot: on the hour from 9 to 17, the same hours every week."""
        import numpy as np

        hours = np.arange(9, 18)
        timetable = random.random((self.people, 5, len(hours))) < 0.13
        held = np.zeros((len(user), SLOTS), bool)
        ordinary = day % 7 < 5
        rows = timetable[user[ordinary], day[ordinary] % 7] & (random.random((int(ordinary.sum()), len(hours))) < 0.85)
        held[np.ix_(np.flatnonzero(ordinary), hours * 6)] = rows & ~worker[ordinary][:, None]
        return held

    def _next(
        self, random: "np.random.Generator", slot: int, worker: "np.ndarray", home: "np.ndarray"
    ) -> "tuple[np.ndarray, np.ndarray]":
        """Where those who move go, among rooms that are open, and for how long; -1 is leaving."""
        import numpy as np

        chances = np.array([[table[kind] for kind in KINDS] for table in (STUDENT, STAFF)])
        hour = slot / 6
        chances = chances * np.array([HOURS[kind][0] <= hour < HOURS[kind][1] - 0.2 for kind in KINDS])
        if hour > 17:  # towards evening ever more leave
            chances = chances * max(0.0, 1 - (hour - 17) / 6)
        sums = np.cumsum(chances, axis=1)[worker.astype(int)]
        kind = (random.random(len(worker))[:, None] >= sums).sum(1)
        stays = kind < len(KINDS)
        floor = np.where(random.random(len(worker)) < 0.7, home, random.integers(self.floors, size=len(worker)))
        here = np.where(stays, floor * len(KINDS) + kind, -1)
        return here, np.where(stays, self._stay(random, np.maximum(here, 0)), 0)

    @staticmethod
    def _stay(random: "np.random.Generator", here: "np.ndarray") -> "np.ndarray":
        import numpy as np

        mean = np.array([STAY[kind] for kind in KINDS])[here % len(KINDS)]
        return random.geometric(1 / mean)
