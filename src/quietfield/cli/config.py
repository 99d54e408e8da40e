"""A configuration file for commands that are run again and again, in TOML, to be kept under version control.

Its keys are the options of the command, written as on the command line without the dashes; what is said on the command
line wins. Relative paths start from the folder of the file, so that it means the same wherever it is read from.
"""

import glob
import json
import tomllib
from collections.abc import Callable, Set
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from quietfield.cli.arguments import WEIGHTS
from quietfield.errors import Error, FileError
from quietfield.files import read_bytes
from quietfield.text import join_names

LIMIT = 2**20
#: Options that are said anew each time: how to answer, and whether something may be replaced.
NEVER = {"config", "dry_run", "force", "as_json", "help", "install_completion", "show_completion"}


def loader(paths: Set[str], structured: Set[str] = frozenset()) -> Callable[[typer.Context, Path | None], Path | None]:
    """What ``--config`` does: read the file, and let its values stand in for options that are not given.

    ``paths`` are the parameters that name files, ``structured`` those that may also be written as lists or tables.
    """

    def load(context: typer.Context, value: Path | None) -> Path | None:
        if value is not None and not context.resilient_parsing:
            context.default_map = {
                **(context.default_map or {}),
                **read(value, context.command.params, paths, structured),
            }
        return value

    return load


def read(file: Path, params: list[Any], paths: Set[str], structured: Set[str]) -> dict[str, Any]:
    """The values in a file, as the command line would give them, by the names of parameters."""
    known = {_key(param): param for param in params if param.name not in NEVER}
    values = {}
    for key, value in _content(file).items():
        if key.replace("_", "-") not in known:
            raise FileError(f"{file}: there is no setting {key!r}{_hint(key, known)}")
        param = known[key.replace("_", "-")]
        flag = bool(getattr(param, "is_flag", False))
        try:
            if getattr(param, "multiple", False):
                listed = value if isinstance(value, list) else [value]
                values[param.name] = [_value(file, param.name, one, flag, paths, structured) for one in listed]
            else:
                values[param.name] = _value(file, param.name, value, flag, paths, structured)
        except Error as error:
            raise FileError(f"{file}: {key} {error}") from None
    return values


def _content(file: Path) -> dict[str, Any]:
    try:
        # Numbers stay as they are written: 0.1 is meant to be 1/10.
        return tomllib.loads(read_bytes(file, LIMIT).decode("utf-8"), parse_float=str)
    except UnicodeDecodeError:
        raise FileError(f"{file} is not UTF-8 text; a configuration file is TOML.") from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(
            f"{file} is not TOML: {error}; write lines such as epsilon = 0.5 or schema = 'a.json'."
        ) from None


def _key(param: Any) -> str:
    """How a parameter is called in a file: its longest option without dashes, or the name of an argument."""
    options = [option for option in param.opts if option.startswith("--")]
    return options[0].lstrip("-") if options else str(param.name).replace("_", "-")


def _hint(key: str, known: dict[str, Any]) -> str:
    if key.replace("-", "_") in NEVER or key == "json":
        return "; it is said on the command line, each time anew."
    near = get_close_matches(key.replace("_", "-"), known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; expected some of {join_names(sorted(known), 30)}."


def _value(file: Path, name: str, value: Any, flag: bool, paths: Set[str], structured: Set[str]) -> Any:
    if flag:
        if not isinstance(value, bool):
            raise Error(f"is true or false, not {value!r}.")
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        if name not in structured:
            raise Error("is a text or a number, not a list or a table.")
        return json.dumps(value)
    if not isinstance(value, str | int):
        raise Error(f"is a text or a number, not a {type(value).__name__}.")
    # What may also be the name of something, such as a structure, is a path where it looks like one.
    named = name in structured or (name == "weights" and value in WEIGHTS)
    is_path = name in paths and (not named or str(value).endswith(".json"))
    return _path(file.parent, str(value)) if is_path else str(value)


def _path(folder: Path, value: str) -> str:
    """A path from the folder of the file; a pattern stays one, and the folder's own name is none."""
    if "://" in value:  # the address of a database
        return value
    path = folder / value
    if path.exists() or not glob.has_magic(value):
        return str(path)
    return str(Path(glob.escape(str(folder))) / value)
