"""The command ``quietfield``: its table of commands, and what it says when something goes wrong.

Each module in this folder holds a group of commands in a ``typer.Typer()`` named ``app``. To add a command, write it
there with a docstring, help for every option and an example as its ``epilog``, and add a line to ``COMMANDS``::

    app = typer.Typer()

    @app.command(epilog="Example: quietfield fit visits.qfr --out visits.qfm")
    def fit(release: Annotated[Path, typer.Argument(help="The release to learn from.")], ...) -> None:
        '''Learn a model from a release.'''

A module is loaded when one of its commands is run, so ``quietfield --help`` stays quick.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as built

from quietfield import __version__
from quietfield.errors import STANDS, Error, Unreadable
from quietfield.files import remove_temporary

#: command: (module in this folder, what it does in 60 characters). A module whose app has a command of that name gives
#: that command; otherwise the app as a whole is the command (one command, or a group such as ``ledger``).
COMMANDS: dict[str, tuple[str, str]] = {
    "compare": ("compare", "Compare models with a release, a truth or each other."),
    "demo": ("demo", "Show the way from records to a release and a learned model."),
    "export": ("export", "Write tables: those of a release, or a model's for people."),
    "fit": ("models", "Learn a model from a release alone."),
    "inspect": ("inspect", "Show nulls and unknown values by column (NOT PRIVATE)."),
    "key": ("key", "Make the keys that sign releases."),
    "ledger": ("ledger", "Make and show ledgers: what may be spent, and what is."),
    "plan": ("plan", "Show cost and noise before paying; rehearse on made-up people."),
    "query": ("query", "Ask a model for a distribution, with error bars."),
    "release": ("release", "Count, pay, add noise, and write a file that may be published."),
    "report": ("report", "Write a report on a release and its model as one HTML file."),
    "sample": ("models", "Draw records from a model."),
    "schema": ("schema", "Start a schema from the names and types of columns."),
    "score": ("score", "Score a model on records: exact (NOT PRIVATE), or noisy, paid."),
    "sign": ("sign", "Sign a release, also as the second of two persons."),
    "studio": ("studio", "Open a page that does what the commands do, on this machine."),
    "synthesize": ("synthesize", "From a raw table to synthetic records, private, in one step."),
    "verify": ("verify", "Check the signature and promise of a release or a model."),
}

# 2, for a wrong use, comes from typer; errors of ours bring their own (see errors.py).
FAILED, INTERRUPTED = 1, 130


class Commands(TyperGroup):
    """A group that loads a command's module when the command is run, and not to list it."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self.listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])
        return load(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self.listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.listing = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # only its keys are used, to suggest a name
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """The command of this name, from its module."""
    command = built(import_module(f"quietfield.cli.{COMMANDS[name][0]}").app)
    command = getattr(command, "commands", {}).get(name, command)
    command.name = name
    # Completion is the whole command's: `quietfield --install-completion`.
    command.params = [param for param in command.params if param.name not in ("install_completion", "show_completion")]
    _plain(command)
    _check_names(command)
    return command


def _check_names(command: Any) -> None:
    """Have - refused wherever a file is expected, before the command begins."""
    for part in getattr(command, "commands", {}).values():
        _check_names(part)
    run = command.callback
    if run is None:
        return
    # Records are a text, since they may be in a database that has an address.
    files = [name for name, hint in get_type_hints(run).items() if name == "data" or _holds(hint, Path)]

    @wraps(run)
    def checked(**values: Any) -> Any:
        from quietfield.cli.outputs import check_named

        for value in (values.get(name) for name in files):
            for path in value if isinstance(value, list | tuple) else [value]:
                check_named(path)
        return run(**values)

    command.callback = checked


def _holds(hint: Any, kind: type) -> bool:
    return hint is kind or any(_holds(part, kind) for part in get_args(hint))


def _plain(command: Any) -> None:
    """Plain help: it can be copied, and the brackets in ``quietfield[curator]`` are not taken for markup."""
    command.rich_markup_mode = None
    parts = getattr(command, "commands", {})
    for part in parts.values():
        _plain(part)
    if not parts:
        command.format_options = partial(_format_options, command)
        command.make_context = partial(_make_context, command.make_context)


def _make_context(make: Callable[..., Any], *words: Any, **more: Any) -> Any:
    """Read the words of a command; of a wrong value, say what typer says and not what its library puts before it."""
    try:
        return make(*words, **more)
    except typer.BadParameter as wrong:
        wrong.message = wrong.message.removeprefix("Value error, ")
        raise


def _format_options(command: Any, context: Any, formatter: Any) -> None:
    """List options under the headings of their groups, which plain help would leave out."""
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(context):
        if (record := param.get_help_record(context)) is not None:
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            groups.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
    for heading, records in groups.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


@dataclass
class Settings:
    """What was asked of the command as a whole."""

    debug: bool = False


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # it would print local variables, and those may hold records
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"quietfield {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: quietfield --version")
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
) -> None:
    """Learn discrete Markov random fields from noisy tables, with differential privacy."""
    if isinstance(context.obj, Settings):
        context.obj.debug |= debug


def main(arguments: Sequence[str] | None = None, command: typer.Typer = app, name: str = "quietfield") -> int:
    """Run a command and return its exit code: 0 success, 2 wrong usage, 130 interrupted, others failed.

    Errors are told in one sentence on the standard error. With ``--json`` the standard output, where a program expects
    an object, then holds ``{"error": sentence, "exit_code": number}``.
    """
    said = list(sys.argv[1:] if arguments is None else arguments)
    options = said[: said.index("--") if "--" in said else None]
    as_json = "--json" in options
    if arguments is not None:  # called from Python, whose signals are not ours to handle
        code = _run(command, name, said, options, as_json)
        if code == INTERRUPTED:
            print("Interrupted.", file=sys.stderr, flush=True)
            if as_json:
                _show_json("Interrupted.", code)
        return code
    from quietfield.cli.interrupts import Interrupts

    with Interrupts(lambda: _leave(as_json)) as interrupts:
        code = _run(command, name, said, options, as_json, interrupts.raised.is_set)
        if code == INTERRUPTED:
            _leave(as_json)  # at once: if its compiler was interrupted, JAX may crash while Python shuts down
        return code


