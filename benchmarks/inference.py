"""All marginals and log Z in one call, and a million samples: quietfield beside mbi and pgmpy, in one run.

Every call gets potentials that it has not seen. The contenders take turns, so that whatever else the machine does
falls on all of them; figures are medians over rounds. Writes inference.csv and .json in docs/results, and the page and
picture from them; ``--page`` writes these two alone.
"""

import argparse
import csv
import json
import platform
import statistics
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
from scipy import stats

import quietfield as qf
from benchmarks._inference_page import draw_growth
from benchmarks._pages import RESULTS, where, write_page
from quietfield import structures

ROUNDS, CALLS = 60, 8
LENGTHS = (10, 30, 100, 300, 1000)
RECORDS = 1_000_000
PEERS = ("einsum_marginals", "message_passing_fast", "message_passing_hugin", "message_passing_implicit",
         "message_passing_shafer_shenoy")  # fmt: skip


def problems():
    def domain(count, size):
        return qf.Domain({f"x{i}": size for i in range(count)})

    yield "chain of order 3, T=10, s=10", domain(10, 10), lambda d: structures.chain(d, 3), True
    yield "chain of order 3, T=10, s=20", domain(10, 20), lambda d: structures.chain(d, 3), False
    yield "Erdős–Rényi p=0.3 seed=0, T=10, s=10", domain(10, 10), lambda d: structures.erdos_renyi(d, 0.3, 0), False
    yield "random tree seed=0, T=100, s=20", domain(100, 20), lambda d: structures.tree(d, 0), False


def ours(domain, structure):
    return lambda potentials: qf.inference.marginals(domain, potentials)[0]


def mbis(domain, structure, name):
    """mbi's oracle under jit with its own junction tree, and log Z from nothing: it returns marginals alone."""
    import mbi
    from mbi import marginal_oracles

    space = mbi.Domain(domain.attributes, domain.shape)
    oracle = jax.jit(getattr(marginal_oracles, name))

    def call(potentials):
        factors = {c: mbi.Factor(space.project(c), table) for c, table in potentials.items()}
        out = oracle(mbi.CliqueVector(space, list(potentials), factors))
        return {c: np.asarray(out[c].values) for c in potentials}

    return call


def pgmpys(domain, structure):
    from pgmpy.inference import BeliefPropagation

    from quietfield.interop import to_pgmpy

    def call(potentials):
        peer = BeliefPropagation(to_pgmpy(qf.Model(domain, potentials)))  # builds the junction tree: not counted
        return seconds_of(peer.calibrate)

    return call


def timed(call, potentials):
    return seconds_of(lambda: call(potentials))


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def marginals():
    rows = []
    for title, domain, build, with_pgmpy in problems():
        structure = build(domain)
        random = np.random.default_rng(0)
        fresh = [{c: random.normal(size=domain.table_shape(c)) for c in structure} for _ in range(CALLS)]
        calls = {"quietfield": ours(domain, structure)}
        calls |= {f"mbi {name}": mbis(domain, structure, name) for name in PEERS}
        first, reference = {}, None
        for name, call in list(calls.items()):
            try:
                first[name] = timed(call, fresh[0])
                found = call(fresh[0])
            except Exception as error:  # noqa: BLE001  # a peer that fails is reported, not hidden
                print(f"{title}: {name} failed: {type(error).__name__}: {str(error)[:100]}")
                del calls[name]
                continue
            reference = reference or found
            worst = max(float(np.abs(found[c] - reference[c]).max()) for c in structure)
            assert worst < 1e-10, f"{name} differs by {worst}"
        times = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name].append(sum(timed(call, p) for p in fresh) / CALLS)
        if with_pgmpy:
            times["pgmpy calibrate"] = [pgmpys(domain, structure)(fresh[0]) for _ in range(5)]
        mine = times["quietfield"]
        ratios = {}
        for name, values in times.items():
            # Ratios round by round, since the machine's speed drifts; then their median.
            ratios[name] = statistics.median(v / m for v, m in zip(values, mine, strict=False))
            value, ratio = 1e3 * statistics.median(values), ratios[name]
            rows.append([title, name, f"{value:.3f}", f"{ratio:.2f}", f"{first[name]:.2f}" if name in first else ""])
            print(f"{title}: {name:40} {value:8.3f} ms  {ratio:6.2f} x", flush=True)
        fastest = min(ratio for name, ratio in ratios.items() if name.startswith("mbi"))
        print(f"{title}: fastest of mbi / quietfield = {fastest:.2f}", flush=True)
    return rows


