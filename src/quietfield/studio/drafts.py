"""Drafts: what a curator has chosen for a release so far, in a file, and what became of it.

A draft is a folder ``NAME/`` with ``draft.json``, and with ``schema.json`` and ``structure.json`` as the commands read
them. One for synthetic records in one step needs no schema: what is known of the columns is in ``known.json``, the rest
is discovered. A draft has the id of its release from the beginning. The ledger pays once for one id, so however often a
draft is published, from however many tabs, it is charged once; and the ledger, not the page, says whether it was.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any, Literal

from quietfield.cliques import Structure
from quietfield.curator.counting import is_address, open_address
from quietfield.curator.counting.csvfiles import CsvFile, separator_by_name
from quietfield.curator.counting.statfiles import StatFile, is_statfile
from quietfield.curator.ledger import Charge, Ledger
from quietfield.curator.publish import ReleasePlan
from quietfield.curator.release import plan_any
from quietfield.curator.steps import StepPlan
from quietfield.curator.synthesis import SynthesisPlan, plan_synthesis
from quietfield.errors import Error, FileError
from quietfield.files import hold_lock, read_json, write_atomically
from quietfield.privacy import calibration, planning
from quietfield.privacy.units import Person, Rows, Unit
from quietfield.releases import keys
from quietfield.schema import FORMAT, Schema
from quietfield.studio.forms import is_filled, read_rule, read_whole, tidy
from quietfield.studio.jobs import PASSPHRASE, STATE, Job, Jobs

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
START: dict[str, Any] = {
    "revision": 0, "path": "", "delimiter": "", "encoding": "", "values": "codes", "one_line": False, "columns": [],
    "attributes": [], "unit": {}, "cliques": [], "auto": False, "synthesis": False, "discovered": None,
    "epsilon": "1", "noise": "laplace", "delta": "1e-6",
    "records": "10000", "ledger": "", "key": "",
}  # fmt: skip

#: What a draft is charged for, once each: its release, and the discovery of its schema.
IDS = ("id", "discovery_id")

#: How the names of files of records end.
RECORDS = (".csv", ".tsv", ".tab", ".csv.gz", ".parquet", ".pq", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")

State = Literal["open", "running", "published", "charged", "failed"]


def check_name(name: str) -> str:
    """The name of a draft, or an error that says what would be one."""
    if not NAME.fullmatch(name):
        raise Error("a name has letters, digits, - and _, begins with a letter or digit, and has at most 60 of them.")
    return name


def check_path(path: str) -> str:
    """What names the records, as a draft keeps it: without a password, and a folder as the pattern of its files.

    >>> check_path("postgresql://curator:secret@localhost/clinic#visits")
    Traceback (most recent call last):
    quietfield.errors.Error: an address with a password is not taken: it would stand in files and on command lines...
    """
    if not path:
        raise Error("no file is named; name the one that holds the records, or a table of a database.")
    if is_address(path):
        user = path.partition("://")[2].rpartition("@")[0]
        if ":" in user or re.search("[?&][^=]*(pass|pwd|secret|token|key)", path, re.IGNORECASE):
            raise Error(
                "an address with a password is not taken: it would stand in files and on command lines. PostgreSQL "
                "finds it in the file that PGPASSFILE names, or in PGPASSWORD, where the studio was started."
            )
    elif Path(path).is_dir():
        endings = {end for file in Path(path).iterdir() for end in RECORDS if file.name.endswith(end)}
        if len(endings) != 1:
            raise Error(f"the folder {path!r} holds no files of records, or several kinds; name some: {path}/*.csv.")
        return f"{escape(path.rstrip('/'))}/*{endings.pop()}"
    return path


@dataclass(frozen=True)
class Draft:
    """One draft as it was read; :meth:`save` gives the next one."""

    name: str
    data: Mapping[str, Any]

    @classmethod
    def create(cls, name: str, **choices: Any) -> "Draft":
        """Make a draft in a new folder of this name."""
        place = Path(check_name(name))
        try:
            place.mkdir()
        except FileExistsError:
            raise FileError(f"there is a {name!r} in this folder already; choose another name.") from None
        except OSError as error:
            raise FileError(f"the folder {name!r} cannot be made: {error.strerror}; check your rights here.") from None
        made = cls(name, {**START, **choices, "revision": 0, **{name: secrets.token_hex(16) for name in IDS}})
        made._write()
        return made

    @classmethod
    def load(cls, name: str) -> "Draft":
        """Read a draft."""
        return cls(name, {**START, **read_json(Path(check_name(name)) / "draft.json")})

    @classmethod
    def names(cls) -> list[str]:
        """The names of all drafts of the folder."""
        return sorted(path.parent.name for path in Path().glob("*/draft.json") if NAME.fullmatch(path.parent.name))

    def save(self, jobs: Jobs, revision: object, **choices: Any) -> "Draft":
        """Change a draft, unless it was changed elsewhere since the page was shown, or is being published.

        Args:
            jobs: The jobs of the folder.
            revision: The revision that the page was made from.
            **choices: What is new.

        Returns:
            The draft as it is now.

        Raises:
            Error: It was changed in another tab, or can be changed no more.
        """
        Path(STATE).mkdir(mode=0o700, exist_ok=True)
        with hold_lock(Path(STATE, "drafts")):
            now = Draft.load(self.name)
            now.check_revision(revision)
            if now.state(jobs) not in ("open", "failed"):
                raise Error("this draft is published or charged, and changes no more; make a copy of it.")
            changed = Draft(self.name, {**now.data, **choices, "revision": now.data["revision"] + 1})
            changed._write()
        return changed

    def check_revision(self, revision: object) -> None:
        """Refuse to act on a page that shows an earlier state of the draft."""
        if str(revision) != str(self.data["revision"]):
            raise Error("this draft was changed in another tab meanwhile; reload the page and look again.")

    def _write(self) -> None:
        write_atomically(Path(self.name, "draft.json"), json.dumps(self.data, indent=1, ensure_ascii=False).encode())

    # What was chosen, as the library reads it. Each raises an error that says what is missing.

    @contextmanager
    def open_records(self) -> Iterator[Any]:
        """The records: files unopened, the table of a database while it is connected to."""
        path, encoding = self.data["path"], self.data["encoding"] or None
        delimiter = "\t" if self.data["delimiter"] == "tab" else self.data["delimiter"] or None
        if is_address(path):
            table = open_address(path)
            try:
                yield table
            finally:
                table.get_backend().disconnect()
        elif is_statfile(path):
            yield StatFile(path, self.data["values"], encoding)
        elif delimiter is None and encoding is None and not self.data["one_line"]:
            yield path
        else:
            yield CsvFile(path, delimiter, encoding or "utf-8", bool(self.data["one_line"]))

    @property
    def is_lines(self) -> bool:
        """Whether the records are lines of text, by their name or by what was said of them."""
        path = self.data["path"]
        if is_address(path) or is_statfile(path):
            return False
        said = any(self.data[name] for name in ("delimiter", "encoding", "one_line"))
        return said or separator_by_name(path) is not None

    @property
    def columns(self) -> dict[str, str]:
        """The columns and their types."""
        if not self.data["columns"]:
            raise Error("the names of the columns are not read yet; read them on the page of the file.")
        return dict(self.data["columns"])

    @cached_property
    def schema(self) -> Schema:
        """The schema."""
        used = self._rules([item for item in self.data["attributes"] if item.get("use")])
        if not used["attributes"]:
            raise Error("no column is used yet; say which become attributes, and which values they have.")
        return Schema.from_json({**used, "discovered": self.data["discovered"]})

    def _rules(self, items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Lines of the form of a schema, as the schema's file has them."""
        types = dict(self.data["columns"])
        rules = [read_rule(item, types.get(item["column"], "")) for item in items]
        return {"format": FORMAT, "version": 1, "attributes": rules, "impossible": []}

    @property
    def filled(self) -> list[Mapping[str, Any]]:
        """The lines of the form that are filled in, of columns that are used."""
        return [item for item in self.data["attributes"] if is_filled(item)]

    @property
    def left_out(self) -> list[str]:
        """The columns that are not used."""
        return [item["column"] for item in self.data["attributes"] if not item["use"]]

    @cached_property
    def known(self) -> Any:
        """What is known before a discovery: a schema if that is everything, or rules by name and None to leave out."""
        if len(self.filled) + len(self.left_out) == len(self.columns):
            return self.schema
        rules = dict(Schema.from_json(self._rules(self.filled)).attributes) if self.filled else {}
        return {**rules, **dict.fromkeys(self.left_out)}

    @cached_property
    def unit(self) -> Unit:
        """Whom the release protects."""
        said = self.data["unit"]
        if not said:
            raise Error("whom the release protects is not said yet; answer the questions on that page.")
        if said["kind"] == "rows":
            return Rows(read_whole(said.get("rows", "1"), "the number of rows of one person"))
        if said["kind"] == "normalise":
            return Person(said["column"], normalise=True)
        return Person(said["column"], rows=read_whole(said.get("rows", "1"), "the number of rows of one person"))

    @cached_property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """The tables to count: those that were joined, and each other attribute by itself."""
        known = self.schema.domain.attributes
        return tidy(known, (c for c in self.data["cliques"] if set(c) <= set(known)))

    @cached_property
    def noises(self) -> tuple[planning.TableNoise, ...]:
        """The noise of each table, and what it does to shares of the guessed number of records.

        There are none where the tables are chosen privately: which ones, and with what noise, the release will tell.
        """
        data = self.data
        if data["auto"]:
            calibration.check_budget(data["epsilon"], self.delta, data["noise"])
            return ()
        guess = planning.check_guess(int(data["records"]) if data["records"].isdecimal() else 0)
        structure, domain, noise = Structure(self.cliques), self.schema.domain, data["noise"]
        structure, weights = planning.allocate_budget(structure, domain, self.unit, "add_remove", None, noise)
        counted, _ = calibration.choose_statistics(structure, domain, self.unit, "add_remove", "auto", noise, weights)
        planned = planning.calibrate_noise(
            counted, epsilon=data["epsilon"], delta=self.delta, noise=noise, weights=weights
        )
        return planning.table_noises(counted, planned, None if getattr(self.unit, "normalise", False) else guess)

    @property
    def delta(self) -> str | None:
        """The delta of Gaussian noise; None for a pure promise."""
        return self.data["delta"] if self.data["noise"] == "gaussian" else None

    @cached_property
    def plan(self) -> ReleasePlan | StepPlan | SynthesisPlan:
        """The release, planned from what is public alone."""
        if self.data["synthesis"]:
            with self.open_records() as records:
                return plan_synthesis(
                    records, self.known, epsilon=self.data["epsilon"], delta=self.delta, unit=self.unit,
                    header=self.is_lines,
                )  # fmt: skip
        structure = "auto" if self.data["auto"] else Structure(self.cliques)
        return plan_any(
            self.schema, structure, epsilon=self.data["epsilon"], unit=self.unit, noise=self.data["noise"],
            neighbours="add_remove", delta=self.delta,
        )  # fmt: skip

    @property
    def ledger(self) -> Ledger:
        """The ledger that pays."""
        if not self.data["ledger"]:
            raise Error("no ledger is chosen yet; choose or make one.")
        return Ledger(self.data["ledger"])

    @property
    def key(self) -> str:
        """The private key's file."""
        if not self.data["key"]:
            raise Error("no key is chosen yet; choose or make the one that signs the release.")
        return str(self.data["key"])

    def write_inputs(self) -> None:
        """Write the schema and the structure as the commands read them; or what is known, where that is enough."""
        if self.data["synthesis"] and not isinstance(self.known, Schema):
            content = json.dumps(self._rules(self.filled), indent=1, ensure_ascii=False)
            write_atomically(f"{self.name}/known.json", content.encode())
            return
        self.schema.save(f"{self.name}/schema.json")
        content = json.dumps({"cliques": self.cliques}, indent=1, ensure_ascii=False)
        write_atomically(f"{self.name}/structure.json", content.encode())

    # What became of it.

    @property
    def target(self) -> str:
        """The file of the release."""
        return self.files["release"]

    @property
    def files(self) -> dict[str, str]:
        """What a synthesis writes, by what it is; of all that, a release is the release alone."""
        endings = {"records": "csv", "card": "card.md", "report": "html", "release": "qfr", "model": "qfm"}
        return {what: f"{self.name}/{self.name}.{ending}" for what, ending in endings.items()}

    def charge(self, of: str = "id") -> Charge | None:
        """The line of the ledger that paid for this draft's release (or, ``of="discovery_id"``, schema), if one did."""
        if not self.data["ledger"]:
            return None
        return next((c for c in Ledger(self.data["ledger"]).charges if c.release == self.data.get(of)), None)

    def state(self, jobs: Jobs) -> State:
        """What became of the draft: the release's file and the ledger say so, whatever else was killed meanwhile."""
        job = jobs.find(self.target)
        if job.state in ("running", "done"):
            return "running" if job.state == "running" else "published"
        if job.state == "none" and not Path(self.data["ledger"] or ".").is_file():
            return "open"
        return "charged" if self.charge() is not None else "failed" if job.state == "failed" else "open"

    def publish(self, jobs: Jobs, revision: object, passphrase: str) -> Job:
        """Start the release, once.

        Args:
            jobs: The jobs of the folder.
            revision: The revision that the curator has read and agreed to.
            passphrase: That of the key, or an empty text for a key without one.

        Returns:
            The job that makes the release, or the one that made it before.

        Raises:
            Error: Something is missing or wrong, the passphrase is, or it was charged without a release before.
        """
        self.check_revision(revision)
        state = self.state(jobs)
        if state in ("running", "published"):
            return jobs.find(self.target)
        if state == "charged":
            raise Error("this draft was charged already, and the charge stands; make a copy of it.")
        self.plan.price.check(self.ledger)
        encrypted = keys.is_encrypted(self.key)
        keys.load_private(self.key, passphrase if encrypted else None)
        self.write_inputs()
        return jobs.start(self.target, self.command("publish"), passphrase if encrypted else None)

    @property
    def found(self) -> str:
        """The file of the schema that is discovered."""
        return f"{self.name}/discovered.json"

    def discover(self, jobs: Jobs, revision: object, epsilon: str, delta: str) -> Job:
        """Start the discovery of a schema, once; columns that are filled in are known, those not used left out.

        Args:
            jobs: The jobs of the folder.
            revision: The revision that the curator has seen.
            epsilon: What it may cost.
            delta: What is promised with it: labels of texts need one.

        Returns:
            The job that discovers, or the one that did before.

        Raises:
            Error: Something is missing, or it was charged without a schema before.
        """
        self.check_revision(revision)
        job = jobs.find(self.found)
        if job.state in ("running", "done"):
            return job
        if self.charge("discovery_id") is not None:
            raise Error("this discovery was charged already, and the charge stands; make a copy of the draft.")
        content = json.dumps(self._rules(self.filled), indent=1, ensure_ascii=False)
        write_atomically(f"{self.name}/known.json", content.encode())
        terms = ["--epsilon", epsilon, "--delta", delta, "--noise", "gaussian", "--unit", self.unit_text]
        terms += ["--one-line-per-record"] if self.data["one_line"] else []
        paid = ["--ledger", str(self.ledger.path), "--id", self.data["discovery_id"]]
        said = [*self.command("schema")[:-1], self.found, "--discover", *terms, *self._known_options, *paid]
        return jobs.start(self.found, said)

    @property
    def _known_options(self) -> list[str]:
        known = ["--known", f"{self.name}/known.json"] if self.filled else []
        return known + [word for column in self.left_out for word in ("--leave-out", column)]

    # The same on the command line.

    def command(self, verb: str) -> list[str]:
        """The words after ``quietfield`` that do a step of this draft, run in its folder."""
        data, name, quick = self.data, self.name, self.data["noise"] == "laplace"
        reading: list[str] = []
        for option in ("delimiter", "encoding"):
            reading += [f"--{option}", data[option]] if data[option] else []
        reading += ["--values", "labels"] if data["values"] == "labels" and is_statfile(data["path"]) else []
        schema = ["--schema", f"{name}/schema.json"]
        header = ["--header"] if self.is_lines else []
        if verb == "schema":
            return ["schema", data["path"], *header, *reading, "--out", schema[1]]
        if verb == "inspect":
            return ["inspect", data["path"], *schema, *reading]
        structure = ["--structure", "auto" if data["auto"] else f"{name}/structure.json"]
        noise = [] if quick else ["--noise", "gaussian", "--delta", data["delta"]]
        unit = ["--unit", self.unit_text, *noise]
        guess = ["--records", data["records"]]
        if verb == "plan":
            return ["plan", schema[1], *structure, "--epsilon", data["epsilon"], *unit, *guess]
        if verb == "rehearse":
            return ["plan", schema[1], *structure, *unit, *guess, "--rehearse", "--seconds", "30"]
        if verb == "ledger":
            accounting = [] if quick else ["--accounting", "zcdp", "--delta", data["delta"]]
            return ["ledger", "create", "LEDGER", "--epsilon", "TOTAL", "--unit", self.unit_text, *accounting]
        reading += ["--one-line-per-record"] if data["one_line"] else []
        paid = ["--ledger", data["ledger"], "--key", data["key"]]
        if keys.is_encrypted(self.key):
            paid += ["--passphrase-env", PASSPHRASE]
        paid += ["--id", data["id"]]
        if data["synthesis"]:
            known = schema if isinstance(self.known, Schema) else self._known_options
            delta = [] if quick else ["--delta", data["delta"]]
            said = [*header, *known, "--epsilon", data["epsilon"], *delta, "--unit", self.unit_text, *reading, *paid]
            return ["synthesize", data["path"], *said, "--out", self.files["records"]]
        said = [*schema, *structure, "--epsilon", data["epsilon"], *unit, *reading, *paid]
        return ["release", data["path"], *said, "--out", self.target, "--json"]

    @property
    def unit_text(self) -> str:
        """The unit as the command line writes it."""
        unit = self.unit
        if isinstance(unit, Rows):
            return f"rows:{unit.rows}"
        if any(sign in name for name in unit.columns for sign in ":+"):
            return json.dumps(unit.to_json())
        return f"person:{'+'.join(unit.columns)}:{'normalise' if unit.normalise else unit.rows}"
