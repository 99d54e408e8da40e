"""The release: what it holds, that it survives its file, and that no broken file is taken for a whole one."""

import hashlib
import io
import json
import time
import zipfile
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietfield.archives import TABLES, pack, write_archive
from quietfield.cliques import Structure
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import MANIFEST, canonical_json
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace
from quietfield.releases import keys, public_keys
from quietfield.releases import manifest as manifests
from quietfield.releases.parts import PAPER_NOTE, Payment, Promise, Table, Total
from quietfield.releases.release import Release
from quietfield.structures import chain
from quietfield.study.simulation import simulate

ODD = [
    "'; DROP TABLE x; --",
    '"quoted"',
    "<script>alert(1)</script>",
    "new\nline",
    "é🙂",
    "\x1b[31m",
    "{0}",
    "a,b",
    "../../etc",
]


def promised(*, scale=Fraction(3), epsilon=Fraction(1), total=True, names=("a", "b", "c"), **changes) -> Release:
    """A release as the curator makes it: two pair tables and a total."""
    domain = Domain(dict.fromkeys(names, 2))
    structure = chain(domain)
    rng = np.random.default_rng(0)
    one, step = Fraction(1), Fraction(1)
    parts = tuple(
        Table((clique,), rng.integers(-50, 50, (2, 2)), Laplace(scale, step), one, one) for clique in structure.cliques
    )
    count = Total(12, Laplace(scale, step), one) if total else None
    sensitivity = Fraction(len(parts) + total)
    claim = Promise(
        epsilon, None, None, sensitivity, sensitivity, {"kind": "rows", "rows": 1}, "any one row", "add_remove"
    )
    fields = {
        "notes": ("a note",),
        "id": "r1",
        "created": "2024-01-01T00:00:00Z",
        "package": "0",
        "ledger": Payment("l1", 1, "ab"),
        **changes,
    }
    return Release(domain, structure, parts, count, 1, claim, **fields)


def same(a: Release, b: Release) -> bool:
    return manifests.to_json(a) == manifests.to_json(b) and all(
        np.array_equal(x.values, y.values) and x.values.dtype == y.values.dtype
        for x, y in zip(a.parts, b.parts, strict=True)
    )


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def elsewhere(draw):
    attributes = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    domain = Domain(
        {a: draw(st.integers(1, 3) | st.lists(names, min_size=1, max_size=3, unique=True)) for a in attributes}
    )
    sets = st.sets(st.sampled_from(attributes), min_size=1, max_size=3)
    cliques = draw(st.lists(sets.map(lambda s: tuple(sorted(s))),
                            min_size=1, max_size=4, unique=True))  # fmt: skip
    number = st.floats(-1e9, 1e9)
    tables = {c: np.array(draw(st.lists(number, min_size=domain.cells(c), max_size=domain.cells(c)))).reshape(
        domain.table_shape(c)) for c in cliques}  # fmt: skip
    noise = {c: draw(st.sampled_from([Laplace(0.3), Gaussian(7), Laplace(Fraction(1, 3))])) for c in cliques}
    total = draw(st.none() | number)
    noises = [Laplace(2.0)] if total and total < 0 else [None, Laplace(2.0)]  # a public total is not negative
    return Release.from_tables(domain, tables, noise, total, draw(st.sampled_from(noises)) if total else None)


@settings(max_examples=60)
@given(elsewhere(), st.booleans())
def test_round_trip_whatever_the_names(tmp_path_factory, release, signed):
    folder = tmp_path_factory.mktemp("r")
    key = keys.create_keys(folder / "k.pem")[0] if signed else None
    release.save(folder / "x.qfr", key)
    again = Release.load(folder / "x.qfr")
    assert same(release, again)
    assert again.signed is signed
    assert repr(again).count("\n") <= 12
    assert all(c.isprintable() or c == "\n" for c in repr(again))
    for clique in release.tables:
        back = tuple(reversed(clique))
        assert np.array_equal(again.tables[back], release.tables[clique].transpose())


