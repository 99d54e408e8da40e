"""The command as a whole: its help, its exit codes, and what it says and does not say when something goes wrong."""

import os
import re
import shlex
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from quietfield import Error, __version__, cli
from quietfield.cli import main
from quietfield.errors import STANDS, Unreadable


def every_command() -> Iterator[tuple[str, Any]]:
    """All commands with their full names: the root, each in the table, and the parts of groups."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for part, inner in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {part}", inner)

    yield "quietfield", cli.built(cli.app)
    for name in cli.COMMANDS:
        yield from walk(f"quietfield {name}", cli.load(name))


ALL = list(every_command())
each_command = pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])


@each_command
def test_every_command_and_option_has_help(name: str, command: Any) -> None:
    assert command.help, f"{name} needs a docstring"
    for param in command.params:
        assert getattr(param, "help", None), f"{param.name!r} of `{name}` needs help="


@each_command
def test_every_command_and_option_is_in_the_documentation(name: str, command: Any, root: Path) -> None:
    pages = [*(root / "docs" / "how-to").glob("*.md"), root / "docs" / "reference.md"]
    text = "\n".join(page.read_text() for page in pages)
    own = ("--help", "--install-completion", "--show-completion")
    options = [option for param in command.params for option in param.opts if option.startswith("--")]
    for said in (name, *(option for option in options if option not in own)):
        assert re.search(rf"(?<![\w-]){re.escape(said)}(?![\w-])", text), f"no page in docs/how-to tells of `{said}`"


def test_options_that_several_commands_share_are_declared_once() -> None:
    """An option of a shared group has one help and one kind of value wherever it stands."""
    plan_says_more = {"--epsilon", "--noise"}  # candidates, and both
    seen: dict[str, set[tuple[str, str]]] = {}
    for name, command in ALL:
        for param in command.params:
            option = param.opts[0]
            if getattr(param, "rich_help_panel", None) and not (name == "quietfield plan" and option in plan_says_more):
                seen.setdefault(option, set()).add((param.help, str(param.type_descriptor.annotation)))
    assert {"--values", "--delimiter", "--encoding", "--unit", "--epsilon", "--delta", "--noise"} <= set(seen)
    assert {option: said for option, said in seen.items() if len(said) > 1} == {}


def test_choices_are_those_of_the_library() -> None:
    from quietfield import inference, learning
    from quietfield.study.rehearsal import MEASURES

    kinds = {(name, param.name): param.type_descriptor.annotation for name, command in ALL for param in command.params}
    assert set(get_args(kinds["quietfield fit", "method"])) == set(learning.METHODS)
    assert set(get_args(kinds["quietfield fit", "inference"])) == set(inference.KINDS)
    assert set(get_args(kinds["quietfield plan", "measure"])) == set(MEASURES)


@each_command
def test_every_command_has_an_example_that_would_parse(name: str, command: Any) -> None:
    if hasattr(command, "commands") and name != "quietfield":
        return  # a group: its parts have the examples
    assert command.epilog, f"{name} needs epilog='Example: {name} ...'"
    _, found, example = command.epilog.partition(f"{name} ")
    assert found, f"the example of `{name}` does not show `{name} ...`"
    words = shlex.split(example.splitlines()[0])
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    shown = {word.partition("=")[0] for word in words if word.startswith("-") and not word[1:2].isdigit()}
    assert shown <= known, f"the example of `{name}` uses unknown options {shown - known}"
    for param in command.params:
        if param.required and any(option.startswith("-") for option in param.opts):
            assert shown & set(param.opts), f"the example of `{name}` lacks the required {param.opts[0]}"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_the_summary_is_shown_whole(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    summary = cli.COMMANDS[name][1]
    assert summary.endswith(".")
    assert main(["--help"]) == 0
    assert summary in capsys.readouterr().out, "too long for a line of 80 characters"


@each_command
def test_completion_is_installed_by_the_whole_command(name: str, command: Any) -> None:
    shown = {option for param in command.params for option in param.opts}
    assert ("--install-completion" in shown) == (name == "quietfield")


@each_command
def test_help_exits_with_0(name: str, command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split()[1:], "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: {name}")
    assert "--help" in shown


def test_help_lists_every_command_and_loads_none() -> None:
    code = (
        "import sys; from quietfield.cli import main; main(['--help']);"
        "loaded = {'jax', 'numpy', 'pyarrow', 'duckdb', 'opendp', 'rich', 'pydantic'} & set(sys.modules);"
        "loaded |= {m for m in sys.modules if m.startswith('quietfield.cli.')};"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in cli.COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"quietfield {__version__}\n"


def test_wrong_use_exits_with_2_and_suggests(plant: "Plant", capsys: pytest.CaptureFixture[str]) -> None:
    plant(lambda: None)
    assert main(["plented"]) == 2
    assert "Did you mean 'planted'?" in capsys.readouterr().err
    assert main(["planted", "--nothing"]) == 2
    assert main(["--nothing"]) == 2


Plant = Callable[[Callable[[], None]], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Add a command `planted` that runs a function."""

    def add(body: Callable[[], None]) -> None:
        module = types.ModuleType("quietfield.cli.planted")
        module.app = typer.Typer()  # type: ignore[attr-defined]

        def planted() -> None:
            """A planted command."""
            body()

        module.app.command()(planted)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, "planted", ("planted", "A planted command."))

    return add


