"""``python -m quietfield`` is the command ``quietfield``."""

import sys

from quietfield.cli import main

if __name__ == "__main__":
    sys.exit(main())
