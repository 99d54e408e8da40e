"""Curves as pictures and as text: every point is inside, and 0 has a place although it has no logarithm."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from quietfield.drawing.charts import Series, crossing, curves_svg, curves_text

values = st.sampled_from([0.0, 1e-300, 1e-9, 0.02, 1.0, 3.5, 1e12])


@given(st.lists(values, min_size=1, max_size=6))
def test_curves_stay_inside_whatever_their_values(y):
    x = tuple(float(10**i) for i in range(len(y)))
    series = [Series("<noise>", x, tuple(y), tuple(v / 2 for v in y), tuple(v * 2 for v in y))]
    picture = ElementTree.fromstring(curves_svg(series, title="a & b", x="epsilon", y="error"))
    circles = [node for node in picture.iter() if node.tag.endswith("circle")]
    assert len(circles) == len(y)
    assert all(0 <= float(c.get("cx")) <= 560 and 0 <= float(c.get("cy")) <= 320 for c in circles)
    heights = [float(c.get("cy")) for c in circles]
    for a, first in zip(y, heights, strict=True):
        assert all(first >= other - 0.1 for b, other in zip(y, heights, strict=True) if a <= b)
    text = curves_text(series, x="epsilon", y="error")
    assert 1 <= len(re.findall("o", "".join(line.partition("│")[2] for line in text.splitlines()))) <= len(y)


def test_a_curve_that_reaches_zero_crosses_every_level():
    assert 0.1 < crossing([0.1, 1.0], [0.5, 0.0], 1e-6) < 1.0