def _run(
    command: typer.Typer,
    name: str,
    said: list[str],
    options: list[str],
    as_json: bool,
    interrupted: Callable[[], bool] = lambda: False,
) -> int:
    settings = Settings(debug="--debug" in options)  # wherever it stands
    said = [*(word for word in options if word != "--debug"), *said[len(options) :]]
    try:
        result = built(command).main(said, prog_name=name, standalone_mode=True, obj=settings)
        _flush()
        return result if isinstance(result, int) else 0
    except SystemExit as end:
        code = _ended(end)
        if code == INTERRUPTED:  # typer makes this of a KeyboardInterrupt
            return code
        wrong = getattr(end.__context__, "format_message", None)  # what typer has shown for a wrong use
        if as_json and code and wrong is not None:
            _show_json(wrong(), code)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence()
        return FAILED
    except Exception as error:  # noqa: BLE001  # the last line of defence: whatever it is, it is told in one sentence
        if isinstance(error, Unreadable) and interrupted():  # in a callback of an engine, which made an error of it
            if STANDS in str(error):
                print(STANDS, file=sys.stderr)
            return INTERRUPTED
        if settings.debug:
            print(debug_text(error), file=sys.stderr)
        code = error.exit_code if isinstance(error, Error) else FAILED
        print(f"Error: {sentence(error)}", file=sys.stderr)
        if as_json:
            _show_json(sentence(error), code)
        return code


def _show_json(message: str, code: int) -> None:
    try:
        print(json.dumps({"error": message, "exit_code": code}, ensure_ascii=False), flush=True)
    except OSError:  # nobody reads it, or there is no room for it: the sentence and the exit code tell as much
        silence()


def _ended(end: SystemExit) -> int:
    try:
        _flush()
    except BrokenPipeError:
        silence()
        return FAILED
    except Error as error:
        print(f"Error: {error}", file=sys.stderr)
        return FAILED
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return FAILED


def _leave(as_json: bool) -> None:
    """End the process at once, without what Python does at its end; from any thread."""
    said = {2: b"Interrupted.\n"}
    if as_json:
        said[1] = json.dumps({"error": "Interrupted.", "exit_code": INTERRUPTED}).encode() + b"\n"
    try:
        remove_temporary()
        for stream, text in said.items():
            with suppress(OSError):  # whoever was reading was interrupted too
                os.write(stream, text)
    finally:
        os._exit(INTERRUPTED)


def _flush() -> None:
    """Here, where a closed pipe can be dealt with, and not while Python shuts down."""
    if sys.stdout is None:  # closed by whoever called
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence()
        raise Error(
            f"cannot write to the standard output: {error.strerror}. What was asked for is done, but not all is shown."
        ) from None


def silence() -> None:
    """After a reader such as ``head`` went away: whatever is still buffered goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


# What may be shown. An error of ours says only what is public: code in curator/ catches the errors of its engines,
# which quote records ("Could not convert string 'HIV+' to INT32"), and raises one of ours `from None`, so that neither
# message nor traceback holds the other. An error that is not ours and passed through curator/ slipped through that
# net: of it we show the kind and the place in the code, and never the message.

#: The extra that brings a library which is not in the core.
EXTRAS = {
    "duckdb": "curator", "opendp": "curator", "ibis": "ibis", "psycopg": "ibis", "sqlglot": "ibis",
    "starlette": "studio", "uvicorn": "studio",
}  # fmt: skip


def sentence(error: BaseException) -> str:
    """One sentence for a person, without anything confidential."""
    if isinstance(error, Error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        about = "" if error.filename is None or _went_through_curator(error) else f"{error.filename}: "
        return f"{about}{error.strerror}; check the path, the space left and your rights there."
    if isinstance(error, ModuleNotFoundError) and (library := (error.name or "").split(".")[0]) in EXTRAS:
        return f"this needs {library}, which is not installed; run pip install 'quietfield[{EXTRAS[library]}]'."
    if isinstance(error, MemoryError):
        return "out of memory; use fewer or smaller cliques, or a machine with more."
    return (
        f"something unforeseen happened ({type(error).__name__}), which is a fault in quietfield; "
        "run `quietfield --debug ...` again and report what it shows."
    )


def debug_text(error: BaseException) -> str:
    """The traceback, with the messages of foreign errors left out where they may quote a record."""
    chain: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in chain:
        chain.append(step)
        step = step.__cause__ or (None if step.__suppress_context__ else step.__context__)
    withheld = any(_went_through_curator(one) for one in chain)
    shown = []
    for one in reversed(chain):
        frames = "".join(traceback.format_tb(one.__traceback__))
        message = str(one) if isinstance(one, Error) or not withheld else "(message withheld: it may quote a record)"
        told = "" if one is error and isinstance(one, Error) else f": {message}"  # the sentence follows, once
        shown.append(f"Traceback (most recent call last):\n{frames}{type(one).__name__}{told}")
    return "\n\nThen, while handling that:\n\n".join(shown)


def _went_through_curator(error: BaseException) -> bool:
    """Whether an error came through curator/, and may quote a record."""
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__", "").startswith("quietfield.curator"):
            return True
        step = step.tb_next
    return False
