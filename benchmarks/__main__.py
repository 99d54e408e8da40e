"""Run every benchmark in this folder in turn, each in a process of its own: ``make bench``, ``python -m benchmarks``.

Names choose some: ``python -m benchmarks counting``. ``python -m benchmarks --pages`` measures nothing: it writes the
pages of results from the files beside them, all or those named (learners and synthesis have a ``--page`` of their own).
"""

import subprocess
import sys
from pathlib import Path

from benchmarks._pages import PAGES, write_page

HERE = Path(__file__).resolve().parent


def main() -> int:
    if sys.argv[1:2] == ["--pages"]:
        for name in sys.argv[2:] or PAGES:
            write_page(name)
        return 0
    known = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    if unknown := [name for name in wanted if name not in known]:
        print(f"No benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}.", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
