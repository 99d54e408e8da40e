"""quietfield: learn discrete Markov random fields from noisy tables, with differential privacy.

>>> import quietfield as qf
>>> domain = qf.Domain({"age": ["young", "old"], "visits": 3})
>>> qf.structures.chain(domain).cliques
(('age', 'visits'),)

Importing the package loads none of its parts: each public name is loaded when it is first used.
Type checkers read ``__init__.pyi`` beside this file.
"""

__version__ = "0.1.0"

#: Every public name and the module that defines it, or that it is (see _MODULES).
_NAMES = {
    "BudgetExceeded": "errors",
    "CannotLearn": "errors",
    "Choice": "study.choice",
    "combine_estimates": "study.combining",
    "compare": "study.comparison",
    "confidential_score": "curator.score",
    "CsvFile": "curator.counting.csvfiles",
    "Cuts": "schema",
    "Dates": "schema",
    "discover": "curator.discovery",
    "Domain": "domain",
    "dp_score": "curator.score",
    "Error": "errors",
    "FileError": "errors",
    "fit": "learning",
    "Frame": "models.frames",
    "Gaussian": "privacy.noise",
    "goodness_of_fit": "study.goodness_of_fit",
    "Incomplete": "errors",
    "inference": "inference",
    "Labels": "schema",
    "Laplace": "privacy.noise",
    "Ledger": "curator.ledger",
    "load": "curator.loading",
    "Model": "models.model",
    "NoLedger": "errors",
    "NoPromise": "errors",
    "NotSigned": "errors",
    "OtherRelease": "errors",
    "OtherSigner": "errors",
    "people_tables": "output.tables",
    "Person": "privacy.units",
    "PolicyRefused": "errors",
    "Forms": "curator.discovery.plan",
    "Range": "curator.discovery.plan",
    "references": "learning.references",
    "rehearse": "study.rehearsal",
    "Release": "releases.release",
    "release": "curator.release",
    "RolledBack": "errors",
    "Rows": "privacy.units",
    "Schema": "schema",
    "Sequences": "curator.sequences",
    "simulate": "study.simulation",
    "StatFile": "curator.counting.statfiles",
    "Structure": "cliques",
    "structures": "structures",
    "synthesize": "curator.synthesis",
    "TooFewSignatures": "errors",
    "TooLarge": "errors",
    "Unreadable": "errors",
    "verify": "models.verification",
    "WeakPromise": "errors",
    "write_confidential_report": "curator.confidential_report",
    "write_records": "output.records",
    "write_report": "output.report",
}

#: Public names of modules.
_MODULES = {"inference", "references", "structures"}

__all__ = ["__version__", *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'quietfield' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"quietfield.{_NAMES[name]}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
