"""The report: what it says is right, nothing in it runs or loads, names cannot break it, and readers of all kinds can
use it."""

import base64
import hashlib
import re
import struct
import zlib
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import quietfield as qf
from quietfield.models import intervals
from quietfield.output.report import contents, limits, report_html
from quietfield.output.report.associations import cramers_v
from quietfield.output.report.contents import gather
from quietfield.output.report.pages import FOLDER
from quietfield.output.report.plots import pixels
from quietfield.text import printable
from tests.report.examples import HOSTILE, hostile, large, pair, survey
from tests.report.reading import Element, read

LOADS = re.compile(r"""(?:src|srcset|data|poster|action)\s*=\s*["']?(?!data:image/png;base64,)|@import|url\(""", re.I)


@pytest.fixture(scope="module")
def small():
    domain = qf.Domain({"age": ["young", "old"], "smokes": ["no", "yes"], "visits": 4, "unseen": 2})
    return pair(domain, [("age", "smokes"), ("smokes", "visits")])


def digest(script: Element) -> str:
    return base64.b64encode(hashlib.sha256(script.children[0].pieces[0].encode()).digest()).decode()


@cache
def written(make) -> str:
    """The report on an example, made once."""
    return report_html(*make())


@pytest.fixture(scope="module")
def page(small) -> Element:
    return read(report_html(*small, title="A title"))


@pytest.fixture(scope="module")
def hostile_page() -> Element:
    return read(report_html(*hostile(), title="</title><script>'\"&"))


def test_it_says_what_the_model_says(small, page):
    _, model = small
    table = next(t for t in page.classed("shares") if t.all("caption")[0].text == "visits")
    found = [(row.all("th")[0].text, row.all("td")[1].text) for row in table.all("tbody")[0].all("tr")]
    assert found == [(str(i), f"{p:.1%}") for i, p in enumerate(model.marginal("visits"))]
    heat = page.classed("heat")[0]
    strongest = max(
        [("age", "smokes"), ("smokes", "visits")],
        key=lambda c: cramers_v(model.marginal(c)),
    )
    p = model.marginal(strongest)
    expected = p / p.sum(1, keepdims=True) / p.sum(0, keepdims=True)
    cells = [[cell.text for cell in row.all("td")] for row in heat.all("tbody")[0].all("tr")]
    assert [[float(c.lstrip("~")) for c in row] for row in cells] == expected.round(1).tolist()
    assert page.all("title")[0].text == "A title"


def test_what_is_not_measured_is_marked(page):
    captions = [table.all("caption")[0].text for table in page.classed("shares")]
    assert [c for c in captions if "not measured" in c] == [c for c in captions if c.startswith("unseen")] != []
    rows = page.classed("list")[0].all("tbody")[0].all("tr")
    basis = {row.all("th")[0].text: row.all("td")[-1].text for row in rows}
    assert basis == {"age and smokes": "measured", "smokes and visits": "measured", "age and visits": "inferred"}


def test_cells_that_are_only_noise_are_marked():
    domain = qf.Domain({"a": 2, "b": 3})
    tables = {("a", "b"): [[900.0, 40.0, 12.0], [-30.0, 800.0, 300.0]]}  # told from 0 above 1.645 * 14.1 = 23.3
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(10.0), total=2000)
    model = qf.Model(domain, {("a", "b"): np.log([[900.0, 40.0, 12.0], [5.0, 800.0, 300.0]])})
    page = read(report_html(release, model))
    rows = page.classed("heat")[0].all("tbody")[0].all("tr")
    marks = [["~" in cell.text for cell in row.all("td")] for row in rows]
    assert marks == [[False, False, True], [True, False, False]]
    assert "2 of 6 published cells are only noise" in page.text


def test_impossible_cells_are_not_numbers(hostile_page):
    cells = [cell for cell in hostile_page.classed("cell") if cell.attributes.get("title") == "declared impossible"]
    assert [cell.text for cell in cells] == ["–"]


def test_a_model_that_explains_the_tables_fits_and_another_does_not(small):
    release, model = small
    content = gather(release, model, "", 0.9, ("a", "b"))
    assert content["fit"]["word"] == "well"
    assert 0.6 < content["fit"]["rms"] < 1.5
    other = qf.Model(model.domain, {c: -table for c, table in model.potentials.items()})
    content = gather(release, other, "", 0.9, ("a", "b"))
    assert content["fit"]["word"] == "not well"
    assert all(table.bad for table in content["fit"]["tables"])


