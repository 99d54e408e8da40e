"""The built documentation asks nothing of the network, and its pages speak of all that exists and of nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quietfield

# What a browser fetches by itself; a link that a person may click is no request.
REQUESTS = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import|url)\s*\(?\s*["']?((?:https?:)?//[^"'\s)]+)""",
    re.IGNORECASE,
)


def requests(text: str) -> list[str]:
    return [a or b for a, b in REQUESTS.findall(text)]


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_makes_no_request_to_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 4
    assert {f"{page.name}: {found}" for page in pages for found in requests(page.read_text())} == set()


@pytest.mark.parametrize(
    "text",
    [
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "<script async src=//cdn.example/a.js></script>",
        "@import url('https://cdn.example/a.css')",
        "a { background: url(http://cdn.example/a.png) }",
    ],
)
def test_a_request_would_be_seen(text: str) -> None:
    assert len(requests(text)) == 1
    assert requests('<a href="https://example.org">a link</a>') == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference.html").read_text()
    for name, module in quietfield._NAMES.items():
        anchor = f"quietfield.{module}" if name in quietfield._MODULES else f"quietfield.{module}.{name}"
        assert f'id="{anchor}"' in page, f"add `::: {anchor}` to docs/reference.md"


def test_every_page_is_in_the_navigation(root: Path) -> None:
    docs = root / "docs"
    listed = set(re.findall(r"[\w/.-]+\.md", (root / "mkdocs.yml").read_text()))
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert {page for page in there - listed if not page.startswith("results/")} == set()
    assert listed <= there


def test_the_architecture_page_lists_what_exists(root: Path) -> None:
    text = (root / "docs" / "architecture.md").read_text()
    layers = text.partition("## Layers")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", layers, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    package = root / "src" / "quietfield"
    there = {path.name for path in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    there |= {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()}
    assert listed == there, "the table of layers in docs/architecture.md does not match src/quietfield/"


@pytest.mark.parametrize("name", ["security.md", "results/security.md"])
def test_the_tests_that_a_page_names_exist(root: Path, name: str) -> None:
    """Each sentence about security names the test that shows it; a test that was renamed or deleted shows nothing."""
    file = ""
    named = re.findall(r"`([\w/]*test_\w+\.py)?(?:::(test_\w+))?`", (root / "docs" / name).read_text())
    assert sum(bool(path or test) for path, test in named) > 10
    for path, test in named:
        file = path or file
        if path or test:
            text = (root / "tests" / file).read_text()
            assert not test or f"def {test}(" in text, f"{name} names {file}::{test}"