def test_what_a_release_holds(tmp_path):
    release = promised()
    release.save(tmp_path / "x.qfr")
    again = Release.load(tmp_path / "x.qfr")
    assert same(release, again)
    assert (again.epsilon, again.delta, again.neighbours, again.total) == (1.0, None, "add_remove", 12.0)
    assert again.unit == {"kind": "rows", "rows": 1}
    assert again.noise["a", "b"].exact == 3
    assert not again.signed
    assert "signed    no" in repr(again)
    assert again.tables["a", "b"].dtype == np.float64
    with pytest.raises(Error, match="no table"):
        again.tables["a", "c"]
    with pytest.raises(ValueError, match="read-only"):
        again.parts[0].values[0, 0] = 1


def test_equal_releases_give_equal_bytes(tmp_path):
    promised().save(tmp_path / "a.qfr")
    promised().save(tmp_path / "b.qfr")
    assert (tmp_path / "a.qfr").read_bytes() == (tmp_path / "b.qfr").read_bytes()


def test_tied_cliques_share_a_table():
    domain = Domain({"a": 2, "b": 2, "c": 2})
    release = Release.from_tables(
        domain, {("a", "b"): np.arange(4).reshape(2, 2)}, Laplace(1.0), ties=[[("a", "b"), ("b", "c")]]
    )
    assert np.array_equal(release.tables["b", "c"], release.tables["a", "b"])
    assert list(release.tables) == [("a", "b")]
    with pytest.raises(Error, match="first clique"):
        Release.from_tables(domain, {("b", "c"): np.zeros((2, 2))}, Laplace(1.0), ties=[[("a", "b"), ("b", "c")]])


@pytest.mark.parametrize(("tables", "extra", "why"), [
    ({("a", "b"): [[1, 2], [3, np.nan]]}, {}, "finite"), ({("a", "b"): [[1, 2], [3, np.inf]]}, {}, "finite"),
    ({("a", "b"): [[1, 2, 3], [3, 4, 5]]}, {}, "shape"), ({("a", "z"): [[1, 2], [3, 4]]}, {}, "not an attribute"),
    ({("a", "b"): "no"}, {}, "not an array"), ({}, {}, "at least one"), ([1], {}, "map cliques"),
    ({("a", "b"): [[1, 2], [3, 4]]}, {"noise": 3.0}, "noise must be"),
    ({("a", "b"): [[1, 2], [3, 4]]}, {"noise": {"a": Laplace(1)}}, "no noise is given"),
    ({"a": [1, 2]}, {"noise": {"a": Laplace(1), "b": Laplace(1)}}, "have no table"),
    ({"a": [1, 2]}, {"total": np.nan}, "finite"), ({"a": [1, 2]}, {"total_noise": Laplace(1)}, "without a total"),
    ({"a": [1, 2j]}, {}, "not an array of numbers"), ({"a": [1, 2]}, {"total": -5}, "0 or more, not -5"),
])  # fmt: skip
def test_bad_tables_are_refused(tables, extra, why):
    with pytest.raises(Error, match=why):
        Release.from_tables(Domain({"a": 2, "b": 2}), tables, **{"noise": Laplace(1.0), **extra})


def test_html_and_text_escape_names():
    release = promised(names=tuple(ODD[:3]), notes=tuple(ODD))
    html = release._repr_html_()
    assert "<script>" not in html
    assert "\x1b" not in html + repr(release)
    assert len(repr(release).splitlines()) == 7 + len(ODD)


# Promises


def test_a_promise_that_holds_is_found_to_hold():
    assert "epsilon 1" in promised().check_promise()[0]
    with pytest.raises(Error, match="no promise"):
        Release.from_tables(Domain({"a": 2}), {"a": [1, 2]}, Laplace(1.0)).check_promise()


@pytest.mark.parametrize("changes", [
    {"scale": Fraction(2)}, {"scale": 3 - Fraction(1, 10**30)}, {"epsilon": 1 - Fraction(1, 10**30)},
])  # fmt: skip
def test_a_promise_that_is_off_by_a_hair_is_refused(changes):
    with pytest.raises(FileError, match="does not hold"):
        promised(**changes).check_promise()


def test_an_exact_total_is_no_promise():
    release = promised()
    broken = Release(**{**release.__dict__, "total_part": Total(12, None)})
    with pytest.raises(FileError, match="exact total"):
        broken.check_promise()