def growth():
    """Cost of one call against the length of a chain of order 3, s=10."""
    rows = []
    for count in LENGTHS:
        domain = qf.Domain({f"x{i}": 10 for i in range(count)})
        random = np.random.default_rng(0)
        fresh = [{c: random.normal(size=(10, 10)) for c in structures.chain(domain, 3)} for _ in range(4)]
        call = ours(domain, None)
        first = timed(call, fresh[0])
        value = statistics.median(timed(call, p) for _ in range(5) for p in fresh)
        rows.append({"T": count, "ms": round(1e3 * value, 3), "first_s": round(first, 3)})
        print(f"T={count}: {1e3 * value:.2f} ms a call, {first:.2f} s the first time", flush=True)
    return rows


def sampling():
    """Records of the T=10, s=10 chain; a chi-square test of every pair table (Bonferroni, 1e-3 in all)."""
    import mbi

    domain = qf.Domain({f"x{i}": 10 for i in range(10)})
    structure = structures.chain(domain, 3)
    random = np.random.default_rng(0)
    potentials = {c: random.normal(size=(10, 10)) for c in structure}
    model = qf.Model(domain, potentials)
    model.sample(1000, seed=0)
    mine = statistics.median(timed(lambda seed: model.sample(RECORDS, seed=seed), i) for i in range(5))
    frame = model.sample(RECORDS, seed=7)
    worst = 1.0
    pairs = [(i, j) for i in range(10) for j in range(i)]
    for i, j in pairs:
        expected = RECORDS * model.marginal((f"x{i}", f"x{j}")).ravel()
        seen = np.bincount(frame.codes[:, i].astype(int) * 10 + frame.codes[:, j], minlength=100)
        worst = min(worst, stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue)
    passed = worst > 1e-3 / len(pairs)
    space = mbi.Domain(domain.attributes, domain.shape)
    factors = {c: mbi.Factor(space.project(c), potentials[c]) for c in structure}
    vector = mbi.CliqueVector(space, list(structure), factors)
    found = mbi.marginal_oracles.message_passing_fast(vector, RECORDS)
    peer = mbi.MarkovRandomField(potentials=vector, marginals=found, total=RECORDS)
    theirs = [timed(lambda _: peer.synthetic_data(rows=RECORDS, method="sample"), None) for _ in range(2)]
    print(f"{RECORDS:,} samples: quietfield {mine:.3f} s, mbi {min(theirs):.2f} s: {min(theirs) / mine:.1f} x; "
          f"smallest of {len(pairs)} p-values {worst:.2g}: {'passed' if passed else 'FAILED'}", flush=True)  # fmt: skip
    assert passed
    return {
        "quietfield_s": round(mine, 4),
        "mbi_s": round(min(theirs), 3),
        "times": round(min(theirs) / mine, 1),
        "pairs": len(pairs),
        "least_p": float(f"{worst:.2g}"),
    }


def measure(folder: Path) -> None:
    """Write the files that the page is made of."""
    with open(folder / "inference.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["problem", "library", "ms", "times quietfield", "first call, s"], *marginals()]
        )
    versions = {name: version(name) for name in ("jax", "mbi", "pgmpy", "numpy")}
    found = {
        "versions": {"Python": platform.python_version(), **versions},
        **where(),
        "rounds": ROUNDS,
        "calls": CALLS,
        "growth": growth(),
        "samples": sampling(),
    }
    (folder / "inference.json").write_text(json.dumps(found, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write files and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the files and of the page")
    parser.add_argument("--page", action="store_true", help="write the page and the picture from the files")
    asked = parser.parse_args(arguments)
    if not asked.page:
        with jax.enable_x64(True), warnings.catch_warnings():  # mbi computes in float32 without it
            warnings.simplefilter("ignore")
            measure(asked.out)
    write_page("inference", asked.out)
    draw_growth(asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
