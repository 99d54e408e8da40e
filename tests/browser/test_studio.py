"""The studio in a real browser: from a file to a release to the explorer, and whatever may go wrong on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import quietfield as qf
from quietfield.studio.curator import SYNTHESIS
from quietfield.studio.drafts import Draft
from quietfield.studio.jobs import Jobs
from tests.browser.layout import FAINT, OVERLAPS, SQUEEZED, STICKS_OUT, UNREACHABLE, WIDTHS

pytest.importorskip("starlette")
pytestmark = pytest.mark.browser

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
#: Seconds after which something that should come has not come: a limit for what hangs, not a measure.
PATIENCE = 600
SCHEMA = [
    {"column": "age", "name": "age", "use": "yes", "kind": "cuts", "cuts": "18, 40, 65"},
    {"column": "sex", "name": "sex", "use": "yes", "kind": "labels", "labels": "f\nm"},
    {"column": "visits", "name": "visits", "use": "yes", "kind": "labels", "labels": "0, 1, 2, 3, 4"},
]
BLANK = dict.fromkeys(("labels", "cuts", "period", "start", "end", "null", "unknown"), "")


FILL = """
const field = [...main.querySelectorAll(`[name="${arguments[0]}"]`)].find(e => e.checkVisibility());
if (!field) return false;
field.focus();
if (field.type === "checkbox") { if (!field.checked) field.click(); return true; }
field.value = arguments[1];
for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {bubbles: true}));
return true;
"""
PRESS = """
const there = [...main.querySelectorAll("button:enabled, a, summary")];
const found = there.find(e => e.innerText.trim() === arguments[0] && e.checkVisibility());
if (found) setTimeout(() => found.click());
return Boolean(found);
"""


class Server:
    """``quietfield studio`` in a folder, and a browser that has opened it."""

    def __init__(self, folder: Path, browser: Any) -> None:
        self.folder, self.browser = folder, browser
        self.start()

    def start(self) -> None:
        """Start the server, for the first time or again after it has ended."""
        command = [sys.executable, "-m", "quietfield", "studio", str(self.folder), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(3)]
        self.address = lines[1].split()[1]
        self.origin = self.address.partition("/#")[0]

    def open(self, page: str = "home") -> None:
        """Open the studio with its address, then a page of it."""
        self.browser.get("about:blank")
        self.browser.get(self.address)
        self.wait(lambda: self.js("return document.querySelector('main h1') !== null"))
        self.go(page)

    def go(self, page: str) -> None:
        self.js(
            "main.dataset.shown = ''; if (location.hash === arguments[0]) show(); else location.hash = arguments[0]",
            f"#/{page}",
        )
        self.wait(lambda: self.js("return main.dataset.shown !== ''"))

    def js(self, script: str, *values: object) -> Any:
        return self.browser.execute_script(script, *values)

    def wait(self, found: Callable[[], Any]) -> Any:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if result := found():
                return result
            time.sleep(0.05)
        raise AssertionError(f"it did not come; the page says:\n{self.text()}")

    def text(self) -> str:
        return str(self.js("return main.innerText"))

    def see(self, words: str) -> None:
        self.wait(lambda: words in self.text())

    def fill(self, **fields: str) -> None:
        """Write into fields by name (``__`` stands for a dot), and have the page hear of it."""
        for name, value in fields.items():
            self.wait(partial(self.js, FILL, name.replace("__", "."), value))

    def press(self, words: str) -> None:
        """Press the button, or follow the link, with these words."""
        self.wait(lambda: self.js(PRESS, words))

    def alert(self) -> Any:
        """The question that the page asks; it may take a moment to come."""
        from selenium.common.exceptions import NoAlertPresentException

        def asked() -> Any:
            try:
                return self.browser.switch_to.alert
            except NoAlertPresentException:
                return None

        return self.wait(asked)

    def shoot(self, name: str, width: int, folder: Path) -> None:
        high = self.js("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(high, 6000), "scale": 1}
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        (folder / f"{name}-{width}.png").write_bytes(b64decode(shot["data"]))

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def jobs(self) -> list[psutil.Process]:
        """The commands that the server has started and that still run."""
        found = []
        for file in self.folder.glob(".quietfield-studio/*/job.json"):
            try:
                process = psutil.Process(json.loads(file.read_text())["pid"])
                if process.status() != psutil.STATUS_ZOMBIE and "quietfield" in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        for job in self.jobs():
            job.kill()
        self.kill()


def write_people(path: Path, rows: int) -> None:
    draw = random.Random(0)
    people = []
    for _ in range(2000):
        age = draw.randrange(90)
        people.append(f"{age},{draw.choice('fm')},{min(4, int(draw.expovariate(1.2 - age / 100)))}\n")
    path.write_text("age,sex,visits\n" + "".join(people) * (rows // 2000))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "clinic").mkdir()
    monkeypatch.chdir(tmp_path / "clinic")
    write_people(Path("people.csv"), 4000)
    return Path.cwd()


@pytest.fixture
def server(folder: Path, browser: Any) -> Iterator[Server]:
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    made = Server(folder, browser)
    yield made
    made.end()


def prepare(name: str = "visits", epsilon: str = "1", path: str = "people.csv", ledger: str = "budget.db") -> Draft:
    """A draft with everything chosen, a ledger of epsilon 2 and a key without a passphrase; in the current folder."""
    if not Path(ledger).exists():
        qf.Ledger.create(ledger, epsilon=2, unit=qf.Rows(1))
    if not Path("key.pem").exists():
        from quietfield.releases import keys

        keys.create_keys("key.pem")
    columns = [[item["column"], "text"] for item in SCHEMA]
    return Draft.create(
        name, path=path, columns=columns, attributes=[{**BLANK, **item} for item in SCHEMA],
        unit={"kind": "rows", "rows": "1"}, cliques=[["age", "sex"], ["sex", "visits"]], epsilon=epsilon, ledger=ledger,
        key="key.pem",
    )  # fmt: skip


def charges(ledger: str = "budget.db") -> int:
    return len(qf.Ledger(ledger).charges)


def violations(server: Server) -> list[str]:
    """What axe-core finds wrong with the page."""
    server.js(AXE)
    found = server.browser.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run(document).then(r => done(r.violations))"
    )
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def requests(browser: Any) -> list[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def examine(server: Server, pictures: Path, name: str) -> None:
    """Look at a page: at three widths, in the dark and on paper; what axe-core says of it."""
    assert "built-in" not in server.js("return main.innerHTML")
    for width in WIDTHS:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        server.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert server.js("return document.documentElement.scrollWidth") <= width, name
        assert server.js(STICKS_OUT) == [], name
        assert server.js(UNREACHABLE) == [], name
        assert server.js(SQUEEZED) == [], name
        assert server.js(OVERLAPS) == [], name
        server.shoot(name, width, pictures)
    assert violations(server) == [], name
    for scheme, media in (("dark", ""), ("light", "print"), ("light", "")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        server.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        assert server.js(FAINT) == [], (name, scheme, media)
        if media or scheme == "dark":
            server.shoot(f"{name}-{media or scheme}", WIDTHS[-1], pictures)
    server.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_from_a_file_to_a_release_to_the_explorer(server: Server, tmp_path: Path) -> None:
    """All pages, one after the other, as a person goes; each is looked at by axe-core, at three widths."""
    pictures = Path(os.environ.get("QUIETFIELD_SCREENSHOTS") or tmp_path)
    server.browser.get_log("performance")
    server.browser.get_log("browser")

    look = partial(examine, server, pictures)
    server.open()
    server.see("What would you like to do?")
    assert "token" not in server.browser.current_url
    look("home")
    server.fill(path="people.csv", name="visits")
    server.press("Begin")
    server.see("Only the names and types")
    server.press("Read the names of the columns")
    server.see("would be published as the names")  # it was not said that the first line holds names
    server.fill(header="yes")
    server.press("Read the names of the columns")
    server.see("The values that a column may have")
    server.fill(kind__0="cuts", cuts__0="18, 40, 65", labels__1="f, m", labels__2="0 1")
    server.press("Save and go on")
    server.see("Can one person appear")
    server.go("draft/visits/schema")
    server.press("Look at values")
    server.alert().dismiss()  # it asks first
    assert server.js("return document.querySelector('#values').innerText") == ""
    server.press("Look at values")
    server.alert().accept()
    server.see("NOT PRIVATE")
    server.see("most frequent unlisted values")
    look("schema")
    server.fill(labels__2="0\n1\n2\n3\n4")
    server.press("Save and go on")
    server.see("Can one person appear")
    server.js("document.querySelector('[value=yes].twice').click()")
    look("unit")
    server.js("document.querySelector('[name=twice][value=no]').click()")
    server.press("Save and go on")
    server.see("Click on two attributes")
    for one, other, tables in (("age", "sex", 2), ("sex", "visits", 2), ("sex", "visits", 2), ("visits", "sex", 2)):
        for name in (one, other):
            server.js("choose(document.querySelector(`[data-node=${arguments[0]}]`))", name)
        server.wait(lambda: server.js("return document.querySelectorAll('[aria-pressed=true]').length") == 0)
        assert server.js("return document.querySelectorAll('#drawing tbody tr').length") == tables
    assert server.js("return document.querySelectorAll('.graph line').length") == 2
    look("structure")
    server.press("Go on")
    server.see("What would a reader be able to tell?")
    server.fill(epsilon="0.5")
    server.wait(lambda: "62.3%" in server.text())  # e^0.5 on even odds
    server.fill(epsilon="no number")
    server.see("That did not work")
    server.fill(epsilon="1", records="4000")
    server.see("73.2%")
    server.press("Rehearse on made-up people")
    server.see("Rehearsing on made-up people")
    server.fill(epsilon="1.5")  # while it runs
    server.see("Rehearsed for these choices")
    assert server.js("return document.querySelector('[name=epsilon]').value") == "1.5"
    server.fill(epsilon="1")
    look("epsilon")
    server.press("Save and go on")
    server.see("A ledger keeps")
    server.js("document.querySelector('[data-post$=new-ledger] [name=total]').value = '2'")
    server.js("document.querySelector('[data-post$=new-ledger]').requestSubmit()")
    server.see("Nothing was charged yet")
    server.js(
        "const f = document.querySelector('[data-post$=new-key]');"
        "f.passphrase.value = f.again.value = 'a passphrase'; f.requestSubmit()"
    )
    server.wait(
        lambda: (
            Path("curator.pub.pem").exists()
            and "curator.pem" in server.js("return document.querySelector('[name=key]').value")
        )
    )
    look("ledger")
    server.press("Save and go on")
    server.see("What will be published")
    look("publish")
    server.fill(passphrase="another", agree="yes")
    server.press("Charge the ledger and publish")
    server.see("the passphrase is wrong")
    assert charges() == 0
    server.fill(passphrase="a passphrase")
    server.js(
        "const f = document.querySelector('[data-post$=publish]'), b = f.querySelector('button');"
        "for (let i = 0; i < 5; i++) b.click()"
    )  # pressed five times
    server.see("Published.")
    assert charges() == 1
    look("published")
    server.press("Open the release: learn, report, explore, synthetic records")
    server.see("What it promises")
    server.fill(trust="curator.pub.pem")
    server.press("Check")
    server.see("which is trusted")
    server.press("Learn a model")
    server.see("Learned.")
    server.press("Write a report")
    server.press("Draw synthetic records")
    server.wait(lambda: Path("visits/visits-records.csv").exists() and Path("visits/visits-report.html").exists())
    assert len(Path("visits/visits-records.csv").read_text().splitlines()) == 10_001
    server.wait(lambda: server.text().count("Download") == 3)
    look("release")
    server.press("Explore")
    server.see("COUNTED")
    server.fill(a="visits")
    server.wait(lambda: server.js("return document.querySelector('#answer thead th')?.innerText") == "visits")
    server.see("With 90% confidence")
    server.js("document.querySelector('details').open = true")
    server.fill(g__age="1")
    server.see("INFERRED")
    server.fill(compare="yes")
    server.see("The other group")
    look("explore")
    server.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert server.js("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not server.js("return document.querySelector('main form').checkVisibility()")  # on paper, the answer alone
    server.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    model = qf.load("visits/visits.qfm")
    shares = model.conditional("visits", {"age": "18-40"})
    shown = server.js("return [...document.querySelectorAll('#answer tbody tr')].map(r => r.children[1].innerText)")
    assert shown == [f"{share:.1%}" for share in shares]
    server.fill(b="sex")
    server.see("Picture (PNG)")
    look("heat")
    server.press("What hangs together")
    server.see("INFERRED")
    server.see("With 90% confidence a strength lies between low and high")
    look("associations")
    server.js("document.querySelector('.term').focus()")  # what is explained is explained to the keyboard, too
    told = "return getComputedStyle(document.querySelector('.term'), '::after').content"
    assert "chi squared" in server.js(told)
    assert charges() == 1
    for url in requests(server.browser):
        assert url.startswith((server.origin, "about:", f"blob:{server.origin}")), url
    logged = [
        entry["message"] for entry in server.browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")
    ]
    assert [line for line in logged if "400 (Bad Request)" not in line] == []  # those were provoked


def test_what_is_downloaded(server: Server, browser: Any) -> None:
    """Files come by links that work once; pictures and tables are made as they are seen."""
    server.open()
    prepare()
    release = qf.release(
        "people.csv",
        Draft.load("visits").schema,
        [("age", "sex"), ("sex", "visits")],
        epsilon=1,
        unit=qf.Rows(1),
        ledger=None,
    )
    release.save("visits/visits.qfr")
    qf.fit(release).save("visits/visits.qfm")
    folder = server.folder / "downloads"
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    server.go("explore?model=visits%2Fvisits.qfm&a=sex")
    for words, name in (("Table (CSV)", "sex.csv"), ("Picture (SVG)", "picture.svg"), ("Picture (PNG)", "picture.png")):
        server.press(words)
        server.wait((folder / name).exists)
    assert (folder / "sex.csv").read_text().splitlines()[0] == "sex,probability,low,high,basis"
    assert (folder / "picture.svg").read_text().startswith("<svg")
    assert "COUNTED (learned" in (folder / "picture.svg").read_text()
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    qf.write_report("visits/visits-report.html", release)
    shown = server.browser.execute_async_script(
        "const done = arguments[0]; ask('/do/ticket', {path: 'visits/visits-report.html'}).then(a => done(a.open))"
    )
    browser.get_log("browser")
    browser.get(f"{server.origin}{shown}")
    assert server.js("return document.querySelectorAll('h2').length") > 3
    assert browser.get_log("browser") == []
    server.open()
    link = server.browser.execute_async_script(
        "const done = arguments[0]; (async () => {"
        "const link = (await ask('/do/ticket', {path: 'visits/visits.qfr'})).open;"
        "const file = await (await fetch(link)).arrayBuffer();"
        "done([file.byteLength, (await fetch(link)).status]); })()"
    )
    assert link == [Path("visits/visits.qfr").stat().st_size, 404]
    for path in ("key.pem", "../people.csv", "/etc/hostname", "budget.db", "visits/absent.csv"):
        refused = server.browser.execute_async_script(
            "const done = arguments[1];"
            "ask('/do/ticket', {path: arguments[0]}).then(() => done(''), e => done(e.message))",
            path,
        )
        assert "can be downloaded" in refused, path


def test_what_was_typed_is_kept_when_something_is_made_on_the_same_page(server: Server) -> None:
    """Making a ledger or a key sends one form of three; what stands in the others is not lost, and not typed over."""
    draft = prepare()
    for file in ("budget.db", "key.pem", "key.pub.pem"):
        Path(file).unlink()
    draft.save(Jobs(Path()), 0, ledger="", key="")
    server.open("draft/visits/ledger")

    def values(form: str) -> dict[str, str]:
        fields = "Object.fromEntries(new FormData(document.querySelector(`[data-post$=${arguments[0]}]`)))"
        found: dict[str, str] = server.js(f"return {fields}", form)
        return {name: value for name, value in found.items() if name != "revision"}

    def write(form: str, **fields: str) -> None:
        for name, value in fields.items():
            server.js(
                "document.querySelector(`[data-post$=${arguments[0]}]`)[arguments[1]].value = arguments[2]",
                form, name, value,
            )  # fmt: skip

    key = {"path": "mine.pem", "passphrase": "a passphrase", "again": "a passphrase"}
    write("new-key", **key)
    write("visits\\/ledger", ledger="other.db", key="later.pem")
    write("new-ledger", path="ours.db", total="3", title="people")
    server.js("document.querySelector('[data-post$=new-ledger]').requestSubmit()")
    server.see("Nothing was charged yet")
    assert values("new-key") == key
    # The ledger that was made is the draft's now; the key that was named is as it was typed.
    assert values("visits\\/ledger") == {"ledger": "ours.db", "key": "later.pem"}
    write("new-ledger", path="second.db", total="7")
    server.js("document.querySelector('[data-post$=new-key]').requestSubmit()")
    server.wait(lambda: values("visits\\/ledger")["key"] == "mine.pem")
    kept = values("new-ledger")
    assert (kept["path"], kept["total"], kept["title"]) == ("second.db", "7", "")
    assert values("new-key") == {"path": "", "passphrase": "", "again": ""}
    server.press("Save and go on")  # with the revision of now
    server.see("What will be published")


def publish(server: Server) -> None:
    server.fill(agree="yes")
    server.press("Charge the ledger and publish")


def test_two_tabs_publish_one_release(server: Server, browser: Any) -> None:
    prepare()
    server.open("draft/visits/publish")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"{server.origin}/#/draft/visits/publish")
    server.see("What will be published")
    publish(server)
    browser.switch_to.window(first)
    publish(server)
    server.see("Published.")
    browser.get(f"{server.origin}/")
    server.go("draft/visits/publish")
    server.see("Published.")
    assert charges() == 1
    server.go("draft/visits/epsilon")
    server.see("changes no more")


def test_a_tab_that_shows_an_earlier_state_changes_nothing(server: Server, browser: Any) -> None:
    prepare()
    server.open("draft/visits/publish")
    Draft.load("visits").save(Jobs(Path()), 0, epsilon="2")
    publish(server)
    server.see("changed in another tab")
    assert charges() == 0


def test_reloading_during_the_charge_charges_once(server: Server, browser: Any) -> None:
    prepare()
    server.open("draft/visits/publish")
    publish(server)
    # A page that is left before the server has heard of it asks for nothing.
    server.wait(lambda: list(server.folder.glob(".quietfield-studio/*/job.json")))
    for _ in range(5):
        browser.refresh()
        server.wait(lambda: server.js("return document.querySelector('main h1') !== null"))
    server.see("Published.")
    browser.back()
    server.go("draft/visits/publish")
    server.see("Published.")
    assert charges() == 1


def slow(server: Server) -> list[psutil.Process]:
    """Publish from a file that takes a while; once the ledger is charged, the count stands still until it goes on."""
    write_people(Path("many.csv"), 3_000_000)
    prepare(path="many.csv")
    server.open("draft/visits/publish")
    publish(server)
    server.wait(lambda: charges() == 1)
    jobs = server.jobs()
    for job in jobs:
        job.suspend()
    assert jobs
    assert not Path("visits/visits.qfr").exists()
    return jobs


def test_the_server_is_killed_during_the_count_and_the_count_goes_on(server: Server) -> None:
    jobs = slow(server)
    server.kill()
    server.wait(lambda: server.js("return document.body.innerText").count("does not answer"))  # what the page says then
    server.start()
    for job in jobs:
        job.resume()
    server.open("draft/visits/publish")
    server.see("Published.")
    assert charges() == 1
    assert qf.Release.load("visits/visits.qfr").id == Draft.load("visits").data["id"]


def publish_copy(server: Server, records: int) -> None:
    """After a charge that made nothing: a copy of the draft, with fewer records."""
    write_people(Path("many.csv"), records)
    server.fill(to="again")
    server.press("Make a copy with the same choices")
    server.see("What it costs")
    publish(server)
    server.see("Published.")
    assert charges() == 2  # another release, under another id


def test_everything_is_killed_during_the_count_and_the_charge_stands(server: Server) -> None:
    slow(server)
    server.kill()
    for job in server.jobs():
        job.kill()
    server.start()
    server.open("draft/visits/publish")
    server.see("Charged, no release: the charge stands.")
    server.see("Line 1 of the ledger budget.db: 1 was charged.")
    assert violations(server) == []
    assert charges() == 1
    publish_copy(server, 2000)
    server.go("home")
    server.see("charged, no release: the charge stands")


def prepare_synthesis(path: str = "people.csv", epsilon: str = "8") -> Draft:
    """A draft for synthetic records with everything chosen, and a ledger of epsilon 30; in the current folder."""
    if not Path("budget.db").exists():
        qf.Ledger.create("budget.db", epsilon=30, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    made = prepare("made", epsilon, path)
    made.save(Jobs(Path()), 0, **SYNTHESIS, attributes=[{**BLANK, **item, "labels": "", "cuts": ""} for item in SCHEMA])
    return Draft.load("made")


def test_synthetic_records_in_one_step(server: Server, tmp_path: Path) -> None:
    """The short way, as a person goes: from a file to records, paid once, with reloads and two tabs on the way."""
    pictures = Path(os.environ.get("QUIETFIELD_SCREENSHOTS") or tmp_path)
    look = partial(examine, server, pictures)
    browser = server.browser
    server.open()
    server.fill(path="people.csv", name="made")
    server.js("document.querySelector('[name=kind][value=synthesis]').click()")
    server.press("Begin")
    server.see("Only the names and types")
    server.fill(header="yes")
    server.press("Read the names of the columns")
    server.see("Can one person appear")
    server.js("document.querySelector('[name=twice][value=no]').click()")
    server.press("Save and go on")
    server.see("It pays for everything")
    server.fill(epsilon="8")
    look("synthesis-epsilon")
    server.press("Save and go on")
    server.see("A ledger keeps")
    server.js("document.querySelector('[data-post$=new-ledger] [name=total]').value = '20'")
    server.js("document.querySelector('[data-post$=new-ledger]').requestSubmit()")
    server.see("Nothing was charged yet")
    server.js(
        "const f = document.querySelector('[data-post$=new-key]');"
        "f.passphrase.value = f.again.value = 'a passphrase'; f.requestSubmit()"
    )
    server.wait(lambda: "curator.pem" in server.js("return document.querySelector('[name=key]').value"))
    server.press("Save and go on")
    server.see("Synthetic records with the columns of the source")
    look("synthesis")
    server.press("Leave out columns, or say what is known")
    server.see("You may leave this page as it is")
    look("synthesis-columns")
    server.go("draft/made/publish")
    server.see("What it costs")
    assert charges() == 0
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"{server.origin}/#/draft/made/publish")
    server.see("What it costs")
    for window in (browser.current_window_handle, first):  # in both tabs, several times
        browser.switch_to.window(window)
        server.fill(passphrase="a passphrase", agree="yes")
        server.js("const b = document.querySelector('[data-post$=publish] button'); b.click(); b.click()")
    for _ in range(3):
        browser.refresh()
        server.wait(lambda: server.js("return document.querySelector('main h1') !== null"))
    server.see("Published.")
    assert charges() == 1
    look("synthesized")
    for name in ("made.csv", "made.card.md", "made.html", "made.qfr", "made.qfm"):
        server.see(f"made/{name}")
    size = browser.execute_async_script(
        "const done = arguments[0], sizes = x => fetch(x.open).then(r => r.blob()).then(b => done(b.size));"
        "ask('/do/ticket', {path: 'made/made.csv'}).then(sizes)"
    )
    assert size == Path("made/made.csv").stat().st_size > 0
    server.press("Open the release: learn, report, explore, synthetic records")
    server.see("Learned.")
    server.press("Explore")
    server.see("With 90% confidence")


def test_a_synthesis_goes_on_without_the_server(server: Server) -> None:
    prepare_synthesis()
    server.open("draft/made/publish")
    publish(server)
    server.wait(server.jobs)
    server.kill()
    server.start()
    server.open("draft/made/publish")
    server.see("Published.")
    assert charges() == 1
    assert qf.Release.load("made/made.qfr").id == Draft.load("made").data["id"]
    server.see("made/made.csv")


def test_a_synthesis_that_is_killed_during_the_count_stays_charged(server: Server) -> None:
    write_people(Path("many.csv"), 3_000_000)
    prepare_synthesis(path="many.csv")
    server.open("draft/made/publish")
    publish(server)
    server.wait(lambda: charges() == 1)
    server.kill()
    for job in server.jobs():
        job.kill()
    assert not Path("made/made.qfr").exists()
    server.start()
    server.open("draft/made/publish")
    server.see("Charged, no release: the charge stands.")
    assert charges() == 1
    publish_copy(server, 4000)


def test_a_spent_budget_and_a_lost_file_stop_a_synthesis(server: Server) -> None:
    prepare_synthesis()
    server.open("draft/made/publish")
    Path("people.csv").rename("gone.csv")
    publish(server)
    server.see("there is no file")
    Path("gone.csv").rename("people.csv")
    server.go("draft/made/publish")
    server.see("What it costs")
    book = qf.Ledger("budget.db")
    spent = {**Draft.load("made").plan.price._terms(), "rho": book.remaining * 19 / 20}
    book.charge("elsewhere", **spent)
    publish(server)
    server.see("That did not work")
    server.go("draft/made/publish")
    server.see("This cannot be published:")
    assert "Charge the ledger" not in server.text()
    assert charges() == 1


def test_a_file_that_disappears_costs_nothing(server: Server) -> None:
    prepare()
    server.open("draft/visits/publish")
    Path("people.csv").rename("gone.csv")
    publish(server)
    server.see("The last try failed. Nothing was charged.")
    server.see("there is no file")
    assert charges() == 0
    assert "Charge the ledger" not in server.text()
    Path("gone.csv").rename("people.csv")
    server.go("draft/visits/publish")
    publish(server)
    server.see("Published.")
    assert charges() == 1


def test_a_spent_budget_is_said_before_and_refused(server: Server) -> None:
    prepare("first", epsilon="1.5")
    prepare("second", epsilon="1.5")
    server.open("draft/second/publish")
    qf.Ledger("budget.db").charge("elsewhere", epsilon=1, unit=qf.Rows(1), neighbours="add_remove")
    publish(server)
    server.see("That did not work")
    server.go("draft/first/publish")
    server.see("This cannot be published:")
    assert "Charge the ledger" not in server.text()
    assert charges() == 1


def test_the_keyboard_is_enough(server: Server, browser: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    prepare()
    server.open("draft/visits/structure")
    before = server.js("return document.querySelectorAll('.graph line').length")
    pressed = 0
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if server.js("return document.activeElement.dataset.node || ''") in ("age", "visits"):
            ActionChains(browser).send_keys(Keys.ENTER).perform()
            pressed += 1
            if pressed == 2:
                break
    server.wait(lambda: server.js("return document.querySelectorAll('.graph line').length") == before + 1)
    assert server.js("return document.activeElement.dataset.node") == "visits"  # the focus stays where it was


def test_it_ends_from_the_page_and_with_ctrl_c(server: Server, browser: Any) -> None:
    server.open()
    server.js("document.querySelector('[data-post=stop]').requestSubmit()")
    server.alert().accept()
    server.see("The studio is stopped.")
    assert server.process.wait(PATIENCE) == 0
    server.kill()
    server.start()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(PATIENCE) in (0, 130)


def test_another_page_in_the_same_browser_gets_nowhere(server: Server, browser: Any) -> None:
    """A page of another origin knows the port, and the browser holds the token; it can neither ask nor act."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>evil</title><iframe name=frame></iframe>")

        def log_message(self, *_: object) -> None:
            pass

    prepare()
    server.open("draft/visits/publish")
    evil = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    Thread(target=evil.serve_forever, daemon=True).start()
    try:
        browser.get(f"http://127.0.0.1:{evil.server_port}/")
        results = browser.execute_async_script(
            """
            const [origin, done] = arguments, body = JSON.stringify({revision: 0, agree: "yes", passphrase: ""});
            const tried = [
              fetch(origin + "/page/home").then(r => r.text()),
              fetch(origin + "/page/home", {headers: {"x-quietfield-token": "guessed"}}).then(r => r.text()),
              fetch(origin + "/do/draft/visits/publish", {method: "POST", body}).then(r => r.text()),
              fetch(origin + "/do/stop", {method: "POST", body: "{}", mode: "no-cors"}).then(r => r.text()),
              new Promise((yes, no) => { const s = document.createElement("script"); s.src = origin + "/page/home";
                s.onload = () => yes("loaded"); s.onerror = no; document.head.append(s); }),
            ];
            const form = document.createElement("form");
            form.method = "POST"; form.action = origin + "/do/stop"; form.target = "frame"; document.body.append(form);
            form.submit();
            Promise.allSettled(tried).then(all => done(all.map(one => one.value ?? "refused")));
            """,
            server.origin,
        )
        # What may not be read at all is empty; nothing was told, and nothing was done.
        assert set(results) <= {"refused", ""}
    finally:
        evil.shutdown()
        evil.server_close()
    browser.get(f"{server.origin}/#/draft/visits/publish")
    server.see("What will be published")
    assert server.process.poll() is None
    assert charges() == 0


def test_what_the_checks_look_for_would_be_seen(server: Server, browser: Any) -> None:
    server.open()
    browser.get_log("performance")
    assert violations(server) == []
    server.js("const i = document.createElement('input'); main.append(i); i.style.color = '#777'")
    assert any(line.startswith("label") for line in violations(server))
    blocked = browser.execute_async_script(
        "const done = arguments[0];"
        "document.addEventListener('securitypolicyviolation', e => done(e.violatedDirective));"
        "fetch('http://127.0.0.1:9/')"
    )
    assert blocked == "connect-src"  # the page may not ask elsewhere, whatever it is made to do
