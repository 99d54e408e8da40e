"""Kill releases at every kind of moment: a readable one always has its charge, and no more is spent than allowed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def crash(folder, kills, seed):
    script = Path(__file__).with_name("crashing.py")
    done = subprocess.run(
        [sys.executable, script, folder, str(kills), str(seed)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_few_kills(tmp_path):
    assert crash(tmp_path, 12, 1)["kills"] >= 12


@pytest.mark.slow
def test_hundreds_of_kills_at_every_commit_and_rename(tmp_path):
    found = crash(tmp_path, 400, 2)
    print(f"\n{found}")
    assert found["kills"] >= 400
    points = (
        "commit-before",
        "commit-after",
        "rename-before",
        "rename-after",
        "sync-before",
        "sync-after",
        "random moment",
    )
    # About 40 each, as many as come depends on when processes end: so few have a probability below 1e-8.
    assert all(found["by"].get(point, 0) >= 8 for point in points)
    assert found["charges"] >= found["readable releases"] > 100
    assert found["charges"] > found["readable releases"]  # some died after the charge: paid, and nothing to show for it
