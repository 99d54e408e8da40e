"""Files that ask for more than they hold are refused, in little memory and time; honest ones are read.

Every file is read in a process whose memory is limited, and in a time in proportion to its size.
"""

import gzip
import hashlib
import json
import random
import subprocess
import sys
import tracemalloc
import zipfile
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield import structures
from quietfield.archives import TABLES, pack, write_archive
from quietfield.errors import Error, FileError
from quietfield.files import MANIFEST, MOST_CLIQUES, canonical_json
from quietfield.models.fit_report import FitReport
from quietfield.models.uncertainty import Uncertainty
from quietfield.releases import keys

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited as Linux does it")

#: What a small file may take; larger ones get ten times their size more.
MEGABYTES = 400


def read_all(folder: Path, root: Path) -> dict[str, dict[str, Any]]:
    """What came of each file of a folder; none may fail in a way of its own or take long for its size."""
    largest = max(path.stat().st_size for path in folder.iterdir()) / 2**20
    done = subprocess.run(
        [sys.executable, "-m", "tests.reading", str(folder), str(MEGABYTES + int(10 * largest))],
        cwd=root, capture_output=True, text=True, timeout=900, check=True,
    )  # fmt: skip
    found = {line["file"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert set(found) == {path.name for path in folder.iterdir()}
    for name, line in found.items():
        assert line["outcome"] in ("read", "refused"), line
        # Seconds of the processor; a tenth of the limit was measured, so that there is room for slower ones.
        assert line["seconds"] < 3 + 9 * (folder / name).stat().st_size / 2**20, line
    return found


def release_of(cliques: Any, domain: qf.Domain) -> qf.Release:
    structure = structures.Structure.of(cliques, domain)
    tables = {group[0]: np.zeros(domain.table_shape(group[0])) for group in structure.groups}
    return qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), ties=structure.ties)


def model_of(cliques: Any, domain: qf.Domain) -> qf.Model:
    return qf.Model(domain, {clique: np.zeros(domain.table_shape(clique)) for clique in cliques})


# Files made to exhaust


def small(kind: str, folder: Path) -> dict[str, Any]:
    """The manifest of a small file, for changes."""
    domain = qf.Domain({"a": 2, "b": 2})
    made = release_of([("a", "b")], domain) if kind == "release" else model_of([("a", "b")], domain)
    path = folder / f"small.{kind}"
    made.save(path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read(MANIFEST))
    path.unlink()
    return {key: value for key, value in manifest.items() if key not in ("kind", "version", "sha256")}


def domain_json(sizes: dict[str, int], impossible: list[Any]) -> dict[str, Any]:
    attributes = [{"name": "a", "size": 2}, {"name": "b", "size": 2}]
    attributes += [{"name": name, "size": size} for name, size in sizes.items()]
    return {"format": "quietfield-domain", "version": 1, "attributes": attributes, "impossible": impossible}


