"""The reports in a real browser: nothing overflows or is covered, nothing is logged, nothing leaves the page, and each
printed sheet of the confidential one says what it is."""

import io
import json
import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield.drawing.columns import text_width
from tests.browser.layout import FAINT, GRAPH, OVERLAPS, SQUEEZED, STICKS_OUT, UNREACHABLE, WIDTHS
from tests.report.examples import SCRIPTS, hostile, large, pair, scripts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages to look at."""
    folder = tmp_path_factory.mktemp("pages")
    domain = qf.Domain({"age": ["<18", "18-40", "40-65", "65+"], "smokes": ["no", "yes"], "visits": 4, "region": 12})
    release, _ = pair(domain, [("age", "smokes"), ("smokes", "visits"), ("age", "region")])
    qf.write_report(folder / "learned.html", release, title="A survey")  # with intervals
    qf.write_report(folder / "hostile.html", *hostile(), title="<script>console.error(1)</script> שלום")
    qf.write_report(folder / "large.html", *large())
    qf.write_report(folder / "scripts.html", *scripts(), title="年齢層 و " * 30)
    schema = qf.Schema({f"attribute {i}": [f"label {j}" for j in range(12)] for i in range(24)})
    people = np.random.default_rng(0).integers(0, 12, size=(500, 24))
    structure = qf.structures.chain(schema.domain)
    made = qf.release(people, schema, structure, epsilon=1, unit=qf.Rows(1), ledger=None)
    model = qf.Model(schema.domain, {c: np.zeros((12, 12)) for c in structure})
    qf.write_confidential_report(folder / "confidential.html", people, schema, made, model)
    return {path.stem: path for path in folder.iterdir()}


NAMES = ("learned", "hostile", "large", "scripts", "confidential")


def visit(browser: Any, page: Path, width: int, scheme: str = "light") -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get(page.as_uri())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_it_renders_at_every_width(browser: Any, pages: dict[str, Path], name: str, width: int, tmp_path: Path) -> None:
    browser.get_log("performance")  # what earlier pages asked for
    visit(browser, pages[name], width)
    wide, high = browser.execute_script(
        "const e = document.documentElement, b = document.body;"
        "return [Math.max(e.scrollWidth, b.scrollWidth), e.scrollHeight]"
    )
    assert wide <= width
    assert high > 900
    assert browser.execute_script(STICKS_OUT) == []
    assert browser.execute_script(OVERLAPS) == []
    assert browser.execute_script(SQUEEZED) == []
    assert browser.execute_script(UNREACHABLE) == []
    assert browser.execute_script(GRAPH) == []
    assert browser.execute_script("return document.querySelector('main').innerText.length") > 300
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} == {pages[name].as_uri()}
    folder = Path(os.environ.get("QUIETFIELD_SCREENSHOTS") or tmp_path)
    clip = {"x": 0, "y": 0, "width": width, "height": min(high, 8000), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture = folder / f"{name}-{width}.png"
    picture.write_bytes(b64decode(shot["data"]))
    assert picture.stat().st_size > 20_000  # not an empty sheet


def test_what_the_checks_look_for_would_be_seen(browser: Any, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        "<!doctype html><meta charset=utf-8><body style='margin:0'><div style='width:2000px'>wide</div>"
        "<div style='overflow-x:auto;width:100px'><p style='width:300px'>unreachable</p></div>"
        "<p style='color:#777;background:#888'>faint</p>"
        "<table style='table-layout:fixed;width:80px'><tr><td style='white-space:nowrap'>very long text</td>"
        "<td>other</td></tr></table><bdi style='display:block;width:1ch;overflow-wrap:anywhere'>letters</bdi><img src='http://127.0.0.1:9/x.png'><script>console.error('heard')</script>"
    )
    browser.get_log("performance")
    browser.get_log("browser")
    visit(browser, wrong, 360)
    assert browser.execute_script("return document.documentElement.scrollWidth") > 360
    assert len(browser.execute_script(STICKS_OUT)) >= 1
    assert len(browser.execute_script(OVERLAPS)) == 1
    assert browser.execute_script(SQUEEZED) == ["letters"]
    assert len(browser.execute_script(FAINT)) == 1
    # Chromium lets the keyboard scroll what holds nothing focusable, but other browsers do not: tabindex is asked for.
    assert len(browser.execute_script(UNREACHABLE)) == 1
    assert any("heard" in entry["message"] for entry in browser.get_log("browser"))
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert "http://127.0.0.1:9/x.png" in asked


def test_names_of_any_script_are_there_letter_by_letter(browser: Any, pages: dict[str, Path]) -> None:
    """In the legend whole; elsewhere whole, or cut between letters with the whole as a tooltip; each isolated."""
    visit(browser, pages["scripts"], 820)
    legend = browser.execute_script("return [...document.querySelectorAll('.legend bdi')].map(e => e.textContent)")
    assert legend == list(SCRIPTS)
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.shares tbody th bdi')].map(e => [e.textContent, e.title, "
        "getComputedStyle(e).unicodeBidi])"
    )
    every = [label for listed in SCRIPTS.values() for label in listed]
    assert len(labels) == len(every)
    for (text, title, bidi), label in zip(labels, every, strict=True):
        assert bidi == "isolate"
        assert (title or text) == label
        assert text == label or (text.endswith("…") and label.startswith(text[:-1]) and text_width(text) <= 48)
    segments = browser.execute_script(
        "const s = new Intl.Segmenter('en', {granularity: 'grapheme'});"
        "return arguments[0].map(t => [...s.segment(t)].map(x => x.segment))",
        every,
    )
    for (text, title, _), graphemes in zip(labels, segments, strict=True):
        if title:  # what is left is whole letters, as the browser sees them
            assert text[:-1] in {"".join(graphemes[:i]) for i in range(len(graphemes))}


def test_dark_mode_is_dark_and_print_is_not(browser: Any, pages: dict[str, Path]) -> None:
    def back() -> list[int]:
        colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]

    visit(browser, pages["learned"], 820, "dark")
    assert max(back()) < 60
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert back() == [255, 255, 255]
    visit(browser, pages["learned"], 820, "light")
    assert min(back()) > 240


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_every_text_stands_out(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    visit(browser, pages[name], 1280, scheme)
    assert browser.execute_script(FAINT) == []


def test_the_keyboard_reaches_links_and_what_scrolls(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    visit(browser, pages["learned"], 360)
    left = "return document.querySelector('.skip').getBoundingClientRect().left"
    assert browser.execute_script(left) < 0
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.execute_script(left) >= 0  # it shows itself when it is reached
    reached = [browser.execute_script("return document.activeElement.className")]
    for _ in range(60):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.append(browser.execute_script("const e = document.activeElement; return e.className || e.tagName"))
    assert reached[0] == "skip"
    count = browser.execute_script("return document.querySelectorAll('.scroll').length")
    assert reached.count("scroll") >= count > 2


def test_many_attributes_are_found_and_unfolded(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    seen = """return [...document.querySelectorAll('#attributes details[data-find]')].filter(e => e.checkVisibility())
        .map(e => e.dataset.find.trim())"""
    visit(browser, pages["large"], 360)
    assert len(browser.execute_script(seen)) == 100
    field = browser.find_element(By.CSS_SELECTOR, ".find input")
    field.send_keys("Attribute 41")
    assert browser.execute_script(seen) == ["attribute 41"]
    assert browser.find_element(By.CSS_SELECTOR, ".find output").text.endswith(" entries")
    rows = browser.execute_script(
        "return [...document.querySelectorAll('tr[data-find]')].filter(e => e.checkVisibility()).map(e => e.innerText)"
    )
    assert rows  # also those of folded lists, which open
    assert all("attribute 41" in row for row in rows)
    table = browser.find_element(By.CSS_SELECTOR, "#attribute-42 table")
    assert not table.is_displayed()
    browser.find_element(By.CSS_SELECTOR, "#attribute-42 summary").send_keys(Keys.ENTER)  # the keyboard reaches it too
    assert table.is_displayed()
    assert browser.execute_script(STICKS_OUT) == []
    field.clear()
    field.send_keys("no such name")
    assert browser.execute_script(seen) == []
    field.clear()
    field.send_keys(" ")
    assert len(browser.execute_script(seen)) == 100


def test_everything_is_there_without_scripts_and_when_unfolded(browser: Any, pages: dict[str, Path]) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        visit(browser, pages["large"], 360)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.execute_script("return document.querySelector('.find').checkVisibility()") is False
    browser.execute_script("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    for check in (STICKS_OUT, OVERLAPS, SQUEEZED, UNREACHABLE, FAINT):
        assert browser.execute_script(check) == []
    tables = browser.execute_script(
        "return [...document.querySelectorAll('.multiples > details > table')].filter(e => e.checkVisibility()).length"
    )
    assert tables == 100


@pytest.mark.parametrize("name", NAMES)
def test_print(browser: Any, pages: dict[str, Path], name: str) -> None:
    pypdf = pytest.importorskip("pypdf")
    visit(browser, pages[name], 820)
    done = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    sheets = pypdf.PdfReader(io.BytesIO(b64decode(done["data"]))).pages
    texts = ["".join(sheet.extract_text().split()) for sheet in sheets]
    assert len(texts) >= 2
    assert all(texts), "an empty sheet"
    marked = ["NOTPRIVATE" in text for text in texts]
    assert all(marked) if name == "confidential" else not any(marked)
    if name == "large":  # values of attributes are on paper, though folded on the screen
        assert sum(text.count("%") for text in texts) > 300
