"""The reports in a real browser: nothing overflows or is covered, nothing is logged, nothing leaves the page, and each
printed sheet of the confidential one says what it is."""

import io
import json
import os
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield.text import text_width
from tests.report.examples import SCRIPTS, hostile, large, pair, scripts

pytestmark = pytest.mark.browser

WIDTHS = (360, 820, 1280)
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage",
]  # fmt: skip

# Elements that stick out of the page, other than inside something that scrolls.
STICKS_OUT = """
const wide = document.documentElement.clientWidth;
const scrolls = e => { for (let p = e.parentElement; p; p = p.parentElement)
  if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true; return false; };
return [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  return box.width > 1 && (box.right > wide + 1 || box.left < -1) && !scrolls(e) && !e.closest('.skip, .hidden, svg')
    && style.display !== 'none';
}).slice(0, 5).map(e => e.outerHTML.slice(0, 200));
"""
# Text whose box is cut off or that lies on other text of the same table row.
OVERLAPS = """
const found = [];
for (const row of document.querySelectorAll('tr')) {
  const boxes = [...row.children].map(c => { const r = document.createRange(); r.selectNodeContents(c);
    return [c, r.getBoundingClientRect()]; }).filter(([c, b]) => b.width > 1 && !c.querySelector('.hidden'));
  for (let i = 1; i < boxes.length; i++)
    if (boxes[i - 1][1].right > boxes[i][1].left + 1.5 && boxes[i - 1][1].left < boxes[i][1].left)
      found.push(row.innerText.slice(0, 100));
}
return found.slice(0, 5);
"""
# Names that are squeezed into a column of single letters.
SQUEEZED = """
return [...document.querySelectorAll('bdi, th, td, caption, figcaption')].filter(e => {
  if (e.children.length || e.innerText.length < 3) return false;
  const r = document.createRange(); r.selectNodeContents(e);
  const lines = new Set([...r.getClientRects()].map(b => Math.round(b.top)));
  return lines.size > 1 && e.innerText.length / lines.size < 4;
}).slice(0, 5).map(e => e.innerText);
"""
# Text that does not stand out from what is behind it, by the rule of 4.5.
FAINT = """
const numbers = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = e => { for (let p = e; p; p = p.parentElement) { const c = numbers(getComputedStyle(p).backgroundColor);
  if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
return [...document.querySelectorAll('body *')].filter(e => {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('.hidden, .watermark, svg'))
    return false;
  const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05) < 4.5;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 200));
"""
# Scrollable places that the keyboard cannot reach.
UNREACHABLE = """
return [...document.querySelectorAll('body *')].filter(e => e.scrollWidth > e.clientWidth + 1 &&
  ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 200));
"""


# Names in the graph that stick out of it, or lie on each other.
GRAPH = """
const found = [];
for (const graph of document.querySelectorAll('svg.graph')) {
  const box = graph.getBoundingClientRect();
  const names = [...graph.querySelectorAll('.names text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, b] of names) if (b.left < box.left - 1 || b.right > box.right + 1) found.push(text);
  names.forEach(([text, a], i) => names.slice(0, i).forEach(([other, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
      found.push(text + ' on ' + other); }));
}
return found.slice(0, 5);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium or no chromedriver on this machine; .ci/run installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


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