def test_a_promise_on_a_false_sensitivity_is_refused():
    """A quarter of the sensitivity and a quarter of the epsilon: consistent in itself, and false."""
    true = promised()
    parts = tuple(replace(part, l1=part.l1 / 4, l2_squared=part.l2_squared / 16) for part in true.parts)
    total = replace(true.total_part, l1=true.total_part.l1 / 4)
    quarter = {"epsilon": Fraction(1, 4), "l1": true.promise.l1 / 4, "l2_squared": true.promise.l2_squared / 16}
    false = replace(true, parts=parts, total_part=total, promise=replace(true.promise, **quarter))
    with pytest.raises(FileError, match="sensitivity stated is not"):
        false.check_promise()
    for change in ({"protects": "everyone"}, {"unit": {"kind": "rows", "rows": 2}}, {"l1": Fraction(2)}):
        with pytest.raises(FileError, match="sensitivity stated is not"):
            replace(true, promise=replace(true.promise, **change)).check_promise()


# Broken files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    private, public = keys.create_keys(folder / "curator.pem")
    promised().save(folder / "plain.qfr")
    promised().save(folder / "signed.qfr", private)
    return folder, private, public


@pytest.mark.parametrize("name", ["plain.qfr", "signed.qfr"])
def test_truncated_at_every_length(saved, tmp_path, name):
    whole = (saved[0] / name).read_bytes()
    path = tmp_path / "cut.qfr"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError):
            Release.load(path)


@pytest.mark.parametrize("name", ["plain.qfr", "signed.qfr"])
def test_every_flipped_bit_is_noticed(saved, tmp_path, name):
    whole = (saved[0] / name).read_bytes()
    path = tmp_path / "flipped.qfr"
    for place in range(len(whole)):
        for bit in (0x01, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            with pytest.raises(FileError):
                Release.load(path)


def commented(whole):
    data = io.BytesIO(whole)
    with zipfile.ZipFile(data, "a") as archive:
        archive.comment = b"the true total is 12"
    return data.getvalue()


def rezipped(whole, how=zipfile.ZIP_STORED, **fields):
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(data, "w") as new:
        for name in old.namelist():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            for field, value in fields.items():
                setattr(info, field, value)
            new.writestr(info, old.read(name), how)
    return data.getvalue()


@pytest.mark.parametrize("change", [
    commented, lambda whole: b"MZ evil" + whole, lambda whole: whole + b"tail",
    lambda whole: rezipped(whole, comment=b"hidden"), lambda whole: rezipped(whole, extra=b"QF\x02\x00hi"),
    lambda whole: rezipped(whole, date_time=(1999, 1, 1, 0, 0, 0)),
    lambda whole: rezipped(whole, zipfile.ZIP_DEFLATED),
])  # fmt: skip
def test_bytes_outside_of_the_signature_are_refused(saved, tmp_path, change):
    folder, _, public = saved
    whole = (folder / "signed.qfr").read_bytes()
    (tmp_path / "x.qfr").write_bytes(rezipped(whole))  # as written: what the changes below start from
    assert Release.load(tmp_path / "x.qfr", trust=public).signed
    (tmp_path / "x.qfr").write_bytes(change(whole))
    with pytest.raises(FileError):
        Release.load(tmp_path / "x.qfr", trust=public)


def test_spare_bits_of_a_signature_hold_nothing(saved, tmp_path):
    with zipfile.ZipFile(saved[0] / "signed.qfr") as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    signature = json.loads(members["signature.json"])
    assert signature["signature"].endswith("==")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = letters[letters.index(signature["signature"][-3]) ^ 1]  # one of the four bits that base64 leaves over
    for text in (
        canonical_json({**signature, "signature": signature["signature"][:-3] + other + "=="}),
        members["signature.json"] + b" ",
    ):
        write_archive(tmp_path / "x.qfr", {**members, "signature.json": text})
        with pytest.raises(FileError, match="signature"):
            Release.load(tmp_path / "x.qfr")


def test_only_a_quietfield_file_is_replaced(tmp_path):
    for name, content in [("d.csv", b"a,b\n1,2\n"), ("empty", b""), ("other.zip", rezipped(_zip(b"{}")))]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match="not replaced"):
            promised().save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    promised().save(tmp_path / "x.qfr")
    promised(id="r2").save(tmp_path / "x.qfr")
    assert Release.load(tmp_path / "x.qfr").id == "r2"


