"""Read files under limits of memory and time, in a process of its own: ``python -m tests.reading FOLDER MEGABYTES``.

Reads every file of the folder as a release, a model or a network in BIF, checks its promise, and writes one line of
JSON per file: what came of it ("read", "refused", or the name of a foreign error), and the seconds that it took.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np  # noqa: F401  # before memory is limited
from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401
from safetensors.numpy import load  # noqa: F401

import quietfield as qf
from quietfield.errors import Error
from quietfield.interop import load_bif


def outcome(path: Path) -> str:
    """What came of reading a file and all that it says of itself."""
    try:
        if path.suffix == ".qfm":
            repr(qf.Model.load(path))
        elif path.suffix == ".bif":
            repr(load_bif(path))
        else:
            release = qf.Release.load(path)
            repr(release)
            if release.promise is not None:
                release.check_promise()
        return "read"
    except Error:
        return "refused"
    except Exception as error:  # noqa: BLE001  # what this is about
        return f"{type(error).__name__}: {error}"[:200]


def main(folder: str, megabytes: str) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = pages + int(megabytes) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for path in sorted(Path(folder).iterdir()):
        start = time.process_time()
        found = outcome(path)
        line = {"file": path.name, "outcome": found, "seconds": time.process_time() - start}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
