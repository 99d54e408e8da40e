"""One function reads every kind of file, by its content; and errors have public names."""

import json
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield import errors

DOMAIN = qf.Domain({"a": 2})


def test_every_kind_of_file_is_known_by_its_content(tmp_path: Path) -> None:
    schema = qf.Schema({"a": [0, 1]})
    release = qf.Release.from_tables(DOMAIN, {("a",): [5, 6]}, noise=qf.Laplace(1.0), total=11)
    model = qf.Model(DOMAIN, {("a",): np.zeros(2)})
    for kind, save in (
        (qf.Release, release.save),
        (qf.Model, model.save),
        (qf.Schema, schema.save),
        (qf.Domain, DOMAIN.save),
        (qf.Ledger, lambda path: qf.Ledger.create(path, epsilon=1, unit=qf.Rows(1))),
    ):
        path = tmp_path / kind.__name__  # without an ending that tells
        save(path)
        assert type(qf.load(path)) is kind
    assert qf.load(tmp_path / "Domain") == DOMAIN
    (tmp_path / "mbi.json").write_text('{"format": 2, "b": 3}')  # an attribute may be called so
    assert qf.load(tmp_path / "mbi.json").attributes == ("format", "b")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n", "is not a release, a model, a schema, a domain or a ledger"),
        (b"", "is not a release"),
        (b"PK\x03\x04 nothing more", "no whole release or model"),
        (json.dumps({"format": "quietfield-anchor"}).encode(), "'quietfield-anchor'; expected a schema or a domain"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(qf.FileError, match=said):
        qf.load(tmp_path / "file")


def test_only_what_is_signed_can_be_trusted(tmp_path: Path) -> None:
    DOMAIN.save(tmp_path / "domain.json")
    with pytest.raises(qf.Error, match="trust is for releases and models"):
        qf.load(tmp_path / "domain.json", trust="key.pub.pem")
    with pytest.raises(qf.FileError, match="cannot read"):
        qf.load(tmp_path / "absent")


def test_every_error_is_a_public_name() -> None:
    every = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {"BudgetExceeded", "PolicyRefused", "RolledBack", "TooLarge"} <= every
    for name in every:
        assert getattr(qf, name) is getattr(errors, name)
        assert issubclass(getattr(qf, name), qf.Error)
    assert issubclass(qf.TooLarge, MemoryError)  # who guards against running out of memory catches it
    codes = [vars(getattr(qf, name))["exit_code"] for name in every if "exit_code" in vars(getattr(qf, name))]
    assert len(set(codes)) == len(codes)