def _zip(manifest):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(MANIFEST, manifest)
    return data.getvalue()


def rewritten(source, path, change, *, keep_signature=True, tables=None):
    """The same archive with a changed manifest, its digest right, as an attacker who knows the format would do it."""
    with zipfile.ZipFile(source) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    manifest = json.loads(members[MANIFEST])
    change(manifest)
    manifest.pop("sha256")
    if tables is not None:
        content = {k: v for k, v in manifest.items() if k not in ("kind", "version")}
        members[MANIFEST], members[TABLES] = pack("release", 1, content, tables)
    else:
        digest = hashlib.sha256(canonical_json(manifest) + members[TABLES]).hexdigest()
        members[MANIFEST] = canonical_json({**manifest, "sha256": digest})
    if not keep_signature:
        members.pop("signature.json", None)
    write_archive(path, members)
    return path


def put(*path_and_value):
    *path, value = path_and_value

    def change(manifest):
        for step in path[:-1]:
            manifest = manifest[step]
        if value is KeyError:
            del manifest[path[-1]]
        else:
            manifest[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("version", 2),
        put("kind", "model"),
        put("tables", 0, "noise", "scale", "-3"),
        put("tables", 0, "noise", "scale", "0"),
        put("tables", 0, "noise", "kind", "cauchy"),
        put("tables", 0, "l1", "x"),
        put("tables", 0, "l1", "1/0"),
        put("tables", []),
        put("tables", KeyError),
        put("cliques", [["a", "b"]]),
        put("cliques", [["a", "b"], ["b", "z"]]),
        put("cliques", 3),
        put("domain", {"a": 2, "b": 3, "c": 2}),
        put("domain", KeyError),
        put("domain", {"a": 10**12, "b": 2, "c": 2}),
        put("domain", "attributes", 0, "size", 10**12),
        put("domain", "attributes", 0, "size", "2"),
        put("domain", "impossible", [{"a": 0, "q": 1}]),
        put("domain", []),
        put("denominator", 0),
        put("denominator", True),
        put("denominator", 10**30),
        put("total", "value", "x"),
        put("total", "public", True),
        put("total", {}),
        put("notes", [3]),
        put("privacy", "epsilon", None),
        put("privacy", "epsilon", "-1"),
        put("privacy", "epsilon", "9" * 5000),
        put("privacy", "delta", "2"),
        put("privacy", "neighbours", "none"),
        put("privacy", "unit", 3),
        put("id", 3),
        put("tables", 0, "l1", None),
        put("tables", 0, "excluded", [5, 5]),
        put("tables", 0, "excluded", ["x"]),
        put("ties", [[["a", "b"], ["b", "c"]]]),
        put("privacy", []),
        put("total", "value", 10**400),
        # Hidden content and second spellings.
        put("exact_count", 12),
        put("privacy", "true_total", 12),
        put("tables", 0, "true", [1, 2]),
        put("tables", 0, "noise", "seed", "7"),
        put("tables", 0, "excluded", [False, False]),
        put("total", "exact", 12),
        put("privacy", "unit", {"kind": "rows", "rows": 1, "true": 12}),
        put("privacy", "unit", {"kind": "rows"}),
        put("privacy", "unit", {"kind": "rows", "rows": True}),
        put("privacy", "unit", "kind", "week"),
        put("ledger", "spent", "1"),
        put("ledger", "number", True),
        put("ledger", "l1"),
        put("domain", "attributes", 0, "true", 12),
        put("domain", "comment", "x"),
        put("domain", "attributes", 0, {"name": "a", "labels": [0, 1]}),
        put("domain", {"a": 2, "b": 2, "c": 2}),
        put("total", "value", 12.0),
        put("total", "value", 12.25),
        put("denominator", 1.0),
        put("privacy", "rho", "1/2"),
        put("privacy", "delta", "1/1000"),
        put("privacy", "epsilon", "\u0661"),
        put("privacy", "epsilon", "01"),
        put("privacy", "epsilon", "2/2"),
        put("privacy", "epsilon", "1e0"),
        put("privacy", "epsilon", "1" + 900 * "0"),
        put("privacy", "epsilon", "1/1" + 900 * "0"),
        put("privacy", "l1", "1e99999999"),
        put("tables", 0, "noise", "scale", "1e99999999"),
        put("tables", 0, "noise", "scale", "3.0"),
        put("tables", 0, "noise", "scale", "9" * 900),
        put("tables", 0, "noise", "step", "1e-99999999"),
        put("total", "noise", "scale", "1e99999999"),
        # Paper mode is said by both the note and the neighbours, or by neither.
        put("notes", [PAPER_NOTE]),
        put("privacy", "neighbours", "paper"),
    ],
)
def test_manifests_that_make_no_sense_are_refused(saved, tmp_path, change):
    with pytest.raises(FileError, match=r"bad\.qfr"):
        Release.load(rewritten(saved[0] / "plain.qfr", tmp_path / "bad.qfr", change))


