"""What the public functions say of themselves: every argument, what is returned, and an example."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quietfield as qf
from quietfield import interop, sklearn

#: Public modules beside the public names of the package.
MODULES = (interop, sklearn)
#: Functions without an example of their own: that of load_bif and load_uai is theirs too, or it needs another program.
WITHOUT_EXAMPLE = {"save_bif", "save_uai", "to_pgmpy", "from_pgmpy", "from_opendp"}


def public() -> Iterator[tuple[str, Any]]:
    """The public functions and classes by name; those of public modules among them."""
    for name in qf.__all__:
        found = getattr(qf, name)
        if inspect.ismodule(found):
            yield from of_module(found)
        elif callable(found):
            yield name, found
    for module in MODULES:
        yield from of_module(module)


def of_module(module: Any) -> Iterator[tuple[str, Any]]:
    for name, found in vars(module).items():
        if not name.startswith("_") and callable(found) and getattr(found, "__module__", "") == module.__name__:
            yield f"{module.__name__}.{name}", found


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the public methods of public classes that take arguments."""
    for name, found in public():
        if inspect.isfunction(found):
            yield name, found
            continue
        for each in dir(found):
            method = inspect.getattr_static(found, each)
            unbound = getattr(method, "__func__", method)
            if each.startswith("_") or not inspect.isfunction(unbound):
                continue
            if unbound.__module__.startswith("quietfield.") and parameters(unbound):
                yield f"{name}.{each}", unbound


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring in Google's style, by their headings; the prose is under ""."""
    parts = re.split(r"^(Args|Returns|Raises):\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def complaints(function: Callable[..., Any], *, example: bool = False) -> list[str]:
    """What is wrong with a docstring."""
    text = inspect.getdoc(function) or ""
    found = sections(text)
    named = re.findall(r"^    (\w+): \S", found.get("Args", ""), re.MULTILINE)
    said = []
    if named != parameters(function):
        said.append(f"Args names {named}, and the arguments are {parameters(function)}")
    returned = inspect.signature(function).return_annotation
    if (returned not in (None, "None")) != ("Returns" in found):
        said.append("Returns is there if and only if something is returned")
    if "Raises" in found and not re.match(r"    [\w, ]+: \S", found["Raises"]):
        said.append("Raises names errors, each with a colon and when it is raised")
    if example and ">>>" not in text:
        said.append("there is no example")
    return said


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_results_and_examples_are_told(name: str) -> None:
    function = FUNCTIONS[name]
    alone = "." not in function.__qualname__ and name.rpartition(".")[2] not in WITHOUT_EXAMPLE
    assert complaints(function, example=alone) == []


def test_all_of_the_public_functions_are_looked_at() -> None:
    assert {"release", "Ledger.charge", "Domain.labels", "quietfield.structures.chain"} <= set(FUNCTIONS)
    assert {"quietfield.interop.from_mbi", "quietfield.sklearn.DPMarkovRandomField.fit"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) > 60


def untold(a: int, b: int = 0) -> int:
    """A function.

    Args:
        a: A number.
    """
    return a + b


def silent(a: int) -> None:
    """A function.

    Args:
        a: A number.

    Returns:
        A number.

    Raises:
        when it likes.
    """


@pytest.mark.parametrize(("function", "count"), [(untold, 3), (silent, 3), (lambda: None, 2)])
def test_what_is_missing_is_found(function: Callable[..., Any], count: int) -> None:
    assert len(complaints(function, example=True)) == count
