"""A strict reader of our own pages, for the tests: every element is closed, in order, and can be found."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "col", "img", "br", "link", "input"}
ALONE = {"rect", "path", "line", "circle"}  # of SVG, written as <rect/>


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    parent: "Element | None" = None
    children: list["Element"] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def all(self, tag: str = "") -> list["Element"]:
        """All elements inside, in order."""
        found = []
        for child in self.children:
            if not tag or child.tag == tag:
                found.append(child)
            found += child.all(tag)
        return found

    def classed(self, name: str) -> list["Element"]:
        return [e for e in self.all() if name in (e.attributes.get("class") or "").split()]

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> list[str]:
        return [*self.pieces, *(text for child in self.children for text in child._texts())]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.here = Element("", {})
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> repeats an attribute"
        element = Element(tag, dict(attrs), self.here)
        self.here.children.append(element)
        if tag not in VOID:
            self.here = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALONE, f"<{tag}/> is not closed in HTML"
        self.here.children.append(Element(tag, dict(attrs), self.here))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.here.tag, f"</{tag}> closes <{self.here.tag}>"
        assert self.here.parent is not None
        self.here = self.here.parent

    def handle_data(self, data: str) -> None:
        text = Element("#text", {}, self.here)
        text.pieces.append(data)
        self.here.children.append(text)


def read(page: str) -> Element:
    """The elements of a page; fails where one is not closed."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.here is reader.root, f"<{reader.here.tag}> is never closed"
    return reader.root
