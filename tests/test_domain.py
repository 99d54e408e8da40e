"""Domains: what can be, checked when it is written down."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.errors import Error, FileError

LABELS = st.one_of(
    st.integers(1, 6),
    st.lists(st.text(max_size=5), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5, unique=True),
)
DOMAINS = st.dictionaries(st.text(min_size=1, max_size=8), LABELS, max_size=5)


@given(DOMAINS, st.data())
def test_json_there_and_back(attributes, data):
    domain = qf.Domain(attributes)
    rules = []
    if len(domain) > 1 and all(size > 1 for size in domain.shape):
        names = data.draw(st.lists(st.sampled_from(domain.attributes), min_size=2, max_size=3, unique=True))
        rules = [{name: data.draw(st.sampled_from(domain.labels(name))) for name in names}]
    domain = qf.Domain(attributes, rules)
    again = qf.Domain.from_json(json.loads(json.dumps(domain.to_json())))
    assert again == domain
    assert hash(again) == hash(domain)
    assert again.attributes == tuple(attributes)
    assert len(again.impossible) == len(rules)


def test_sizes_and_labels():
    domain = qf.Domain({"a": 3, "b": ["no", "yes"], "c": [10, 20]})
    assert domain.shape == (3, 2, 2)
    assert domain.labels("a") == (0, 1, 2)
    assert domain.code("b", "yes") == 1
    assert domain.code("c", np.int64(20)) == 1
    assert domain.table_shape(("c", "a")) == (2, 3)
    assert domain.cells() == 12
    assert domain == qf.Domain({"a": [0, 1, 2], "b": ["no", "yes"], "c": [10, 20]})
    assert domain != qf.Domain({"b": ["no", "yes"], "a": 3, "c": [10, 20]})
    assert repr(domain) == "Domain({'a': 3, 'b': 2, 'c': 2})"
    assert domain.project(("c", "a")).attributes == ("c", "a")


def test_files_of_mbi_load_too(tmp_path):
    (tmp_path / "mbi.json").write_text('{"age": 5, "sex": 2}')
    assert qf.Domain.load(tmp_path / "mbi.json") == qf.Domain({"age": 5, "sex": 2})
    domain = qf.Domain({"über": ["ä", "\n"], "b": 2}, [{"über": "ä", "b": 1}])
    domain.save(tmp_path / "ours.json")
    assert qf.Domain.load(tmp_path / "ours.json") == domain


def test_impossible_combinations_become_masks():
    domain = qf.Domain({"a": 3, "b": 2, "c": 2}, [{"b": 1, "a": [0, 2]}, {"a": 1, "b": 0}, {"c": 1}])
    masks = dict(domain.masks)
    assert masks["a", "b"].tolist() == [[True, False], [False, True], [True, False]]
    assert masks[("c",)].tolist() == [True, False]
    assert domain.project(("b", "c")).impossible == ((("c", (1,)),),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: qf.Domain({"a": 0}), "'a' has no values"),
        (lambda: qf.Domain({"a": []}), "'a' has no values"),
        (lambda: qf.Domain({"a": -1}), "'a' has no values"),
        (lambda: qf.Domain({"a": "xyz"}), "a size or a list of labels"),
        (lambda: qf.Domain({"a": 2.5}), "a size or a list of labels"),
        (lambda: qf.Domain({"a": True}), "a size or a list of labels"),
        (lambda: qf.Domain({"a": [1, "x"]}), "all strings or all integers"),
        (lambda: qf.Domain({"a": [True, False]}), "truth values as strings"),
        (lambda: qf.Domain({"a": ["x", "x"]}), "lists 'x' more than once"),
        (lambda: qf.Domain({"a": {"f", "m"}}), "a size or a list of labels"),
        (lambda: qf.Domain({"a": 10**12}), "more than 4,194,304, .* group them"),
        (
            lambda: qf.Domain(dict.fromkeys("abcdefghijkl", 10), [dict.fromkeys("abcdefghijkl", 0)]),
            "on fewer attributes",
        ),
        (lambda: qf.Domain(dict.fromkeys(map(str, range(70)), 1), [dict.fromkeys(map(str, range(70)), 0)]), "axes"),
        (lambda: qf.Domain({"a": 2}, None), "a list of combinations"),
        (lambda: qf.Domain({"": 2}), "non-empty string"),
        (lambda: qf.Domain({3: 2}), "non-empty string"),
        (lambda: qf.Domain([("a", 2)]), "a mapping of names"),
        (lambda: qf.Domain({"a": 2}, [{"z": 1}]), "'z' is not an attribute"),
        (lambda: qf.Domain({"a": 2}, [{"a": 7}]), "7 is not a value of 'a'; expected one of 0, 1"),
        (lambda: qf.Domain({"a": 2}, [{"a": []}]), "lists no value"),
        (lambda: qf.Domain({"a": 2}, [{}]), "maps attributes to values"),
        (lambda: qf.Domain({"a": 2}, [{"a": [0, 1]}]), "every combination of 'a' is declared impossible"),
        (lambda: qf.Domain({"a": 2}).size("b"), "'b' is not an attribute; expected one of 'a'"),
        (lambda: qf.Domain.from_json({"format": "quietfield-domain", "version": 3}), "version 3"),
        (lambda: qf.Domain.from_json({"format": "quietfield-domain", "version": 1, "attributes": [3]}), "damaged"),
        (lambda: qf.Domain.from_json([1]), "is an object"),
    ],
)
def test_bad_domains_are_refused(make, message):
    with pytest.raises(Error, match=message):
        make()


def test_bad_files_are_refused(tmp_path):
    for text in ("", "{", '{"a": 2, "a": 3}', '{"a": NaN}', "\xff"):
        (tmp_path / "d.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(FileError, match="not valid JSON"):
            qf.Domain.load(tmp_path / "d.json")
    with pytest.raises(FileError, match="cannot read"):
        qf.Domain.load(tmp_path / "absent.json")


def test_a_domain_of_a_domain_keeps_its_rules_and_pickles():
    import os
    import pickle
    import subprocess
    import sys

    domain = qf.Domain({"a": 2, "b": 2}, [{"a": 0, "b": 0}])
    assert qf.Domain(domain) == domain
    hash(domain)
    code = "import pickle, sys, quietfield as qf; d = pickle.load(sys.stdin.buffer); print(d in {qf.Domain(d)})"
    there = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(domain),
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=True,
    )
    assert there.stdout.strip() == b"True"
