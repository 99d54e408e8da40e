"""Run one figure, or all: ``python -m experiments fig2 --quick``."""

import sys
from collections.abc import Sequence

from experiments.commands import app
from quietfield import cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code, with errors told as ``quietfield`` tells them."""
    return cli.main(arguments, app, "python -m experiments")


if __name__ == "__main__":
    sys.exit(main())
