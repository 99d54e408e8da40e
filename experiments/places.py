"""What figure 3b's data sets are like: numbers behind its reasons, for the page, which is written without the data.

``python -m experiments.places`` writes ``docs/results/paper/places.csv`` from the units of the first split that are
learned from, all of them.
"""

import csv
from pathlib import Path

FILE = Path(__file__).parent.parent / "docs" / "results" / "paper" / "places.csv"
NAMES = ("building", "msnbc")


def read(path: Path = FILE) -> dict[str, dict[str, float]]:
    """By data set the numbers by name; none where there is no file."""
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        return {
            line["data"]: {name: float(value) for name, value in line.items() if name != "data"}
            for line in csv.DictReader(file)
        }


def facts(name: str) -> dict[str, float]:
    """Segments of a unit; what a unit counts with 1/K weights; noise beside what is counted.

    ``noise`` is the scale of the noise of equal weights divided by the number of edges that they count, over the same
    of 1/K weights; edges between null and null are left out, since 1/K weights do not release them.
    """
    import numpy as np

    from experiments import mobility

    part = mobility.split(mobility.walks(name), 0)
    segments, weight = mobility.weights(part, "ours")
    units = part.walks.units[np.isin(part.walks.units, part.train)]
    _, each = np.unique(units, return_counts=True)
    null = part.walks.states - 1
    here, there = segments[:, :-1], segments[:, 1:]
    seen = (here != null) | (there != null)
    equal = mobility.sensitivity(part.walks, "equal") / seen.sum()
    weighted = mobility.sensitivity(part.walks, "paper") / (seen.sum(1) * weight).sum()
    return {
        "units": len(each),
        "segments": len(segments),
        "least": int(each.min()),
        "most": int(each.max()),
        "unit_weight": float(weight.sum() / len(each)),
        "noise": float(equal / weighted),
    }


def main() -> None:
    """Write the file."""
    found = {name: facts(name) for name in NAMES}
    with open(FILE, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("data", *next(iter(found.values()))))
        writer.writerows((name, *(f"{value:.6g}" for value in numbers.values())) for name, numbers in found.items())


if __name__ == "__main__":
    main()
