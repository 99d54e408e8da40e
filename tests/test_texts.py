"""Names as people see them: cut between letters, never too wide, nothing that reorders what stands beside them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from quietfield.domain import Domain
from quietfield.drawing.columns import text_width, truncate
from quietfield.drawing.graph import bars, structure_svg
from quietfield.models.model import Model
from quietfield.structures import chain
from quietfield.text import REORDERING, printable

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
TEXTS = st.text(
    st.sampled_from(["a", "年", "ع", "e", "\u0301", "\u0323", "👩", "\u200d", "👍", "🏽", "🇩", "🇪", " ", "ﾊ"]),
    max_size=30,
)


@given(TEXTS, st.integers(2, 40))
def test_what_is_cut_fits_and_is_whole_letters(text, most):
    short = truncate(text, most)
    assert text_width(short) <= most
    assert "".join(iter_graphemes(text)) == text
    if short != text:
        assert short.endswith("…")
        assert short[:-1] in {"".join(list(iter_graphemes(text))[:i]) for i in range(len(text) + 1)}
    else:
        assert text_width(text) <= most


@given(st.text(max_size=40))
def test_nothing_that_is_shown_reorders_or_controls(text):
    assert not set(printable(text)) & (REORDERING | set(map(chr, range(32))) | {"\u2028", "\u2029"})


def test_names_that_look_alike_do_not_when_shown():
    assert printable("ward\u200b a\u2060") == "ward\\u200b a\\u2060"
    assert printable("می\u200cخواهم " + FAMILY) == "می\u200cخواهم " + FAMILY


def test_bars_of_wide_labels_stand_in_one_column():
    lines = bars(["no", "二十歳未満", "e\u0301te\u0301", "two\nlines"], [0.4, 0.3, 0.2, 0.1]).splitlines()
    assert len(lines) == 4
    assert len({text_width(line.partition("█")[0]) for line in lines}) == 1


def test_no_share_is_written_as_zero_that_is_not():
    lines = bars(["a", "b", "c", "d"], [0.9992, 0.0007, 0.0001 - 1e-8, 1e-8]).splitlines()
    assert [line.split()[-1] for line in lines] == ["99.9200%", "0.0700%", "0.0100%", "<0.0001%"]
    assert [line.split()[-1] for line in bars(["a", "b"], [1.0, 0.0]).splitlines()] == ["100.0%", "0.0%"]


def test_a_name_in_a_graph_or_a_notebook_cannot_reorder_the_others():
    domain = Domain({"\u202egnorw": 2, "b": ["x", "\u202ey"]})
    structure = chain(["\u202egnorw", "b"])
    model = Model(domain, {clique: np.zeros((2, 2)) for clique in structure})
    for picture in (structure_svg(domain, structure), domain._repr_html_(), model._repr_html_()):
        assert "\u202e" not in picture
        assert "\\u202egnorw" in picture
