"""The studio without a browser: what is refused, what is kept, and that each page does what the command line does."""

import csv
import json
import re
import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.releases import keys

pytest.importorskip("starlette")
pytest.importorskip("duckdb")
pytest.importorskip("opendp")
from quietfield.studio import analyst, curator, explorer, server
from quietfield.studio.drafts import Draft
from quietfield.studio.forms import join, tidy
from quietfield.studio.guard import HEADER
from quietfield.studio.server import Studio, create_app

STEPS = ("file", "schema", "unit", "structure", "epsilon", "ledger", "publish")
# Long, since the files are searched for it: three letters of hexadecimal turn up in ids by chance.
PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    with open("people.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "sex", "visits", "who"])
        writer.writerows(
            [int(draw.integers(90)), "fm"[draw.integers(2)], int(draw.integers(3)), i % 300] for i in range(600)
        )
    return tmp_path


@pytest.fixture
def studio(folder: Path) -> Studio:
    return Studio()


def do(studio: Studio, handler: Any, **asked: Any) -> Any:
    return handler(studio, asked)


def show(studio: Studio, step: str, name: str = "visits") -> str:
    return curator.show(studio, {"name": name, "step": step})


def revision(name: str = "visits") -> int:
    return int(Draft.load(name).data["revision"])


def walk(studio: Studio, name: str = "visits") -> Draft:
    """All steps but the last, as the forms send them."""
    do(studio, curator.create, name=name, path="people.csv")
    do(studio, curator.save_file, name=name, path="people.csv", header="yes", revision=0)
    fields = {
        "use.0": "yes",
        "kind.0": "cuts",
        "cuts.0": "18, 40 65",
        "use.1": "yes",
        "kind.1": "labels",
        "labels.1": "f, m",
    }
    fields |= {"use.2": "yes", "kind.2": "labels", "labels.2": "0\n1\n2", "null.2": "none"}
    do(studio, curator.save_schema, name=name, revision=1, **fields)
    do(studio, curator.save_unit, name=name, revision=2, twice="no")
    do(studio, curator.save_structure, name=name, revision=3, chosen=["sex", "age"])
    do(studio, curator.save_epsilon, name=name, revision=4, epsilon="0.5", noise="laplace", delta="1e-6", records="600")
    if not Path("budget.db").exists():
        do(studio, curator.create_ledger, name=name, revision=5, path="budget", total="2", title="people")
        do(studio, curator.create_key, name=name, revision=6, path="curator", passphrase=PASSPHRASE, again=PASSPHRASE)
    do(studio, curator.save_ledger, name=name, revision=revision(name), ledger="budget.db", key="curator.pem")
    return Draft.load(name)


def test_each_page_of_a_draft_is_shown_from_the_first_to_the_last(studio: Studio) -> None:
    do(studio, curator.create, name="visits", path="people.csv")
    for step in STEPS:
        assert "<h1>" in show(studio, step)
    Path("visits/draft.json").unlink()
    Path("visits").rmdir()
    draft = walk(studio)
    for step in STEPS:
        assert 'class="alert"' not in show(studio, step), step
    assert draft.schema.domain.labels("visits") == ("0", "1", "2", "none")
    assert draft.cliques == (("age", "sex"), ("visits",))
    assert "visits" in do(studio, analyst.home)
    assert json.loads(Path("visits/structure.json").read_text()) == {"cliques": [["age", "sex"], ["visits"]]}


def test_the_commands_that_are_shown_do_the_same(studio: Studio, capsys: pytest.CaptureFixture[str]) -> None:
    draft = walk(studio)
    for verb in ("inspect", "plan"):
        assert main(draft.command(verb)) == 0
    dry = [*draft.command("release"), "--dry-run"]
    dry.remove("--passphrase-env")
    dry.remove("QUIETFIELD_STUDIO_PASSPHRASE")
    keys.create_keys("plain.pem")
    dry[dry.index("curator.pem")] = "plain.pem"
    capsys.readouterr()
    assert main(dry) == 0
    said = json.loads(capsys.readouterr().out)
    planned = draft.plan
    assert said["epsilon"] == str(planned.noise.epsilon) == "1/2"
    assert [table["noise"]["scale"] for table in said["tables"]] == [float(n.scale) for n in planned.noise.noises]
    assert said["ledger"]["afterwards"]["remaining"] == "3/2"
    model = qf.Model(qf.Domain({"my sex": ["f", "m"], "age": 2}), {("my sex", "age"): np.eye(2)})
    model.save("a model.qfm")
    question = explorer.Question.read("a model.qfm", model.domain, {"a": "my sex", "g.age": "1"})
    (command,) = question.commands()
    assert main([*shlex.split(command)[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (answer,) = explorer.answer(explorer.Loaded(model), question)
    assert [cell["probability"] for cell in told["cells"]] == pytest.approx(answer.shares.tolist())
    scope: dict[str, Any] = {}
    exec(question.python().replace("print(", "found = (").replace("level=0.9", "level=None"), scope)
    assert scope["found"]["probability"].tolist() == pytest.approx(answer.shares.tolist())


def test_persons_and_other_units(studio: Studio) -> None:
    walk(studio)
    for asked, unit, text in (
        ({"twice": "yes", "rows": "3"}, qf.Rows(3), "rows:3"),
        ({"twice": "yes", "column": "who", "rows": "2", "one_line": "yes"}, qf.Person("who", rows=2), "person:who:2"),
        (
            {"twice": "yes", "column": "who", "rows": "2", "weigh": "normalise", "one_line": "yes"},
            qf.Person("who", normalise=True),
            "person:who:normalise",
        ),
    ):
        do(studio, curator.save_unit, name="visits", revision=revision(), **asked)
        draft = Draft.load("visits")
        assert draft.unit == unit
        assert draft.unit_text == text
        for step in STEPS:
            show(studio, step)
    with pytest.raises(qf.Error, match="every record of it is one line"):
        do(studio, curator.save_unit, name="visits", revision=revision(), twice="yes", column="who", rows="2")
    with pytest.raises(qf.Error, match="say first"):
        do(studio, curator.save_unit, name="visits", revision=revision())


def test_a_schema_that_is_not_one_is_kept_and_mended(studio: Studio) -> None:
    do(studio, curator.create, name="visits", path="people.csv")
    do(studio, curator.save_file, name="visits", path="people.csv", header="yes", revision=0)
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, forty"}
    assert do(studio, curator.save_schema, name="visits", revision=1, **fields) == {"reload": True}
    assert "forty" in show(studio, "schema")
    assert "a cut point is a number" in show(studio, "schema")
    assert not Path("visits/schema.json").exists()


def test_tables_that_gaussian_noise_adds_are_counted(studio: Studio) -> None:
    names = ask(studio, 5, ["0", "1", "2"])
    Draft.load("visits").save(studio.jobs, revision(), cliques=[[names[0], name] for name in names[2:]])
    noise = {"epsilon": "1", "noise": "gaussian", "delta": "1e-6", "records": "600"}
    do(studio, curator.save_epsilon, name="visits", revision=revision(), **noise)
    drawn = do(studio, curator.save_structure, name="visits", revision=revision(), chosen=names[:2])
    figures = re.findall(r"<dd>([0-9]+)</dd>", drawn["html"])
    assert figures[:2] == ["8", str(4 * 9 + 4 * 3)]  # a star of four pairs, and a table for each of its leaves


def ask(studio: Studio, questions: int, labels: list[str]) -> list[str]:
    """A draft of answers to some questions as far as its unit; their names."""
    names = [f"q{i}" for i in range(questions)]
    with open("answers.csv", "w", newline="") as file:
        csv.writer(file).writerows([names, *([i >> j & 1 for j in range(questions)] for i in range(600))])
    do(studio, curator.create, name="visits", path="answers.csv")
    do(studio, curator.save_file, name="visits", path="answers.csv", header="yes", revision=0)
    fields = {f"{field}.{i}": said for i in range(questions) for field, said in
              (("use", "yes"), ("kind", "labels"), ("labels", "\n".join(labels)))}  # fmt: skip
    do(studio, curator.save_schema, name="visits", revision=1, **fields)
    do(studio, curator.save_unit, name="visits", revision=2, twice="no")
    return names


def test_interactions_in_place_of_tables_are_shown_and_only_tables_that_were_drawn_are_removed(studio: Studio) -> None:
    names = ask(studio, 12, ["0", "1"])
    Draft.load("visits").save(studio.jobs, revision(), cliques=[list(c) for c in combinations(names, 3)])
    noise = {"epsilon": "1", "noise": "gaussian", "delta": "1e-6", "records": "600"}
    do(studio, curator.save_epsilon, name="visits", revision=revision(), **noise)
    page = show(studio, "structure")
    assert len(re.findall(r'aria-label="[^"]*q0 × q1 × q2"', page)) == 1
    assert not re.findall(r'aria-label="[^"]*q0 × q1"', page)  # a number within tables, and no table of its own
    assert page.count(">interaction</abbr>") == 12 + 66 + 220
    assert ">interaction</abbr>" in show(studio, "epsilon")


def test_tables_that_are_chosen_privately(studio: Studio) -> None:
    walk(studio)
    # So large that noise does not outweigh 600 records: at 0.5, of which a tenth is for one-way tables, it may. The one
    # table of all three attributes can then be measured well, and there is nothing to choose.
    enough = {"epsilon": "1.5", "noise": "laplace", "delta": "1e-6", "records": "600"}
    do(studio, curator.save_epsilon, name="visits", revision=revision(), **enough)
    drawn = do(studio, curator.save_structure, name="visits", revision=revision(), preset="auto")
    assert "chosen privately" in drawn["html"]
    for step in STEPS:
        assert 'class="alert"' not in show(studio, step), step
    draft = Draft.load("visits")
    assert draft.command("plan")[3] == "auto"
    assert "Rehearse" not in show(studio, "epsilon")
    publish(studio)
    wait(studio, draft.target)
    assert max(map(len, qf.Release.load(draft.target).tables)) > 1
    again = do(studio, curator.copy, name="visits", to="drawn")
    assert again == {"go": "#/draft/drawn/publish"}
    do(studio, curator.save_structure, name="drawn", revision=0, chosen=["age", "visits"])
    assert Draft.load("drawn").command("plan")[3] == "drawn/structure.json"


def test_synthetic_records_have_the_types_and_bounds_that_were_said(studio: Studio) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"age": pa.array([5, 70] * 50, pa.int32()), "sex": ["f", "m"] * 50}), "people.parquet")
    do(studio, curator.create, name="visits", path="people.parquet")
    do(studio, curator.save_file, name="visits", path="people.parquet", revision=0)
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, 65", "least.0": "0", "most.0": "110"}
    fields |= {"use.1": "yes", "kind.1": "labels", "labels.1": "f, m"}
    do(studio, curator.save_schema, name="visits", revision=1, **fields)
    rule = Draft.load("visits").schema["age"]
    assert (rule.type, rule.least, rule.most) == ("integer", 0, 110)  # type: ignore[attr-defined]


def publish(studio: Studio, name: str = "visits") -> Any:
    return do(studio, curator.publish, name=name, revision=revision(name), agree="yes", passphrase=PASSPHRASE)


def wait(studio: Studio, target: str) -> None:
    for child in list(studio.jobs.children.values()):
        child.wait(600)
    assert studio.jobs.find(target).state == "done", studio.jobs.find(target).errors


def test_asked_many_times_at_once_it_is_charged_once(studio: Studio) -> None:
    walk(studio)
    together = threading.Barrier(8)

    def ask(_: int) -> None:
        together.wait()
        publish(studio)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert len(studio.jobs.children) == 1
    wait(studio, "visits/visits.qfr")
    publish(studio)  # and once more afterwards
    assert len(studio.jobs.children) == 1
    (charge,) = qf.Ledger("budget.db").charges
    release = qf.Release.load("visits/visits.qfr", trust="curator.pub.pem")
    assert charge.release == release.id == Draft.load("visits").data["id"]
    assert "Published." in show(studio, "publish")
    with pytest.raises(qf.Error, match="changes no more"):
        do(studio, curator.save_unit, name="visits", revision=revision(), twice="no")
    assert PASSPHRASE not in "".join(
        path.read_text() for path in Path(".quietfield-studio").rglob("*") if path.is_file()
    )
    page = do(studio, analyst.release, path="visits/visits.qfr", trust="curator.pub.pem")
    assert "which is trusted" in page


def test_how_discovered_columns_are_written_is_taken_over(studio: Studio) -> None:
    """A planted bug: a form that forgets it would read no number and no date, and drop or mislabel all records."""
    walk(studio)
    rules = {
        "age": qf.Cuts([18, 1000], thousands=",", before="$", missing=("-",)),
        "sex": ["f", "m"],
        "visits": qf.Dates("year", "2000-01-01", "2003-01-01", written="dd/mm/yy", years_from=1930),
    }
    found = qf.Schema(rules)
    found.save(Draft.load("visits").found)
    do(studio, curator.take_over, name="visits", revision=revision())
    taken = Draft.load("visits").schema
    assert taken["age"] == found["age"]
    assert taken["visits"] == found["visits"]
    # And what a column is said to hold instead is read as usual.
    do(
        studio,
        curator.save_schema,
        name="visits",
        revision=revision(),
        **{"use.0": "yes", "kind.0": "labels", "labels.0": "a"},
    )
    assert Draft.load("visits").schema["age"] == qf.Labels(["a"], missing=("-",))


def test_a_second_server_that_lost_its_memory_is_refused_by_the_ledger(studio: Studio) -> None:
    """A planted bug: nothing remembers the job, and the draft is published again; the ledger pays once for one id."""
    draft = walk(studio)
    publish(studio)
    wait(studio, draft.target)
    Path(draft.target).unlink()
    forgetful = Studio()
    forgetful.jobs.start(draft.target, draft.command("release"), PASSPHRASE)
    for child in forgetful.jobs.children.values():
        child.wait(600)
    assert "already charged" in forgetful.jobs.find(draft.target).errors
    assert len(qf.Ledger("budget.db").charges) == 1
    assert draft.state(forgetful.jobs) == "charged"
    assert "the charge stands" in show(forgetful, "publish")
    with pytest.raises(qf.Error, match="charged already"):
        publish(forgetful)


def test_nothing_is_charged_for_what_was_not_agreed_to(studio: Studio) -> None:
    walk(studio)
    for asked, said in (
        ({"revision": revision(), "passphrase": PASSPHRASE}, "have read"),
        ({"revision": revision() - 1, "passphrase": PASSPHRASE, "agree": "yes"}, "another tab"),
        ({"revision": revision(), "passphrase": "wrong", "agree": "yes"}, "passphrase"),
    ):
        with pytest.raises(qf.Error, match=said):
            do(studio, curator.publish, name="visits", **asked)
    assert studio.jobs.children == {}
    assert qf.Ledger("budget.db").charges == ()


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "x" * 61, "nul\0"])
def test_a_name_that_is_no_name_is_refused(studio: Studio, name: str) -> None:
    with pytest.raises(qf.Error, match="a name has letters"):
        do(studio, curator.create, name=name, path="people.csv")
    with pytest.raises(qf.Error, match="a name has letters"):
        Draft.load(name)