def test_tied_tables_and_left_out_cells_are_compared_as_they_were_counted():
    domain = qf.Domain({"a": 2, "b": 2, "c": 2})
    structure = qf.structures.chain(domain, homogeneous=True)
    model = qf.Model(domain, {c: [0.5, 0.0] if len(c) == 1 else [[1.0, 0.0], [0.0, 0.3]] for c in structure})
    edges = [c for c in structure if len(c) == 2]
    tables = {("a",): 1000 * model.marginal("a"), ("a", "b"): 1000 * sum(model.marginal(c) for c in edges)}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(5.0), total=1000, ties=[edges])
    content = gather(release, model, "", 0.9, ("a", "b"))
    assert content["fit"]["rms"] < 1e-9
    assert "and 1 tied" in read(report_html(release, model)).text


@pytest.mark.parametrize("make", [hostile, large], ids=["hostile", "large"])
def test_nothing_runs_but_the_search_and_nothing_loads(make):
    text = written(make)
    page = read(text)
    policy = [m for m in page.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy"]
    scripts = page.all("script")
    allowed = "".join(f"; script-src 'sha256-{digest(script)}'" for script in scripts)
    assert policy[0].attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:" + allowed
    assert [script.children[0].pieces[0] for script in scripts] == [(FOLDER / "find.js").read_text()] * (make is large)
    assert not any(script.attributes for script in scripts)
    assert not {e.tag for e in page.all()} & {"link", "iframe", "object", "embed", "base", "form", "b onload"}
    assert not [a for e in page.all() for a in e.attributes if a.startswith("on")]
    assert {e.attributes["href"][0] for e in page.all("a")} == {"#"}
    assert all(e.attributes["src"].startswith("data:image/png;base64,") for e in page.all("img"))
    assert not LOADS.findall((FOLDER / "style.css").read_text())
    assert len(text) < 2_000_000


@pytest.mark.parametrize(
    "planted", ['<img src="http://a.example/x.png">', "<style>@import 'x'</style>", "a { b: url(http://x) }"]
)
def test_a_load_would_be_seen(planted):
    assert LOADS.findall(planted)


def test_names_stand_there_whole_and_escaped(hostile_page):
    legend = [item.text for item in hostile_page.classed("legend")[0].all("li")]
    assert [item.rpartition(" ")[0].rpartition(" ")[0] for item in legend] == [printable(name) for name in HOSTILE]
    assert hostile_page.all("h1")[0].text == "</title><script>'\"&"
    text = hostile_page.text
    for label in ("a\"'<b>", "&amp;", "نعم", "二十歳未満", "two\\nlines", "\\u202egnorw"):
        assert label in text
    assert "\u202e" not in text
    for element in hostile_page.all("th") + hostile_page.all("caption"):
        if any(0x590 < ord(c) < 0x2000 or ord(c) > 0x2E80 for c in element.text):
            assert element.all("bdi"), "a name is not isolated from the direction of the line"


def test_it_is_one_text_for_one_release_and_model(small):
    assert report_html(*small) == report_html(*small)


@pytest.mark.parametrize("make", [hostile, large], ids=["hostile", "large"])
def test_it_is_marked_up_for_every_reader(make):
    page = read(written(make))
    (html,) = page.all("html")
    assert html.attributes["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    levels = [int(e.tag[1]) for e in page.all() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), "a level of headings is left out"
    ids = [e.attributes["id"] for e in page.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    wanted = [e.attributes["href"][1:] for e in page.all("a")]
    wanted += [e.attributes["aria-labelledby"] for e in page.all() if "aria-labelledby" in e.attributes]
    assert set(wanted) <= set(ids)
    for table in page.all("table"):
        assert table.all("caption")[0].text
        assert table.all("th")
        assert all(th.attributes.get("scope") in ("row", "col") for th in table.all("th"))
    for svg in page.all("svg"):
        if svg.attributes.get("aria-hidden") != "true":
            assert svg.attributes["role"] == "img"
            assert svg.attributes["aria-label"]
            assert svg.all("title")[0].text
            assert svg.all("desc")[0].text
    assert all(img.attributes["alt"] for img in page.all("img"))
    for region in page.classed("scroll"):
        assert (region.attributes["tabindex"], region.attributes["role"]) == ("0", "region")
        assert region.attributes["aria-label"]


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def palettes() -> dict[str, dict[str, str]]:
    """The colours of the style sheet: light, dark (what it changes on top of light), and print (likewise)."""
    style = (FOLDER / "style.css").read_text()
    blocks = [dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)]
    light, dark, paper = blocks
    return {"light": light, "dark": {**light, **dark}, "print": {**light, **paper}}


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_contrast_is_enough(scheme):
    colours = palettes()[scheme]
    pairs = [("ink", "paper"), ("quiet", "paper"), ("accent", "paper"), ("alert", "alert-back"), ("ink", "panel")]
    pairs += [("light-ink", c) for c in ("cm4", "c3", "c4")]
    pairs += [("dark-ink", c) for c in ("cm3", "cm2", "cm1", "c1", "c2")]
    pairs += [("c0-ink", "c0")]
    low = {(a, b): round(contrast(colours[a], colours[b]), 2) for a, b in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}
    assert contrast("#ffffff", "#1f5f8b") >= 4.5  # the numbers in the nodes of the graph
    assert contrast("#ffffff", "#8f1414") >= 4.5  # the stamp of the private report
    assert contrast("#777777", "#888888") < 4.5


def test_promises_and_their_absence_are_told(small):
    assert "No promise is made" in read(report_html(*small)).text
    schema = qf.Schema({"a": ["x", "y"], "b": ["x", "y"]})
    people = np.random.default_rng(0).integers(0, 2, size=(500, 2))
    model = qf.Model(schema.domain, {("a", "b"): np.zeros((2, 2))})
    release = qf.release(people, schema, [("a", "b")], epsilon="1/2", unit=qf.Rows(1), ledger=None)
    text = read(report_html(release, model)).text
    assert "Any one row." in text
    assert "Epsilon 0.5" in text
    assert "is in the data by at most a factor of 1.65" in text
    assert "values of one of them by at most a factor of 2.72" in text
    assert "may be passed on" in text
    assert "No ledger: nothing adds up" in text
    assert "No promise is made" not in text
    paper = qf.release(people, schema, [("a", "b")], epsilon=1, unit=qf.Rows(1), ledger=None, neighbours="paper")
    said = read(report_html(paper, model)).text
    assert "Paper mode: not a differential privacy guarantee for N" in said
    assert "No promise is made, whatever epsilon is" in said
    assert "may be passed on" not in said
    gaussian = qf.release(
        people, schema, [("a", "b")], epsilon=1, delta=1e-6, noise="gaussian", unit=qf.Rows(1), ledger=None
    )
    said = read(report_html(gaussian, model)).text
    assert "at most 2.72 times that without them plus 1e-06" in said
    assert "at most 8.27 times that with another plus 1e-06" in said


@pytest.fixture(scope="module")
def learned(small, tmp_path_factory) -> tuple[qf.Release, qf.Model]:
    """A release and a model that was learned from it, read back from its file."""
    release, _ = small
    path = tmp_path_factory.mktemp("learned") / "model.qfm"
    qf.fit(release).save(path)
    return release, qf.load(path)


def test_the_confidence_is_the_one_that_was_asked_for(learned):
    for level, said in ((0.9, "are 90%"), (0.996, "are 99.6%")):
        assert said in " ".join(report_html(*learned, level=level).split())


def test_intervals_are_those_of_the_model(learned):
    page = read(report_html(*learned, level=0.8))
    low, high = learned[1].interval("visits", 0.8)
    table = next(t for t in page.classed("shares") if t.all("caption")[0].text == "visits")
    found = [row.all("td")[2].text for row in table.all("tbody")[0].all("tr")]
    assert found == [f"{a:.1%}–{b:.1%}" for a, b in zip(low, high, strict=True)]
    rows = page.classed("list")[0].all("tbody")[0].all("tr")
    assert len(rows) == 3
    for row in rows:
        v = float(row.all("td")[1].text)
        ends = [float(end) for end in row.all("td")[2].text.split("–")]
        assert ends[0] <= v <= ends[1]
    assert "80% intervals" in page.text
    assert "no intervals" not in page.text
    assert "learned by the method map" in page.text


def test_an_attribute_whose_interval_cannot_be_had_says_so(learned, monkeypatch):
    asked = intervals._question

    def refuses(model, query, given):
        if query == ("visits",):
            raise qf.Error("too many combinations")
        return asked(model, query, given)

    monkeypatch.setattr(intervals, "_question", refuses)
    page = read(report_html(*learned))
    tables = {table.all("caption")[0].text: table.text for table in page.classed("shares")}
    assert tables["visits"].count("not known") == 4
    assert "not known" not in tables["age"]


def test_a_model_without_intervals_says_so(page):
    assert "This model has no intervals" in page.text


def test_without_a_model_one_is_learned(learned, tmp_path):
    release, model = learned
    qf.write_report(tmp_path / "report.html", release)
    without = read((tmp_path / "report.html").read_text())
    assert [table.text for table in without.classed("shares")] == [
        table.text for table in read(report_html(release, model)).classed("shares")
    ]


def test_a_model_of_something_else_is_refused(small, tmp_path):
    release, model = small
    other = qf.Model(qf.Domain({"age": ["young", "older"], "smokes": 2, "visits": 4}), {("age",): [0.0, 0.0]})
    with pytest.raises(qf.Error, match="differ in 'age'"):
        qf.write_report(tmp_path / "report.html", release, other)
    with pytest.raises(qf.Error, match="between 0 and 1"):
        qf.write_report(tmp_path / "report.html", release, model, level=90)
    with pytest.raises(qf.Error, match="cannot write"):
        qf.write_report(tmp_path / "no" / "report.html", release, model)
    assert list(tmp_path.iterdir()) == []


def test_heat_maps_of_many_labels_are_pictures_of_the_same_numbers():
    address = pixels(np.array([[8.0, 1.0], [0.1, np.nan]]))
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (2, 2)
    start = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    lines = zlib.decompress(data[start + 4 : start + 4 + length])
    assert lines == bytes([0, 20, 79, 128, 245, 245, 243, 0, 138, 74, 16, 160, 160, 160])


@pytest.fixture(scope="module")
def survey_page() -> Element:
    return read(written(survey))


def test_a_report_on_many_attributes_folds_them_and_stays_small(survey_page):
    _, model = survey()
    assert len(written(survey)) < 1_500_000
    folded = {e.attributes["id"]: e for e in survey_page.all("details") if "id" in e.attributes}
    assert list(folded) == [f"attribute-{i + 1}" for i in range(60)]
    assert [e.attributes["data-find"].strip() for e in folded.values()] == list(model.domain)
    assert not [e for e in survey_page.all("details") if "open" in e.attributes]
    tables = {table.all("caption")[0].text: table for table in survey_page.classed("shares")}
    assert len([caption for caption in tables if "less common" not in caption]) == 60
    # The most common of 300 values are in sight, the others are below them, folded, and nothing is there twice.
    shown = [row.all("th")[0].text for row in tables["q000 <b>"].all("tbody")[0].all("tr")]
    rest = [row.all("th")[0].text for row in tables["q000 <b>: less common values"].all("tbody")[0].all("tr")]
    assert shown[-1] == "277 other values"
    assert [*shown[:-1], *rest] == [str(i) for i in np.argsort(-model.marginal("q000 <b>"), kind="stable")]
    assert "not measured" in folded["attribute-60"].all("summary")[0].text
    (field,) = survey_page.all("input")
    assert field.parent.tag == "label"
    assert field.parent.text.startswith("Find")


def test_a_report_on_many_attributes_has_one_matrix(survey_page):
    _, model = survey()
    (matrix,) = survey_page.classed("matrix")
    squares = [path.attributes["d"].count("M") for path in matrix.all("path")]
    assert sum(squares[:-1]) == 60 * 59 // 2
    assert squares[-1] == len(model.cliques)  # a dot for each pair that a table joins
    assert [text.text for text in matrix.all("text")][::2] == list(model.domain)
    maps = survey_page.classed("maps")[0]
    assert {e.tag for e in maps.children} == {"#text", "details"}
    assert len(maps.all("summary")) >= len(model.cliques)
    huge = next(e for e in maps.children if e.tag == "details" and "q000" in e.attributes["data-find"])
    assert "300 by 50 values are too many to draw. Of 15,000 combinations, these 10 add most" in huge.text
    assert not huge.all("img")
    assert len(huge.all("tbody")[0].all("tr")) == limits.MOST_TELLING


def test_a_report_on_few_attributes_folds_nothing_and_has_no_script(page):
    assert not {e.tag for e in page.all()} & {"details", "script", "input"}
    assert not page.classed("matrix")


def test_all_error_bars_come_from_one_call(monkeypatch):
    domain = qf.Domain({f"x{i}": 3 for i in range(limits.MANY + 1)})
    release, _ = pair(domain, qf.structures.chain(domain))
    asked = []

    def counted(model, questions, level):
        asked.append(len(questions))
        return intervals.intervals(model, questions, level)

    monkeypatch.setattr(contents, "intervals", counted)
    page = read(report_html(release))
    attributes, pairs = len(domain), len(domain) - 1
    assert asked == [attributes + 2 * pairs]  # shares, cells and the strength of each pair
    assert "not known" not in page.text
