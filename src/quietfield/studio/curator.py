"""The curator's pages: from a file to a signed release, one step a page, with the command that does the same."""

import hashlib
import json
import re
from fractions import Fraction
from math import ceil, cos, exp, pi, sin
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from quietfield.cliques import Structure
from quietfield.curator.counting import columns, is_address, lines
from quietfield.curator.inspection import inspect_lines, inspect_records
from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_words import describe_remaining
from quietfield.curator.release import warn_of_plan
from quietfield.curator.synthesis import SynthesisPlan
from quietfield.errors import Error
from quietfield.inference.plan import plan_elimination
from quietfield.memory import available_memory, readable_bytes
from quietfield.privacy import accounting, planning, promises
from quietfield.privacy.units import Person, Unit
from quietfield.releases import keys
from quietfield.releases.release import Release
from quietfield.schema import Schema
from quietfield.structures import chain, complete, star
from quietfield.studio.analyst import count_in_words, list_files, list_ledgers
from quietfield.studio.drafts import IDS, Draft, check_path
from quietfield.studio.forms import WRITTEN, is_filled, join, tidy
from quietfield.studio.jobs import command_text
from quietfield.study.choice import Choice

if TYPE_CHECKING:
    from quietfield.studio.server import Handler, Studio

STEPS = ("file", "schema", "unit", "structure", "epsilon", "ledger", "publish")
#: What a draft for synthetic records in one step begins with: tables are chosen privately, and labels take a delta.
SYNTHESIS = {"synthesis": True, "auto": True, "noise": "gaussian", "delta": "1e-9"}
#: The rule that a column of a type is given to begin with.
RULES = {"integer": "cuts", "number": "cuts", "date": "dates", "time": "dates"}
FIELDS = (
    "column", "name", "use", "kind", "labels", "cuts", "least", "most", "period", "start", "end", "null", "unknown",
)  # fmt: skip