MANY = [f"x{i}" for i in range(60)]
DOMAINS: dict[str, dict[str, Any]] = {
    # 94 GiB of tables of 64 MiB each
    "rules": domain_json(
        dict.fromkeys(MANY, 8192), [{a: [0], b: [0]} for i, a in enumerate(MANY) for b in MANY[i + 1 :]][:1500]
    ),
    # one table of 64 MiB that is filled again and again
    "one rule": domain_json(
        {"c": 8192, "d": 8192}, [{"c": list(range(8191)), "d": [j for j in range(8192) if j != i]} for i in range(60)]
    ),
    "sizes": domain_json(dict.fromkeys(MANY, 2**24), []),
    "one size": domain_json({"c": 2**40}, []),
    "negative": domain_json({"c": -(2**40), "d": 2**40}, []),
    "wide rule": domain_json(dict.fromkeys([f"y{i}" for i in range(90)], 1), [{f"y{i}": [0] for i in range(90)}]),
    "labels": {
        **domain_json({}, []),
        "attributes": [
            *domain_json({}, [])["attributes"],
            {"name": "c", "labels": [str(i // 2) for i in range(60000)]},
        ],
    },
    "mbi": {"a": 2, "b": 2, "c": 10**12},
}


def test_small_files_that_ask_for_much_are_refused(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for kind, end in (("release", "qfr"), ("model", "qfm")):
        for name, domain in DOMAINS.items():
            manifest, blob = pack(kind, 1, {**small(kind, tmp_path), "domain": domain}, [np.zeros((2, 2))])
            write_archive(folder / f"{name}.{end}", {MANIFEST: manifest, TABLES: blob})
    assert {line["outcome"] for line in read_all(folder, root).values()} == {"refused"}


def test_a_number_of_values_takes_no_memory(tmp_path: Path) -> None:
    """A file of 1.3 KB that named 4,194,300 values of an attribute took 350 MB."""
    impossible = [{"a": [0], "z": [3]}]
    for kind, end in (("release", "qfr"), ("model", "qfm")):
        changed = {**small(kind, tmp_path), "domain": domain_json({"z": 2**22 - 4}, impossible)}
        manifest, blob = pack(kind, 1, changed, [np.zeros((2, 2))])
        write_archive(tmp_path / f"values.{end}", {MANIFEST: manifest, TABLES: blob})
    wrong = {**changed, "domain": domain_json({"z": 2**22 - 4}, [{"a": [0], "z": ["x"]}])}
    manifest, blob = pack("model", 1, wrong, [np.zeros((2, 2))])
    write_archive(tmp_path / "wrong.qfm", {MANIFEST: manifest, TABLES: blob})
    tracemalloc.start()
    try:
        release, model = qf.Release.load(tmp_path / "values.qfr"), qf.load(tmp_path / "values.qfm")
        with pytest.raises(FileError, match=r"'x' is not a value of 'z'; expected one of 0, 1"):
            qf.load(tmp_path / "wrong.qfm")
        repr(release), repr(model), release.domain.to_json(), hash(model.domain), model.domain.project(["z", "a"])
        assert model.domain == release.domain == qf.Domain(model.domain)
        assert model.domain.code("z", 2**22 - 5) == 2**22 - 5
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20  # the table of what is impossible has 2 * 2^22 cells
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 2_000_000_000, "tolerance": 1e-300},
        {"tolerance": 1e-300},
        {"iterations": 10**400},
        {"iterations": 2.5},
        {"iterations": float("nan")},
        {"damping": 1},
        {"damping": -0.1},
    ],
)
def test_options_that_would_keep_a_reader_busy_without_end_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    domain = qf.Domain({"a": 2, "b": 2})
    with pytest.raises(Error, match=f"the option '{next(iter(options))}'"):
        qf.Model(domain, {("a", "b"): np.zeros((2, 2))}, inference="loopy", options=options)
    if all(value < 10**300 for value in options.values()):  # JSON has no NaN
        changed = {**small("model", tmp_path), "method": "loopy", "options": options}
        manifest, blob = pack("model", 1, changed, [np.zeros((2, 2))])
        write_archive(tmp_path / "slow.qfm", {MANIFEST: manifest, TABLES: blob})
        with pytest.raises(FileError, match="the option"):
            qf.load(tmp_path / "slow.qfm")


def rationals(tables: int, digits: int) -> dict[str, Any]:
    """A release whose scales have so many digits and no common denominator."""
    draw = random.Random(digits)
    names = [f"x{i}" for i in range(tables)]
    low, high = 10 ** (digits - 1), 10**digits
    scale = [Fraction(draw.randrange(low, high), draw.randrange(low // 10, low)) for _ in names]
    return {
        "domain": domain_json(dict.fromkeys(names, 1), []),
        "cliques": [[name] for name in names],
        "tables": [
            {"cliques": [[name]], "noise": {"kind": "laplace", "scale": str(one), "step": "1"}, "l1": "1",
             "l2_squared": "1", "excluded": None} for name, one in zip(names, scale, strict=True)
        ],
        "privacy": {"epsilon": "1000000", "delta": None, "rho": None, "l1": str(tables), "l2_squared": str(tables),
                    "unit": {"kind": "rows", "rows": 1}, "protects": "any one row", "neighbours": "add_remove"},
        "notes": [],
    }  # fmt: skip


def weighted(content: dict[str, Any], cliques: Any, ties: Any, groups: Any, cell: list[int]) -> dict[str, Any]:
    """A release in which each person's edges have a weight of 1/K, and one label means null."""
    unit = qf.Person("u", normalise=True, null="label 29999")
    noise = {"kind": "laplace", "scale": "1", "step": "1/1048576"}
    part = {"noise": noise, "l1": "1", "l2_squared": "1", "excluded": cell}
    attributes = [
        {"name": "b", "labels": [f"label {i}" for i in range(30000)]},
        *({"name": f"x{i}", "labels": ["label 29999"]} for i in range(4000)),
    ]
    promise = {"epsilon": "1", "delta": None, "rho": None, "l1": "1", "l2_squared": "1", "neighbours": "add_remove"}
    return {
        **content,
        "domain": {**domain_json({}, []), "attributes": attributes},
        "cliques": cliques,
        "ties": ties,
        "tables": [{**part, "cliques": group} for group in groups],
        "denominator": 2**20,
        "notes": [],
        "privacy": {**promise, "unit": unit.to_json(), "protects": unit.describe()},
    }


@pytest.mark.slow
def test_work_is_linear_in_the_size_of_a_file(tmp_path: Path, root: Path) -> None:
    """Of today's 16,000 tied cliques took 13 seconds, and scales of 1,000 digits 85."""
    folder = tmp_path / "files"
    folder.mkdir()
    names = [f"x{i}" for i in range(16000)]
    tied = structures.Structure(tuple((name,) for name in names), (tuple((name,) for name in names),))
    release_of(tied, qf.Domain(dict.fromkeys(names, 1))).save(folder / "ties.qfr")
    model_of([(name,) for name in names], qf.Domain(dict.fromkeys(names, 1))).save(folder / "cliques.qfm")
    content = small("release", tmp_path)
    manifest, blob = pack("release", 1, {**content, **rationals(1500, 999)}, [np.zeros(1, np.int64)] * 1500)
    write_archive(folder / "rationals.qfr", {MANIFEST: manifest, TABLES: blob})
    # As many choices of tables, by scales of as many digits; and choices of one table after the other by short ones.
    for name, tables, digits in (("choices", 1500, 999), ("many choices", 5000, 3)):
        chosen = rationals(tables, digits)
        scales = [one["noise"]["scale"] for one in chosen["tables"]]
        chosen["selections"] = [
            {"chosen": [f"x{i}"], "candidates": 1, "measured": 0, "sensitivity": "1", "scale": scale}
            for i, scale in enumerate(scales)
        ]
        manifest, blob = pack("release", 1, {**content, **chosen}, [np.zeros(1, np.int64)] * tables)
        write_archive(folder / f"{name}.qfr", {MANIFEST: manifest, TABLES: blob})
    # Tables in another order than the structure's.
    wrong = {**content, "domain": domain_json(dict.fromkeys(names, 1), []), "cliques": [[name] for name in names],
             "tables": [{**content["tables"][0], "cliques": [[name]]} for name in reversed(names)]}  # fmt: skip
    manifest, blob = pack("release", 1, wrong, [np.zeros(1)] * len(names))
    write_archive(folder / "order.qfr", {MANIFEST: manifest, TABLES: blob})
    # Weights of 1/K over many tables, and a null that is looked up among many labels for each of many tied cliques.
    some = [f"x{i}" for i in range(4000)]
    chain = [[a, b] for a, b in pairwise(some)]
    tied_to_b = [["b", name] for name in some]
    for name, cliques, ties, shape in (
        ("shared", chain, [], (1, 1)),
        ("nulls", tied_to_b, [tied_to_b], (30000, 1)),
    ):
        groups = ties or [[clique] for clique in cliques]
        changed = weighted(content, cliques, ties, groups, [shape[0] - 1, 0])
        manifest, blob = pack("release", 1, changed, [np.zeros(shape, np.int64)] * len(groups))
        write_archive(folder / f"{name}.qfr", {MANIFEST: manifest, TABLES: blob})
    found = {name: line["outcome"] for name, line in read_all(folder, root).items()}
    expected = {"ties.qfr": "read", "cliques.qfm": "read", "rationals.qfr": "read", "order.qfr": "refused"}
    expected |= {"choices.qfr": "read", "many choices.qfr": "read"}
    assert found == {**expected, "shared.qfr": "read", "nulls.qfr": "read"}


def network_text(parents: int, size: int = 2, *, row: str = "default 1, 0") -> str:
    """A network in BIF of one variable with many parents, whose table is a single line."""
    names = [f"v{i}" for i in range(parents + 1)]
    labels = ", ".join(f"l{i}" for i in range(size))
    lines = [f"variable {name} {{ type discrete [ {size} ] {{ {labels} }}; }}" for name in names]
    flat = ", ".join(["1", *["0"] * (size - 1)])
    lines += [f"probability ( {name} ) {{ table {flat}; }}" for name in names[1:]]
    return "\n".join([*lines, f"probability ( v0 | {', '.join(names[1:])} ) {{ {row}; }}"])


def test_networks_in_bif_that_ask_for_much(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    draw = random.Random(5)
    honest = network_text(3, row="default 0.25, 0.75; property x; (l0, l1, l0) 1, 0")
    chain = "".join(
        f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }} probability ( v{i}{f' | v{i - 1}' if i else ''} ) "
        + "{ default 0.5 0.5; }\n"
        for i in range(5000)
    )
    texts = {
        "read-most": network_text(20), "refused-more": network_text(21), "refused-astronomical": network_text(60),
        "refused-axes": network_text(90, 1, row="default 1"), "read-small": honest, "read-chain": chain,
        "refused-values": "variable a { type discrete [ 9999999999999 ] { x }; }",
        "refused-comment": "/*" * 200_000, "refused-quotes": '"' * 100_001, "refused-words": "network " + "x " * 10**5,
        "refused-property": "network x { property " + "a" * 10**6,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.bif").write_text(text)
    (folder / "refused-bomb.bif").write_bytes(gzip.compress(b" " * 2**28))
    for i in range(300):
        data = bytearray(honest.encode())
        for _ in range(draw.choice([1, 2, 8])):
            data[draw.randrange(len(data))] = draw.choice(b'{}()[];,|"/* 019.eyvd\n\xff')
        (folder / f"changed-{i}.bif").write_bytes(data[: draw.choice([None, draw.randrange(len(data))])])
    for name, line in read_all(folder, root).items():
        assert name.startswith("changed") or name.startswith(line["outcome"]), line


# Honest files


def test_large_honest_files_are_written_and_read(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    many = qf.Domain({f"x{i}": 4 for i in range(1000)})
    wide = qf.Domain({f"x{i}": 125 for i in range(110)}, [{"x0": [0, 1], "x1": [3]}, {"x5": [0], "x6": [1], "x7": [2]}])
    long = qf.Domain({"place": [f"place {i}" for i in range(100_000)], "sex": ["f", "m"]})
    for name, domain, cliques in (
        ("tree", many, structures.tree(many, seed=0)),
        ("wide", wide, structures.chain(wide)),
        ("long", long, structures.chain(long)),
    ):
        release_of(cliques, domain).save(folder / f"{name}.qfr")
        model_of(cliques, domain).save(folder / f"{name}.qfm")
    assert sum(part.values.size for part in qf.Release.load(folder / "wide.qfr").parts) > 1_700_000
    assert {line["outcome"] for line in read_all(folder, root).values()} == {"read"}


def test_what_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Error, match="the most that a domain may have"):
        qf.Domain({"a": 2**21, "b": 2**21, "c": 1})
    with pytest.raises(Error, match="span tables of 134,217,728 cells in all"):
        qf.Domain(dict.fromkeys("abcd", 2**13), [{"a": 0, "b": 0}, {"c": 0, "d": 0}])
    with pytest.raises(Error, match="at most 524,288 cliques"):
        structures.Structure(tuple((f"x{i}",) for i in range(MOST_CLIQUES + 1)))
    release = qf.Release.from_tables(
        qf.Domain({"a": 2}), {("a",): [1, 2]}, qf.Laplace(Fraction(10**1000 + 1, 10**1000))
    )
    with pytest.raises(Error, match="more than 1000 digits"):
        release.save(tmp_path / "x.qfr")
    names = [f"{'x' * 70_000}{i}" for i in range(1000)]
    with pytest.raises(Error, match="more room than a file may have"):
        model_of([(name,) for name in names], qf.Domain(dict.fromkeys(names, 1))).save(tmp_path / "x.qfm")
    assert list(tmp_path.iterdir()) == []


# Mutations of real files

JUNK: list[Any] = [
    None, True, 0, -1, 1, 7, 2**31, 2**63, 10**30, -(10**15), 0.5, 1e308, "", "x", "1/3", "9" * 999, "1/" + "7" * 999,
    "0", "a", "\u0000", [], {}, [[]], [0] * 50, ["a"], [["a", "b"]], {"a": 1}, {"a": 2**23}, [1, "a", None], "paper",
    {"kind": "rows", "rows": 10**50}, {"kind": "person", "column": "u", "normalise": True, "null": []},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a manifest."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inside for place in places(part, (*path, key)))]


def mutated(manifest: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A manifest in which one to three parts were replaced, removed, repeated or exchanged."""
    changed = json.loads(json.dumps(manifest))
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        *path, last = draw.choice([place for place in places(changed) if place])
        holder = changed
        for step in path:
            holder = holder[step]
        how = draw.randrange(5)
        if how == 0:
            del holder[last]
        elif how == 1 and isinstance(holder, list):
            holder[last:last] = [holder[last]] * draw.choice([1, 2, 3000])
        elif how == 2 and isinstance(holder[last], int | float) and not isinstance(holder[last], bool):
            holder[last] = holder[last] * draw.choice([-1, 10, 2**20, 2**40]) + draw.choice([0, 1])
        elif how == 3 and isinstance(holder, dict):
            holder[draw.choice(["size", "labels", "x", "scale"])] = holder[last]
        else:
            holder[last] = draw.choice(JUNK)
    return changed


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """Real files: with ties and impossible combinations, signed, promised and noised elsewhere, learned and not."""
    from tests.test_releases import promised

    promised().save(folder / "a.qfr", keys.create_keys(folder / "k.pem")[0])
    domain = qf.Domain({"a": ["x", "y"], "b": ["x", "y"], "c": 3}, [{"a": "x", "c": [0, 2]}])
    tied = structures.Structure((("a", "c"), ("b", "c")), ((("a", "c"), ("b", "c")),))
    release_of(tied, domain).save(folder / "b.qfr")
    report = FitReport("map", "exact", 3, 20, -50.0, 2987.5, True, 0.1, "", "r1", "ab" * 32)
    kept = Uncertainty(
        ((("a", "c"), ("b", "c")),), (qf.Laplace(2.0),), ((0, 1),), 9.0, 1.0, (0.5,), ((1.0, 2.0),), ((3.0, 4.0),)
    )
    tables = {clique: np.zeros((2, 3)) for clique in tied}
    qf.Model(domain, tables, inference="loopy", options={"damping": 0.5}, report=report, uncertainty=kept).save(
        folder / "c.qfm"
    )
    return [(path.suffix, path.read_bytes()) for path in sorted(folder.glob("*.qf?"))]


def test_mutated_files_are_read_or_refused(tmp_path: Path, root: Path) -> None:
    source, folder = tmp_path / "originals", tmp_path / "files"
    source.mkdir()
    folder.mkdir()
    draw = random.Random(8)
    for number, (end, whole) in enumerate(originals(source)):
        (folder / f"{number}-whole{end}").write_bytes(whole)
        (folder / "now.zip").write_bytes(whole)
        with zipfile.ZipFile(folder / "now.zip") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        (folder / "now.zip").unlink()
        manifest = json.loads(members[MANIFEST])
        del manifest["sha256"]
        for i in range(250):
            changed = mutated(manifest, draw)
            try:
                digest = hashlib.sha256(canonical_json(changed) + members[TABLES]).hexdigest()
                changed["sha256"] = digest
                text = canonical_json(changed)
            except Error:
                continue
            write_archive(folder / f"{number}-json-{i}{end}", {MANIFEST: text, TABLES: members[TABLES]})
        for i in range(80):
            data = bytearray(whole)
            for _ in range(draw.choice([1, 2, 8])):
                data[draw.randrange(len(data))] = draw.randrange(256)
            (folder / f"{number}-bytes-{i}{end}").write_bytes(data[: draw.choice([None, draw.randrange(len(data))])])
    found = read_all(folder, root)
    assert len(found) > 900
    assert all(
        found[f"{number}-whole{end}"]["outcome"] == "read" for number, end in ((0, ".qfr"), (1, ".qfr"), (2, ".qfm"))
    )
    assert sum(line["outcome"] == "refused" for line in found.values()) > 0.8 * len(found)