def test_joining_and_taking_apart() -> None:
    names = ("a", "b", "c", "d")
    assert tidy(names, []) == (("a",), ("b",), ("c",), ("d",))
    assert join(names, tidy(names, []), ["b", "a"]) == (("a", "b"), ("c",), ("d",))
    assert join(names, [("a", "b"), ("b", "c")], ["a", "b", "c"]) == (("a", "b", "c"), ("d",))
    assert join(names, [("a", "b", "c")], ["a", "b", "c"]) == (("a",), ("b",), ("c",), ("d",))


# Who may ask.


@pytest.fixture
def client(studio: Studio) -> Any:
    from starlette.testclient import TestClient

    return TestClient(create_app(studio, 8000), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


GOOD = {"origin": "http://127.0.0.1:8000"}


def test_the_token_of_the_address_works_once(client: Any, studio: Studio) -> None:
    once = studio.session.once
    assert client.post("/session", json={"once": "guessed"}, headers=GOOD).status_code == 400
    token = client.post("/session", json={"once": once}, headers=GOOD).json()["token"]
    assert client.post("/session", json={"once": once}, headers=GOOD).status_code == 400
    assert client.get("/page/home", headers={HEADER: token}).status_code == 200
    assert "set-cookie" not in client.get("/page/home", headers={HEADER: token}).headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({HEADER: ""}, 401),
        ({HEADER: "guessed"}, 401),
        ({HEADER: None}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8000"}, 421),
        ({"host": "127.0.0.1:9000"}, 421),
        ({"host": "127.0.0.1.evil.example:8000"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/page/home", "/do/draft", "/do/stop", "/do/ticket", "/session", "/"])
def test_requests_from_elsewhere_are_refused(
    client: Any, studio: Studio, path: str, headers: dict[str, str | None], status: int
) -> None:
    stopped: list[bool] = []
    studio.stop = lambda: stopped.append(True)
    sent = {**GOOD, HEADER: studio.session.token, **headers}
    sent = {name: value for name, value in sent.items() if value is not None}
    asks = client.get if path.startswith("/page") or path == "/" else lambda *a, **k: client.post(*a, json={}, **k)
    found = asks(path, headers=sent)
    if status == 200:
        assert found.status_code in (200, 400)  # 400: there was nothing in the form
    elif not (status == 401 and path in ("/", "/session")):  # those need no token
        assert found.status_code == status
        assert stopped == []
    assert found.headers["content-security-policy"].startswith("default-src 'self'")
    assert found.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in found.headers


def test_a_form_of_another_page_has_no_origin_to_show(client: Any, studio: Studio) -> None:
    assert client.post("/do/stop", json={}, headers={HEADER: studio.session.token}).status_code == 403
    assert client.put("/do/stop", json={}, headers={**GOOD, HEADER: studio.session.token}).status_code == 403
    assert client.options("/do/stop", headers={**GOOD, HEADER: studio.session.token}).status_code == 403


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a": NaN}', b"\xff", b'"' + b"x" * 5_000_000 + b'"'])
def test_what_no_page_sends_is_refused_calmly(client: Any, studio: Studio, body: bytes) -> None:
    for path in ("/do/draft", "/session"):
        found = client.post(path, content=body, headers={**GOOD, HEADER: studio.session.token})
        assert found.status_code == 400
        assert found.json()["error"]


def test_an_error_that_is_not_ours_tells_its_kind_alone(
    client: Any, studio: Studio, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("could not convert 'HIV+'")

    monkeypatch.setattr(Draft, "names", fail)
    found = client.get("/page/home", headers={HEADER: studio.session.token})
    assert found.status_code == 500
    assert "ValueError" in found.text
    out, err = capfd.readouterr()
    assert "HIV" not in found.text + out + err


def test_names_are_escaped(client: Any, studio: Studio) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    domain = qf.Domain({hostile: [hostile, "=1+1"], "b": 2})
    qf.Model(domain, {(hostile, "b"): np.eye(2)}).save("model.qfm")
    headers = {**GOOD, HEADER: studio.session.token}
    for page in ("explore", "associations"):
        text = client.get(f"/page/{page}", params={"model": "model.qfm"}, headers=headers).json()["html"]
        assert "<img" not in text
    two = client.get("/page/explore", params={"model": "model.qfm", "b": "b"}, headers=headers).json()["html"]
    assert "<img" not in two
    table = client.post("/do/table", params={"model": "model.qfm"}, json={}, headers=headers).json()["text"]
    assert "\n=1+1" not in table


def strength(p: np.ndarray) -> float:
    """Cramér's V by SciPy."""
    from scipy.stats.contingency import association

    return float(association(np.rint(1e9 * p).astype(np.int64)))


def test_what_leaves_the_page_says_what_it_rests_on(studio: Studio) -> None:
    """Tables and pictures that are downloaded say of each answer whether it was counted or inferred."""
    schema = qf.Schema({"age": qf.Cuts([18, 40, 65]), "sex": ["f", "m"], "visits": ["0", "1", "2"]})
    made = [("age", "sex"), ("sex", "visits")]
    model = qf.fit(qf.release("people.csv", schema, made, epsilon=20, unit=qf.Rows(1), ledger=None))
    model.save("model.qfm")
    for asked, marks in (
        ({"a": "visits"}, ["COUNTED"]),
        ({"a": "visits", "b": "age"}, ["INFERRED"]),
        ({"a": "visits", "g.age": "1", "compare": "1", "h.sex": "0"}, ["INFERRED", "COUNTED"]),
    ):
        given = {"model": "model.qfm", **asked}
        page = analyst.explore(studio, given)
        lines = list(csv.DictReader(analyst.table(studio, given)["text"].splitlines()))
        columns = [name for name in lines[0] if name.startswith("basis")]
        assert len(columns) == len(marks)
        for line in lines:
            assert [line[name].split(" (")[0] for name in columns] == marks
        pictures = re.findall(r"<svg.*?</svg>", page)
        for mark in marks:
            assert any(mark in picture for picture in pictures)
            assert f">{mark}</span>" in page
    found, why = explorer.associations(explorer.load_model("model.qfm"))
    assert why == ""
    for one in found:
        assert one.strength == pytest.approx(strength(model.marginal([one.a, one.b])), abs=1e-6)
        assert one.counted == ((one.a, one.b) in made)
        assert one.low is not None
        assert one.high is not None
        assert 0 <= one.low <= one.strength <= one.high <= 1
        assert one.low < one.high
    page = analyst.associations(studio, {"model": "model.qfm"})
    assert "With 90% confidence" in page
    assert page.count(">INFERRED</span>") == 1
    assert page.count("<circle") == 2  # the dots of the pair that is inferred, on either side of the diagonal
    text = analyst.associations_table(studio, {"model": "model.qfm"})["text"]
    assert [line["basis"].split()[0] for line in csv.DictReader(text.splitlines())] == [
        "COUNTED" if one.counted else "INFERRED" for one in found
    ]


def test_associations_without_error_bars_say_why(studio: Studio) -> None:
    domain = qf.Domain({"a": 2, "b": 2})
    qf.Model(domain, {("a", "b"): np.eye(2)}).save("model.qfm")
    page = analyst.associations(studio, {"model": "model.qfm"})
    assert "No error bars: this model does not know its errors" in page
    assert "–" in page


def test_pages_say_it_in_plain_words(studio: Studio) -> None:
    """Technical words stand in explanations of plain ones (title="...") and in commands, nowhere else."""
    do(studio, curator.create, name="made", path="people.csv", kind="synthesis")
    do(studio, curator.save_file, name="made", path="people.csv", header="yes", revision=0)
    do(studio, curator.save_unit, name="made", revision=1, twice="no")
    do(studio, curator.create_ledger, name="made", revision=2, path="made", total="20", delta="1e-6", title="people")
    do(studio, curator.create_key, name="made", revision=3, path="other", passphrase=PASSPHRASE, again=PASSPHRASE)
    do(studio, curator.save_ledger, name="made", revision=revision("made"), ledger="made.db", key="other.pem")
    qf.Ledger("made.db").charge("elsewhere", **Draft.load("made").plan.price._terms())
    walk(studio)
    technical = re.compile(r"\b(rho|zCDP|treewidth|Laplace noise|inference|pp|Known list)\b")
    explained = set()
    for name, step in [
        *(("visits", step) for step in STEPS),
        *(("made", step) for step in STEPS if step != "structure"),
    ]:
        page = show(studio, step, name)
        explained |= set(technical.findall(" ".join(re.findall(r'title="([^"]*)"', page))))
        folded = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
        plain = re.sub(r'<p class="hint">.*?</p>|<[^>]*>', " ", folded, flags=re.DOTALL)
        assert technical.findall(plain) == [], (name, step)
    assert explained == {"rho", "treewidth", "inference", "Laplace noise"}
    assert "of the budget of the ledger" in show(studio, "publish", "made")


def test_every_text_is_used_and_every_use_has_a_text(root: Path, studio: Studio) -> None:
    import re

    folder = root / "src" / "quietfield" / "studio"
    used = "".join(path.read_text() for path in [*folder.glob("templates/*.html"), *folder.glob("*.py")])
    for page, texts in studio.texts.items():
        dynamic = {"states": True, "steps": True, "lists": True}.get(page, False)
        for name in texts:
            direct = re.search(rf'{page}(\.{name}\b|\["{name}"\]|"\]\["{name}"\])', used)
            listed = re.search(rf"t\.{page}\[", used) and f'"{name}"' in used
            assert dynamic or direct or listed or name in ("title",), f"{page}.{name}"


def test_a_schema_that_is_discovered_is_charged_once(studio: Studio) -> None:
    do(studio, curator.create, name="visits", path="people.csv")
    do(studio, curator.save_file, name="visits", path="people.csv", header="yes", revision=0)
    assert "First say whom to protect" in show(studio, "schema")
    do(studio, curator.save_unit, name="visits", revision=1, twice="no")
    do(studio, curator.create_ledger, name="visits", revision=2, path="budget", total="20", delta="1e-6")
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, 65", "use.1": "yes", "kind.1": "labels", "use.2": "yes"}
    do(studio, curator.save_schema, name="visits", revision=3, **fields, **{"kind.2": "labels"})
    asked = {"name": "visits", "revision": 4, "epsilon": "8", "delta": "1e-7"}
    with pytest.raises(qf.Error, match="may be charged"):
        do(studio, curator.discover, **asked)
    for _ in range(3):
        do(studio, curator.discover, **asked, agree="yes")
    draft = Draft.load("visits")
    wait(studio, draft.found)
    (charge,) = qf.Ledger("budget.db").charges
    assert charge.release == draft.data["discovery_id"] != draft.data["id"]
    do(studio, curator.take_over, name="visits", revision=4)
    schema = Draft.load("visits").schema
    assert schema.domain.labels("age") == ("<18", "18-65", "65+")  # which was known
    assert {"f", "m"} <= set(schema.domain.labels("sex"))
    assert "who" not in schema.domain.attributes
    assert schema.discovered is not None
    for step in STEPS:
        show(studio, step)
    Path(draft.found).unlink()
    assert "Charged, and nothing was found" in show(studio, "schema")
    with pytest.raises(qf.Error, match="charged already"):
        do(studio, curator.discover, name="visits", revision=5, epsilon="8", delta="1e-7", agree="yes")


# Synthetic records in one step.


def synthesis(studio: Studio, name: str = "made", total: str = "30", path: str = "people.csv") -> Draft:
    """All steps but the last, as the forms send them; what the columns hold is known of one, and one is left out."""
    do(studio, curator.create, name=name, path=path, kind="synthesis")
    found = do(studio, curator.save_file, name=name, path=path, header="yes", revision=0)
    assert found == {"go": f"#/draft/{name}/unit"}
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, 65", "use.1": "yes", "kind.1": "labels", "use.2": "yes"}
    do(studio, curator.save_schema, name=name, revision=1, **fields, **{"kind.2": "labels"})
    assert do(studio, curator.save_unit, name=name, revision=2, twice="no") == {"go": f"#/draft/{name}/epsilon"}
    do(studio, curator.save_epsilon, name=name, revision=3, epsilon="8", noise="gaussian", delta="1e-6")
    if not Path("budget.db").exists():
        do(studio, curator.create_ledger, name=name, revision=4, path="budget", total=total, delta="1e-6")
        do(studio, curator.create_key, name=name, revision=5, path="curator", passphrase=PASSPHRASE, again=PASSPHRASE)
    do(studio, curator.save_ledger, name=name, revision=revision(name), ledger="budget.db", key="curator.pem")
    return Draft.load(name)


def test_synthetic_records_in_one_step_are_charged_once(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = synthesis(studio)
    for step in ("file", "schema", "unit", "epsilon", "ledger", "publish"):
        assert 'class="alert"' not in show(studio, step, "made"), step
    with pytest.raises(qf.Error, match="no step"):
        show(studio, "structure", "made")
    page = show(studio, "publish", "made")
    assert "Synthetic records with the columns of the source" in page
    assert "it was to be left out" in page
    draft.write_inputs()
    monkeypatch.setenv("QUIETFIELD_STUDIO_PASSPHRASE", PASSPHRASE)
    assert main([*draft.command("publish"), "--dry-run"]) == 0
    assert "discovers 2 columns" in capsys.readouterr().out
    assert qf.Ledger("budget.db").charges == ()
    together = threading.Barrier(4)

    def ask(_: int) -> None:
        together.wait()
        publish(studio, "made")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert len(studio.jobs.children) == 1
    wait(studio, draft.target)
    publish(studio, "made")  # and once more afterwards
    assert len(studio.jobs.children) == 1
    (charge,) = qf.Ledger("budget.db").charges
    release = qf.Release.load(draft.target, trust="curator.pub.pem")
    assert charge.release == release.id == draft.data["id"]
    page = show(studio, "publish", "made")
    for file in draft.files.values():
        assert f'data-ticket="{file}"' in page
        assert do(studio, server._ticket, path=file)["open"]
    with open("made/made.csv", newline="") as file:
        assert next(csv.reader(file)) == ["age", "sex", "visits"]
    assert "COUNTED" in do(studio, analyst.explore, model="made/made.qfm")
    state = [path.read_text() for path in Path(".quietfield-studio").rglob("*") if path.is_file()]
    assert PASSPHRASE not in "".join(state)
    Path("made/made.csv").unlink()
    Path("made/made.qfm").unlink()  # as if the command had been killed after its release
    assert "the work ended before all was made of it" in show(studio, "publish", "made")
    assert "Learn a model" in do(studio, analyst.release, path=draft.target)


def test_a_synthesis_that_was_charged_and_made_nothing_is_not_charged_again(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted bug: nothing remembers the job, and its command is run again; the ledger pays once for one id."""
    draft = synthesis(studio)
    draft.write_inputs()
    price = draft.plan.price
    qf.Ledger("budget.db").charge(draft.data["id"], **price._terms())
    assert draft.state(studio.jobs) == "charged"
    assert "the charge stands" in show(studio, "publish", "made")
    with pytest.raises(qf.Error, match="charged already"):
        publish(studio, "made")
    monkeypatch.setenv("QUIETFIELD_STUDIO_PASSPHRASE", PASSPHRASE)
    assert main(draft.command("publish")) == 1
    assert "already charged" in capsys.readouterr().err
    assert len(qf.Ledger("budget.db").charges) == 1
    do(studio, curator.copy, name="made", to="again")
    assert "What will be published" in show(studio, "publish", "again")
    assert Draft.load("again").data["id"] != draft.data["id"]


def test_what_stands_in_the_way_of_a_synthesis_costs_nothing(studio: Studio) -> None:
    synthesis(studio)
    Path("people.csv").rename("gone.csv")
    assert "there is no file" in show(studio, "publish", "made")
    with pytest.raises(qf.Error, match="there is no file"):
        publish(studio, "made")
    Path("gone.csv").rename("people.csv")
    with pytest.raises(qf.Error, match="another tab"):
        do(studio, curator.publish, name="made", revision=revision("made") - 1, agree="yes", passphrase=PASSPHRASE)
    book = qf.Ledger("budget.db")
    book.charge("elsewhere", **{**Draft.load("made").plan.price._terms(), "rho": book.remaining * 19 / 20})
    assert "This cannot be published:" in show(studio, "publish", "made")
    with pytest.raises(qf.BudgetExceeded):
        publish(studio, "made")
    assert studio.jobs.children == {}
    assert len(book.charges) == 1


def test_a_synthesis_of_columns_that_are_all_known_discovers_nothing(studio: Studio) -> None:
    synthesis(studio)
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, 65", "use.1": "yes", "kind.1": "labels"}
    do(studio, curator.save_schema, name="made", revision=revision("made"), **fields, **{"labels.1": "f, m"})
    draft = Draft.load("made")
    draft.write_inputs()
    assert draft.plan.discovery is None  # type: ignore[union-attr]
    assert "--schema" in draft.command("publish")
    assert "What will be published" in show(studio, "publish", "made")
    do(studio, curator.save_schema, name="made", revision=revision("made"), **{**fields, "cuts.0": "18, forty"})
    assert "a cut point is a number" in show(studio, "publish", "made")


# Records elsewhere than in one file.


def test_a_folder_is_the_pattern_of_its_files(studio: Studio) -> None:
    Path("parts").mkdir()
    for i in range(3):
        Path(f"parts/{i}.csv").write_text(Path("people.csv").read_text())
    assert "parts/*.csv" in do(studio, analyst.home)
    do(studio, curator.create, name="visits", path="parts/")
    assert Draft.load("visits").data["path"] == "parts/*.csv"
    do(studio, curator.save_file, name="visits", path="parts", header="yes", revision=0)
    assert list(Draft.load("visits").columns) == ["age", "sex", "visits", "who"]
    Path("parts/other.parquet").touch()
    with pytest.raises(qf.Error, match="several kinds"):
        do(studio, curator.create, name="mixed", path="parts")


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_of_a_database_is_published(studio: Studio, kind: str) -> None:
    import sqlite3

    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    file = f"clinic.{kind}"
    connection: Any = duckdb.connect(file) if kind == "duckdb" else sqlite3.connect(file)
    connection.execute("CREATE TABLE visits (age INTEGER, sex TEXT)")
    connection.executemany("INSERT INTO visits VALUES (?, ?)", [(i % 90, "fm"[i % 2]) for i in range(600)])
    connection.commit()
    connection.close()
    address = f"{kind}://{file}"
    assert address in do(studio, analyst.home)
    do(studio, curator.create, name="visits", path=address)
    with pytest.raises(qf.Error, match="there is 'visits'"):
        do(studio, curator.save_file, name="visits", path=address, revision=0)
    do(studio, curator.save_file, name="visits", path=f"{address}#visits", revision=0)
    assert Draft.load("visits").columns == {"age": "integer", "sex": "text"}
    if kind == "duckdb":
        duckdb.connect(file).close()  # the studio holds no lock on it
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18, 65", "use.1": "yes", "kind.1": "labels"}
    do(studio, curator.save_schema, name="visits", revision=1, **fields, **{"labels.1": "f, m"})
    assert "Look at values" not in show(studio, "schema")
    do(studio, curator.save_unit, name="visits", revision=2, twice="no")
    do(studio, curator.save_structure, name="visits", revision=3, chosen=["sex", "age"])
    do(studio, curator.create_ledger, name="visits", revision=4, path="budget", total="2")
    keys.create_keys("plain.pem")
    do(studio, curator.save_ledger, name="visits", revision=5, ledger="budget.db", key="plain.pem")
    assert "What will be published" in show(studio, "publish")
    publish(studio)
    wait(studio, "visits/visits.qfr")
    assert qf.Release.load("visits/visits.qfr").tables["age", "sex"].shape == (3, 2)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://curator:{}@localhost/clinic#visits",
        "postgresql://curator@localhost/clinic?password={}#visits",
        "snowflake://curator@account/clinic?private_key={}#visits",
    ],
)
def test_an_address_with_a_password_is_refused_and_kept_nowhere(
    client: Any, studio: Studio, folder: Path, address: str
) -> None:
    secret = "correct-horse-battery-staple"
    do(studio, curator.create, name="visits", path="people.csv")
    headers = {**GOOD, HEADER: studio.session.token}
    for path, sent in (("/do/draft", {"name": "other"}), ("/do/draft/visits/file", {"revision": 0})):
        found = client.post(path, json={**sent, "path": address.format(secret)}, headers=headers)
        assert found.status_code == 400
        assert "PGPASSFILE" in found.text
        assert secret not in found.text
    assert not Path("other").exists()
    assert secret not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


def test_an_answer_does_not_wait_for_error_bars(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    qf.fit(qf.simulate("tree", attributes=2, states=3).release).save("model.qfm")
    begin, work = threading.Event(), qf.Model.interval

    def slow(*asked: Any, **more: Any) -> Any:
        begin.wait(600)
        return work(*asked, **more)

    monkeypatch.setattr(qf.Model, "interval", slow)
    page = do(studio, analyst.explore, model="model.qfm")
    assert "Error bars are being worked out" in page
    assert "COUNTED" in page
    begin.set()
    assert explorer.load_model("model.qfm").ready.wait(600)
    page = do(studio, analyst.explore, model="model.qfm")
    assert "being worked out" not in page
    assert "confidence a share lies between" in page


def test_a_form_without_any_values_says_what_is_missing(studio: Studio) -> None:
    do(studio, curator.create, name="blank", path="people.csv", synthesis="")
    do(studio, curator.save_file, name="blank", revision=revision("blank"), path="people.csv", header="yes")
    before = revision("blank")
    with pytest.raises(qf.Error, match="no column has values yet"):
        do(studio, curator.save_schema, name="blank", revision=before, **{"use.0": "yes", "kind.0": "labels"})
    assert revision("blank") == before


def test_pages_tell_how_many_records_were_counted(studio: Studio) -> None:
    """Of 600 records, of which lists that are spelled otherwise than the file would drop all. With noise of scale 4 in
    each of 12 cells, the sum is off by 300 once in 10^9 times."""
    walk(studio)
    shown = show(studio, "publish")
    assert "The values that are published" in shown
    assert "drop the record" in shown
    publish(studio)
    wait(studio, "visits/visits.qfr")
    pages = [show(studio, "publish"), do(studio, analyst.release, path="visits/visits.qfr", trust="")]
    for page in pages:
        (found,) = re.findall(r"About ([0-9,]+) records are counted", page)
        assert abs(int(found.replace(",", "")) - 600) < 300
    assert "Is that about as many as there are?" in pages[0]


def test_gaps_of_a_rule_that_was_found_stay_unless_its_cut_points_are_edited():
    from quietfield.studio.forms import read_rule

    item = {
        "column": "age", "name": "", "kind": "cuts", "cuts": "0, 40", "least": "-99", "most": "79", "null": "",
        "unknown": "", "written": {"gaps": [[-99, 18]]},
    }  # fmt: skip
    assert read_rule(item, "integer")["gaps"] == [[-99, 18]]
    assert "gaps" not in read_rule({**item, "cuts": "30, 40", "least": ""}, "integer")