def create(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    choices = SYNTHESIS if _text(asked, "kind") == "synthesis" else {}
    made = Draft.create(_text(asked, "name"), path=check_path(_text(asked, "path")), **choices)
    return {"go": f"#/draft/{made.name}/file"}


def copy(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """The same choices under another name, with an id of its own: it is another release, and is charged."""
    choices = {name: value for name, value in Draft.load(asked["name"]).data.items() if name not in IDS}
    made = Draft.create(_text(asked, "to"), **choices)
    return {"go": f"#/draft/{made.name}/publish"}


def show(studio: "Studio", asked: dict[str, Any]) -> str:
    """One step of a draft."""
    step, draft = asked["step"], Draft.load(asked["name"])
    done = _done(draft)
    if step not in done:
        raise Error(f"there is no step {step!r}; choose one of the list.")
    state = draft.state(studio.jobs)
    content = _CONTENTS[step](studio, draft)
    return studio.render(
        f"{step}.html", draft=draft, data=draft.data, step=step, state=state,
        locked=state not in ("open", "failed"), done=done, **content,
    )  # fmt: skip


def _done(draft: Draft) -> dict[str, bool]:
    """The steps of a draft, and which have all that they need."""
    has = {needed: not _problem(draft, needed) for needed in ("columns", _needed(draft), "unit", "noises")}
    described = has[_needed(draft)]
    found = {"file": has["columns"], "schema": described, "unit": has["unit"], "structure": described}
    found["epsilon"] = described and has["unit"] and has["noises"]
    found |= {"ledger": bool(draft.data["ledger"] and draft.data["key"]), "publish": False}
    if draft.data["synthesis"]:
        del found["structure"]
    return found


def _needed(draft: Draft) -> str:
    """What has to be known of the columns: their schema, or for synthetic records in one step whatever is known."""
    return "known" if draft.data["synthesis"] else "schema"


def _problem(draft: Draft, needed: str) -> str:
    """Why something of a draft cannot be had yet, or an empty text."""
    try:
        getattr(draft, needed)
    except Error as error:
        return str(error)
    return ""


def _file(studio: "Studio", draft: Draft) -> dict[str, Any]:
    return {"command": command_text(draft.command("schema"))}


def save_file(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    draft = Draft.load(asked["name"])
    said = {name: _text(asked, name) for name in ("path", "delimiter", "encoding")}
    said["path"] = check_path(said["path"])
    changed = Draft(draft.name, {**draft.data, **said, "values": _text(asked, "values") or "codes"})
    with changed.open_records() as records:
        if lines.is_lines(records):
            if not asked.get("header"):
                raise Error(
                    "the first line of the file would be published as the names of its columns. Look at it: if it "
                    "holds names, tick the box; if it is a record, add a line of names above it."
                )
            lines.check_header(records, True)
            if (hint := lines.single_name_hint(records)) and not said["delimiter"]:
                raise Error(hint)
        found = [[name, kind] for name, kind in columns(records).items()]
    attributes = draft.data["attributes"]
    if found != [list(column) for column in draft.data["columns"]]:
        known = {item["column"]: item for item in attributes}
        attributes = [known.get(name) or _start(name, kind) for name, kind in found]
    draft.save(
        studio.jobs, asked.get("revision"), **said, values=changed.data["values"], columns=found, attributes=attributes
    )
    return {"go": f"#/draft/{draft.name}/{'unit' if draft.data['synthesis'] else 'schema'}"}


def _start(name: str, kind: str) -> dict[str, Any]:
    blank = dict.fromkeys(FIELDS, "")
    return {**blank, "column": name, "name": name, "use": "yes", "kind": RULES.get(kind, "labels"), "period": "month"}


def _schema(studio: "Studio", draft: Draft) -> dict[str, Any]:
    problem = _problem(draft, _needed(draft)) if draft.filled else ""
    written = bool(draft.filled) and not _problem(draft, "schema")
    return {
        "types": dict(draft.data["columns"]), "lists": studio.texts["lists"], "problem": problem,
        "looks": written and not is_address(draft.data["path"]),
        "sizes": dict(zip(draft.schema, draft.schema.domain.shape, strict=True)) if written else {},
        "command": command_text(draft.command("inspect")), "job": studio.jobs.find(draft.found),
        "unpaid": _problem(draft, "unit") or _problem(draft, "ledger"), "charge": draft.charge("discovery_id"),
    }  # fmt: skip


def save_schema(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """Keep the form whatever it holds, and go on where it makes a schema."""
    draft = Draft.load(asked["name"])
    items = [
        {**item, **{field: _text(asked, f"{field}.{i}") for field in FIELDS if field != "column"}}
        for i, item in enumerate(draft.data["attributes"])
    ]
    if not (draft.data["synthesis"] or any(map(is_filled, items))):
        raise Error(
            "no column has values yet: list those of each column that is used, or write cut points or a period; take "
            "the tick from columns that are not."
        )
    saved = draft.save(studio.jobs, asked.get("revision"), attributes=items)
    if _problem(saved, _needed(saved)):
        return {"reload": True}
    saved.write_inputs()
    return {"go": f"#/draft/{draft.name}/unit"}


def look(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """NOT PRIVATE: which values of each column the schema does not know. Nothing of it is kept."""
    draft = Draft.load(asked["name"])
    with draft.open_records() as records:
        found = inspect_records(records, draft.schema, 10)
        broken, foreign, odd, every = inspect_lines(records, found[0].records if found else 0)
    return {
        "html": studio.render("values.html", found=found, broken=broken, foreign=foreign, odd=odd, every=every),
        "target": "#values",
    }


def discover(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """Charge the ledger, and find labels, cut points and periods with noise."""
    if not asked.get("agree"):
        raise Error("say that the ledger may be charged; nothing was charged.")
    draft = Draft.load(asked["name"])
    draft.discover(studio.jobs, asked.get("revision"), _text(asked, "epsilon"), _text(asked, "delta"))
    return {"reload": True}


def take_over(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """Fill the form with the schema that was discovered; it says in the schema's file what was paid."""
    draft = Draft.load(asked["name"])
    content = Schema.load(draft.found).to_json()
    rules = {rule.get("column", rule["name"]): rule for rule in content["attributes"]}
    items = []
    for item in draft.data["attributes"]:
        rule = rules.get(item["column"])
        if rule is None:
            items.append({**item, "use": ""})
            continue
        texts = {name: "" if rule.get(name) in (None, "drop") else str(rule[name]) for name in FIELDS if name in rule}
        texts["labels"] = "\n".join(map(str, rule.get("labels", ())))
        texts["cuts"] = ", ".join(map(str, rule.get("cuts", ())))
        written = {name: rule[name] for name in WRITTEN if name in rule}
        items.append({**item, **texts, "column": item["column"], "use": "yes", "written": written})
    draft.save(studio.jobs, asked.get("revision"), attributes=items, discovered=content.get("discovered"))
    return {"reload": True}


def _unit(studio: "Studio", draft: Draft) -> dict[str, Any]:
    return {"who": "" if _problem(draft, "unit") else draft.unit.who}


def save_unit(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    draft = Draft.load(asked["name"])
    twice, column, rows = (_text(asked, name) for name in ("twice", "column", "rows"))
    if twice not in ("no", "yes"):
        raise Error("say first whether one person can appear in more than one row.")
    said = {"kind": "rows", "rows": "1"}
    if twice == "yes":
        said = {"kind": "rows", "rows": rows} if not column else {"kind": "person", "column": column, "rows": rows}
        if column and _text(asked, "weigh") == "normalise":
            said = {"kind": "normalise", "column": column}
    changed = Draft(draft.name, {**draft.data, "unit": said, "one_line": bool(asked.get("one_line"))})
    if isinstance(changed.unit, Person) and changed.is_lines and not changed.data["one_line"]:
        raise Error(studio.texts["unit"]["need_line"])
    draft.save(studio.jobs, asked.get("revision"), unit=said, one_line=changed.data["one_line"])
    return {"go": f"#/draft/{draft.name}/{'epsilon' if draft.data['synthesis'] else 'structure'}"}


def _structure(studio: "Studio", draft: Draft) -> dict[str, Any]:
    problem = _problem(draft, "schema") or _problem(draft, "unit")
    return {"problem": problem} if problem else {"problem": "", **_drawn(draft)}


def _drawn(draft: Draft) -> dict[str, Any]:
    """The structure as a picture to click on, and what it costs."""
    domain, cliques = draft.schema.domain, draft.cliques
    if draft.data["auto"]:
        candidates = Choice().tables(domain)
        return {
            "names": list(domain), "candidates": len(candidates) - len(domain), "rounds": Choice().rounds_for(domain),
            "command": command_text(draft.command("plan")),
        }  # fmt: skip
    structure = Structure(cliques)
    figures = plan_elimination(domain, structure)
    names = list(domain)
    wide, high = min(110 + 16 * len(names), 280), min(60 + 12 * len(names), 180)  # of the ring that they stand on
    turns = {name: 2 * pi * i / len(names) for i, name in enumerate(names)}
    places = {name: (wide * sin(turn), -high * cos(turn)) for name, turn in turns.items()}
    return {
        "names": names, "places": places, "view": f"{-wide - 64} {-high - 22} {2 * wide + 128} {2 * high + 44}",
        "edges": structure.edges, "cliques": cliques, "figures": figures,
        "domain": domain, "memory": readable_bytes(figures.bytes), "fits": figures.bytes <= available_memory(),
        "cells": sum(table.cells for table in draft.noises), "noises": draft.noises,
        "command": command_text(draft.command("plan")),
    }  # fmt: skip


def save_structure(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    """Join attributes, or take them apart, or begin with one of the usual structures."""
    draft = Draft.load(asked["name"])
    names, chosen = draft.schema.domain.attributes, asked.get("chosen") or []
    chosen = [chosen] if isinstance(chosen, str) else list(chosen)
    preset = _text(asked, "preset")
    if preset == "auto":
        cliques = draft.cliques
    elif preset:
        made = {
            "chain": lambda: chain(names),
            "pairs": lambda: complete(names),
            "star": lambda: star(names, _text(asked, "center") or None),
        }
        cliques = tidy(names, made[preset]() if preset in made else ())
    else:
        if not set(chosen) <= set(names) or len(chosen) < 2:
            raise Error("choose two attributes or more to count together.")
        cliques = join(names, draft.cliques, chosen)
    choices = {"cliques": cliques, "auto": preset == "auto"}
    changed = Draft(draft.name, {**draft.data, **choices})
    _drawn(changed)  # an error says what to mend
    saved = draft.save(studio.jobs, asked.get("revision"), **choices)
    saved.write_inputs()
    return {
        "html": studio.render("drawing.html", draft=saved, data=saved.data, locked=False, **_drawn(saved)),
        "target": "#drawing",
    }


def _epsilon(studio: "Studio", draft: Draft) -> dict[str, Any]:
    problem = _problem(draft, _needed(draft)) or _problem(draft, "unit")
    if problem:
        return {"problem": problem}
    if draft.data["auto"]:  # made-up people have no structure to be found
        return {"problem": "", **_told(draft)}
    job = studio.jobs.find(_rehearsal(draft))
    curve = Markup("")
    if job.state == "done":
        svg = Path(_rehearsal(draft)).read_text(encoding="utf-8")
        curve = Markup(re.sub(r' style="[^"]*"', "", svg))  # ours; the page allows no styles in the markup
    return {
        "problem": "", "job": job, "curve": curve, "command": command_text(draft.command("rehearse")), **_told(draft),
    }  # fmt: skip


def _told(draft: Draft) -> dict[str, Any]:
    """What an epsilon means, in words and on a made-up table."""
    data = draft.data
    epsilon = accounting.to_rational(data["epsilon"], "epsilon")
    delta = None if draft.delta is None else accounting.to_probability(draft.delta)
    first = next((one for one in draft.noises if not one.interaction), None)
    each, made_up = 0, list[list[int]]()
    if first is not None:
        each, random = max(int(data["records"]) // first.cells, 1), np.random.default_rng(0)
        draws = (random.laplace if delta is None else random.normal)(each, first.noise.scale, (3, min(first.cells, 6)))
        made_up = np.rint(draws).astype(int).tolist()
    return {
        "words": promises.describe_promise(epsilon, delta, None, "add_remove"), "noises": draft.noises,
        "belief": [(prior, _belief(prior, float(epsilon))) for prior in (0.01, 0.1, 0.5)] if delta is None else [],
        "warning": planning.warn_of_budget(epsilon, delta), "first": first, "each": each,
        "made_up": made_up,
    }  # fmt: skip


def _belief(prior: float, epsilon: float) -> float:
    """The most that a belief can become by what changes odds by a factor of e^epsilon; rounded up, as a bound is.

    >>> _belief(0.5, 1.0)
    0.732
    """
    odds = prior / (1 - prior) * exp(min(epsilon, 700))
    return ceil(1000 * odds / (1 + odds)) / 1000


def _rehearsal(draft: Draft) -> str:
    """The picture of the rehearsal of just these choices."""
    said = [draft.data[name] for name in ("noise", "delta", "records")]
    asked = [draft.schema.to_json(), draft.cliques, draft.unit_text, *said]
    return f"{draft.name}/rehearsal-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]}.svg"


def _with_epsilon(draft: Draft, asked: dict[str, Any]) -> Draft:
    said = {name: _text(asked, name) or draft.data[name] for name in ("epsilon", "noise", "delta", "records")}
    changed = Draft(draft.name, {**draft.data, **said})
    _told(changed)  # an error says what to mend
    return changed


def preview_epsilon(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    changed = _with_epsilon(Draft.load(asked["name"]), asked)
    return {"html": studio.render("meaning.html", data=changed.data, **_told(changed)), "target": "#meaning"}


def save_epsilon(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    changed = _with_epsilon(Draft.load(asked["name"]), asked)
    said = {name: changed.data[name] for name in ("epsilon", "noise", "delta", "records")}
    draft = changed.save(studio.jobs, asked.get("revision"), **said)
    if asked.get("button") == "rehearse":
        draft.write_inputs()
        target = _rehearsal(draft)
        studio.jobs.start(target, [*draft.command("rehearse"), "--svg", target])
        return {"reload": True}
    return {"go": f"#/draft/{draft.name}/ledger"}


def _ledger(studio: "Studio", draft: Draft) -> dict[str, Any]:
    problem = _problem(draft, "unit")
    path = draft.data["ledger"]
    book = Ledger(path) if path and Path(path).is_file() else None
    every = [path for path in list_files(".pem") if not path.endswith(".pub.pem")]
    return {
        "problem": problem, "ledgers": list_ledgers(), "keys": every, "ledger": book,
        "command": "" if problem else command_text(draft.command("ledger")),
    }  # fmt: skip


def save_ledger(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    draft = Draft.load(asked["name"])
    path, key = _text(asked, "ledger"), _text(asked, "key")
    if not path:
        raise Error("name a ledger and a key; where there is none yet, make one below.")
    book = Ledger(path)
    if not _problem(draft, "plan"):
        draft.plan.price.check(book)
    if key:
        keys.is_encrypted(key)
    draft.save(studio.jobs, asked.get("revision"), ledger=path, key=key)
    return {"go": f"#/draft/{draft.name}/publish"} if key else {"reload": True}


def create_ledger(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    draft = Draft.load(asked["name"])
    draft.check_revision(asked.get("revision"))
    book = Ledger.create(
        _ending(_text(asked, "path"), ".db"), epsilon=_text(asked, "total"), unit=_whose(draft.unit),
        delta=_text(asked, "delta") or None, name=_text(asked, "title"),
    )  # fmt: skip
    draft.save(studio.jobs, asked.get("revision"), ledger=str(book.path))
    return {"reload": True}


def _whose(unit: Unit) -> Unit:
    """The unit of a ledger: how many rows of a person count may differ from release to release."""
    return Person(unit.column, rows=1, kind=unit.kind) if isinstance(unit, Person) else unit


def create_key(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    draft = Draft.load(asked["name"])
    draft.check_revision(asked.get("revision"))
    phrase = str(asked.get("passphrase", ""))
    if not phrase or phrase != asked.get("again"):
        raise Error("write the passphrase twice, the same both times.")
    made, _ = keys.create_keys(_ending(_text(asked, "path"), ".pem"), phrase)
    draft.save(studio.jobs, asked.get("revision"), key=str(made))
    return {"reload": True}


def _ending(path: str, ending: str) -> str:
    if not path:
        raise Error("no file is named; name the one to make.")
    return path if path.endswith(ending) else path + ending


def _publish(studio: "Studio", draft: Draft) -> dict[str, Any]:
    """In words, what will be published and what it costs; or what became of it."""
    job = studio.jobs.find(draft.target)
    if draft.state(studio.jobs) in ("running", "published", "charged"):
        there = [what for what, file in draft.files.items() if Path(file).is_file()]
        made = Path(draft.target).is_file()
        counted, doubts = count_in_words(Release.load(draft.target, complete=False)) if made else ("", "")
        return {
            "job": job, "charge": draft.charge() if draft.data["ledger"] else None, "missing": [], "there": there,
            "counted": counted, "doubts": doubts,
        }  # fmt: skip
    missing = []
    for step, needed in (
        ("file", "columns"), ("schema", _needed(draft)), ("unit", "unit"),
        ("" if draft.data["synthesis"] else "epsilon", "plan"), ("ledger", "ledger"), ("ledger", "key"),
    ):  # fmt: skip
        if said := _problem(draft, needed):
            missing.append((step, said))
    if missing:
        return {"job": job, "missing": missing[:1], "charge": None}
    plan, book = draft.plan, draft.ledger
    price = plan.price
    rho = price.rho if price.threshold is None else None  # thresholds spend delta beside it
    cost: Fraction | None = None
    protects, refused = price.unit.describe(), ""
    try:
        with draft.open_records() as records:
            lines.check_unit(records, price.unit)
            protects = lines.describe_unit(records, price.unit)
        cost = price.check(book)
    except Error as error:
        refused = str(error)
    takes = leaves = 0.0
    if cost is not None:
        left = [
            book.remaining / book.limit,
            1 - (book.spent + cost) / book.limit_with(book.thresholds + (price.threshold or 0)),
        ]
        takes, leaves = float(left[0] - left[1]), float(left[1])
    return {
        "job": job, "missing": [], "charge": None, "takes": takes, "leaves": leaves, "plan": plan,
        "ledger": book, "cost": cost, "refused": refused,
        "encrypted": keys.is_encrypted(draft.key), "protects": protects,
        "words": promises.describe_promise(price.epsilon, price.delta, rho, "add_remove"), "price": price,
        "noises": draft.noises, "command": command_text(draft.command("publish")),
        "after": "" if cost is None else describe_remaining(book, cost, price.threshold),
        "warnings": plan.warnings if isinstance(plan, SynthesisPlan) else warn_of_plan(plan),
        "rules": [] if _problem(draft, "schema") else draft.schema.attributes,
    }  # fmt: skip


def publish(studio: "Studio", asked: dict[str, Any]) -> dict[str, Any]:
    if not asked.get("agree"):
        raise Error("say that you have read what will be published; nothing was charged.")
    Draft.load(asked["name"]).publish(studio.jobs, asked.get("revision"), str(asked.get("passphrase", "")))
    return {"reload": True}


def _text(asked: dict[str, Any], name: str) -> str:
    """A field of a form, without the space around it."""
    return str(asked.get(name, "") or "").strip()


_CONTENTS = {
    "file": _file, "schema": _schema, "unit": _unit, "structure": _structure, "epsilon": _epsilon, "ledger": _ledger,
    "publish": _publish,
}  # fmt: skip
PAGES: "dict[str, Handler]" = {"draft/{name}/{step}": show}
ACTIONS: "dict[str, Handler]" = {
    "draft": create,
    "draft/{name}/copy": copy,
    "draft/{name}/file": save_file,
    "draft/{name}/schema": save_schema,
    "draft/{name}/look": look,
    "draft/{name}/discover": discover,
    "draft/{name}/take-over": take_over,
    "draft/{name}/unit": save_unit,
    "draft/{name}/structure": save_structure,
    "draft/{name}/preview": preview_epsilon,
    "draft/{name}/epsilon": save_epsilon,
    "draft/{name}/ledger": save_ledger,
    "draft/{name}/new-ledger": create_ledger,
    "draft/{name}/new-key": create_key,
    "draft/{name}/publish": publish,
}