@pytest.mark.parametrize("place", [("tables", 0, "noise", "scale"), ("total", "noise", "step"), ("privacy", "epsilon")])
@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "1" + 99999 * "0"])
def test_a_short_text_takes_no_long_time(saved, tmp_path, place, text):
    bad = rewritten(saved[0] / "plain.qfr", tmp_path / "bad.qfr", put(*place, text))
    start = time.process_time()
    with pytest.raises(FileError):
        Release.load(bad)
    assert time.process_time() - start < 10  # it took 40 seconds


def test_numbers_beyond_a_float_are_shown():
    assert accounting.format_number(Fraction(10**900)) == "1.00000e+900"
    assert accounting.format_number(Fraction(1, 10**900)) == "1.00000e-900"
    assert accounting.format_number(Fraction(1, 3)) == "0.333333"


@pytest.mark.parametrize("tables", [
    [np.zeros((2, 2), np.int64)], [np.zeros((2, 2), np.int64), np.zeros((2, 3), np.int64)],
    [np.zeros((2, 2), np.float64)] * 2, [np.zeros((2, 2), np.int32)] * 2, [np.full((2, 2), np.nan)] * 2,
    [np.zeros((2, 2), np.int64)] * 3,
])  # fmt: skip
def test_tables_that_do_not_fit_are_refused(saved, tmp_path, tables):
    with pytest.raises(FileError):
        Release.load(rewritten(saved[0] / "plain.qfr", tmp_path / "bad.qfr", lambda m: None, tables=tables))


def test_text_in_the_header_of_the_tables_is_refused(saved, tmp_path):
    from safetensors.numpy import save

    def hidden(metadata, names):
        with zipfile.ZipFile(saved[0] / "plain.qfr") as archive:
            manifest = json.loads(archive.read(MANIFEST))
        blob = save({name: np.zeros((2, 2), np.int64) for name in names}, metadata)
        manifest.pop("sha256")
        digest = hashlib.sha256(canonical_json(manifest) + blob).hexdigest()
        write_archive(tmp_path / "x.qfr", {MANIFEST: canonical_json({**manifest, "sha256": digest}), TABLES: blob})
        return Release.load(tmp_path / "x.qfr")

    assert hidden(None, ["000000", "000001"]).total == 12
    for metadata, names in [({"true": "12"}, ["000000", "000001"]), (None, ["000000", "000001 true 12"])]:
        with pytest.raises(FileError, match="besides its tables"):
            hidden(metadata, names)


def test_a_manifest_in_another_spelling_is_refused(saved, tmp_path):
    with zipfile.ZipFile(saved[0] / "plain.qfr") as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    write_archive(tmp_path / "x.qfr", {**members, MANIFEST: members[MANIFEST].replace(b'"id":', b'"id": ')})
    with pytest.raises(FileError, match="canonical"):
        Release.load(tmp_path / "x.qfr")


def test_zip_bombs_and_foreign_members_are_refused(saved, tmp_path):
    path = tmp_path / "bomb.qfr"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(TABLES, "w") as member:
        for _ in range(200):
            member.write(bytes(2**20))
    assert path.stat().st_size < 2**19
    with pytest.raises(FileError, match="compressed"):
        Release.load(path)
    whole = (saved[0] / "plain.qfr").read_bytes()
    data = io.BytesIO(whole)
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("../../evil", "x")
    path.write_bytes(data.getvalue())
    with pytest.raises(FileError, match="unexpected part"):
        Release.load(path)
    for content in (b"", b"PK", b"not a zip" * 100):
        path.write_bytes(content)
        with pytest.raises(FileError):
            Release.load(path)
    with pytest.raises(FileError, match="cannot read"):
        Release.load(tmp_path / "none.qfr")