def failing(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def in_curator(error: BaseException) -> Callable[[], None]:
    """A function that raises as if from code of the curator."""
    scope: dict[str, Any] = {"__name__": "quietfield.curator.planted", "error": error}
    exec("def body():\n    raise error\n", scope)
    return scope["body"]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Error("the file is damaged; get another copy."), 1, "Error: the file is damaged; get another copy.\n"),
        (FileNotFoundError(2, "No such file or directory", "a.qfr"), 1, "Error: a.qfr: No such file or directory; "),
        (OSError(28, "No space left on device"), 1, "Error: No space left on device; check"),
        (ModuleNotFoundError("No module", name="duckdb.x"), 1, "Error: this needs duckdb, which is not installed; "),
        (MemoryError(), 1, "Error: out of memory"),
        (ValueError("secret"), 1, "Error: something unforeseen happened (ValueError)"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (SystemExit(3), 3, ""),
    ],
)
def test_errors_become_one_line(
    plant: Plant, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    plant(failing(error))
    assert main(["planted"]) == code
    shown = capsys.readouterr().err
    assert shown.startswith(said)
    assert len(shown.splitlines()) == (1 if said else 0)
    assert "Traceback" not in shown
    assert "secret" not in shown


def test_an_interrupted_command_leaves_at_once(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    left: list[int] = []
    plant(failing(KeyboardInterrupt()))
    monkeypatch.setattr(sys, "argv", ["quietfield", "planted"])
    monkeypatch.setattr(os, "_exit", left.append)
    assert main() == 130
    assert left == [130]
    assert capfd.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize("paid", [False, True])
def test_an_interrupt_that_an_engine_made_an_error_of(
    paid: bool, plant: Plant, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in a callback of DuckDB comes back as an error of DuckDB; that it was paid for is told all the same."""

    def body() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise Unreadable(f"the data could not be read.{f' {STANDS}' if paid else ''}") from None

    left: list[int] = []
    plant(body)
    monkeypatch.setattr(sys, "argv", ["quietfield", "planted"])
    monkeypatch.setattr(os, "_exit", left.append)
    assert main() == 130
    assert left == [130]
    assert capfd.readouterr().err == (f"{STANDS}\n" if paid else "") + "Interrupted.\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_standard_output_that_is_closed_or_full(flags: list[str]) -> None:
    command = [sys.executable, "-m", "quietfield", "plan", "--help" if not flags else "nothing.json", *flags]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=300)
    assert done.returncode in (1, 2)
    assert b"Traceback" not in done.stderr
    assert done.stderr.strip()
    shell = ["sh", "-c", '"$0" -m quietfield --version >&-', sys.executable]
    done = subprocess.run(shell, stderr=subprocess.PIPE, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_that_ends_well(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    plant(lambda: typer.echo("done"))
    assert main(["planted"]) == 0
    assert capsys.readouterr() == ("done\n", "")


def test_debug_shows_the_traceback(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    plant(failing(ValueError("a detail")))
    assert main(["--debug", "planted"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "in body" in shown
    assert "ValueError: a detail" in shown


def test_nothing_foreign_from_the_curator_is_quoted(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (ValueError("Could not convert string 'SECRET'"), FileNotFoundError(2, "No such file", "city=SECRET")):
        plant(in_curator(error))
        for arguments in (["planted"], ["--debug", "planted"]):
            assert main(arguments) == 1
            shown = "".join(capsys.readouterr())
            assert "SECRET" not in shown
            assert "Error: " in shown
            assert ("quietfield.curator" in shown or "in body" in shown) == ("--debug" in arguments)


def test_nor_when_an_error_of_ours_was_caused_by_one(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    engine = in_curator(ValueError("SECRET"))

    def body() -> None:
        try:
            engine()
        except ValueError as error:
            raise Error("the records could not be read; check their types.") from error

    plant(body)
    assert main(["--debug", "planted"]) == 1
    shown = capsys.readouterr().err
    assert "SECRET" not in shown
    assert "message withheld" in shown
    assert shown.endswith("Error: the records could not be read; check their types.\n")


def test_a_closed_pipe_is_no_noise() -> None:
    code = (
        "import sys, types, typer; from quietfield import cli; m = types.ModuleType('p'); m.app = typer.Typer();"
        "m.app.command()(lambda: [typer.echo('x' * 1000) for _ in range(1000)]);"
        "sys.modules['quietfield.cli.p'] = m; cli.COMMANDS['p'] = ('p', ''); sys.exit(cli.main(['p']))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_python_m_is_the_command() -> None:
    command = [sys.executable, "-m", "quietfield", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("quietfield ")