def test_large_plain_tables_load(tmp_path):
    domain = Domain({"a": 3000, "b": 3000})
    Release.from_tables(domain, {("a", "b"): np.zeros((3000, 3000))}, Laplace(1.0)).save(tmp_path / "zeros.qfr")
    assert Release.load(tmp_path / "zeros.qfr").tables["a", "b"].sum() == 0


# Signatures


def test_signatures(saved, tmp_path):
    folder, private, public = saved
    assert private.stat().st_mode & 0o777 == 0o600
    assert Release.load(folder / "signed.qfr", trust=public).signed
    assert Release.load(folder / "signed.qfr").signer == public_keys.fingerprint(public_keys.load_public(public))
    with pytest.raises(FileError, match="not signed"):
        Release.load(folder / "plain.qfr", trust=public)
    _, other = keys.create_keys(tmp_path / "other.pem")
    with pytest.raises(FileError, match="another key"):
        Release.load(folder / "signed.qfr", trust=other)
    assert Release.load(folder / "signed.qfr", trust=[other, public]).signed


def test_a_changed_manifest_breaks_the_signature(saved, tmp_path):
    bad = rewritten(saved[0] / "signed.qfr", tmp_path / "bad.qfr", put("privacy", "epsilon", "1/100"))
    with pytest.raises(FileError, match="signature does not match"):
        Release.load(bad)
    stripped = rewritten(saved[0] / "signed.qfr", tmp_path / "bad.qfr", lambda m: None, keep_signature=False)
    assert not Release.load(stripped).signed
    with pytest.raises(FileError, match="not signed"):
        Release.load(stripped, trust=saved[2])


def test_keys_are_never_overwritten_and_wrong_keys_are_refused(saved, tmp_path):
    _, private, public = saved
    with pytest.raises(FileError, match="exists"):
        keys.create_keys(private)
    with pytest.raises(FileError, match="not an Ed25519 private key"):
        keys.load_private(public)
    with pytest.raises(FileError, match=r"give the \.pub\.pem"):
        public_keys.load_public(private)
    (tmp_path / "junk.pem").write_bytes(b"junk")
    with pytest.raises(FileError, match="not an Ed25519"):
        promised().save(tmp_path / "x.qfr", tmp_path / "junk.pem")
    assert not (tmp_path / "x.qfr").exists()


def test_structure_must_match_in_order():
    release = promised()
    with pytest.raises(FileError, match="is missing"):
        Release(release.domain, release.structure, release.parts[:1])
    with pytest.raises(FileError, match="fit together"):
        Release(release.domain, Structure(release.structure.cliques[:1]), release.parts)


def test_keys_are_whole_or_absent(tmp_path, monkeypatch):
    from quietfield.releases import keys

    with pytest.raises(FileError, match="is a folder"):
        keys.create_keys(tmp_path)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileError, match="No space left"):
        keys.create_keys(tmp_path / "k.pem")
    assert list(tmp_path.iterdir()) == []


def test_saving_does_not_take_a_signature_off(tmp_path):
    private, public = keys.create_keys(tmp_path / "key")
    path = tmp_path / "signed.qfr"
    simulate("chain", attributes=3, states=2).release.save(path, key=private)
    before = path.read_bytes()
    loaded = Release.load(path, trust=public)
    with pytest.raises(Error, match=r"copy the file as it is, sign again with key=\.\.\., or say release"):
        loaded.save(path)
    assert path.read_bytes() == before
    loaded.save(path, key=private)
    assert Release.load(path, trust=public).signed
    loaded.with_signer(None).save(path)
    assert not Release.load(path).signed


def test_a_total_is_shown_with_all_its_digits():
    made = simulate("chain", attributes=3, states=2, records=3_000_031).release
    assert "total     3,000,031 (public)" in repr(made)
