"""quietfield: learn discrete Markov random fields from noisy tables, with differential privacy.

>>> import quietfield as qf
>>> domain = qf.Domain({"age": ["young", "old"], "visits": 3})
>>> qf.structures.chain(domain).cliques
(('age', 'visits'),)

Importing the package loads none of its parts: each public name is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quietfield import inference as inference
    from quietfield import structures as structures
    from quietfield.curator.confidential_report import write_confidential_report as write_confidential_report
    from quietfield.curator.counting.csvfiles import CsvFile as CsvFile
    from quietfield.curator.counting.statfiles import StatFile as StatFile
    from quietfield.curator.ledger import Ledger as Ledger
    from quietfield.curator.loading import load as load
    from quietfield.curator.release import release as release
    from quietfield.curator.score import confidential_score as confidential_score
    from quietfield.curator.score import dp_score as dp_score
    from quietfield.curator.sequences import Sequences as Sequences
    from quietfield.domain import Domain as Domain
    from quietfield.errors import BudgetExceeded as BudgetExceeded
    from quietfield.errors import CannotLearn as CannotLearn
    from quietfield.errors import Error as Error
    from quietfield.errors import FileError as FileError
    from quietfield.errors import Incomplete as Incomplete
    from quietfield.errors import NoLedger as NoLedger
    from quietfield.errors import NoPromise as NoPromise
    from quietfield.errors import NotSigned as NotSigned
    from quietfield.errors import OtherRelease as OtherRelease
    from quietfield.errors import OtherSigner as OtherSigner
    from quietfield.errors import PolicyRefused as PolicyRefused
    from quietfield.errors import RolledBack as RolledBack
    from quietfield.errors import TooFewSignatures as TooFewSignatures
    from quietfield.errors import TooLarge as TooLarge
    from quietfield.errors import Unreadable as Unreadable
    from quietfield.errors import WeakPromise as WeakPromise
    from quietfield.learning import fit as fit
    from quietfield.learning import references as references
    from quietfield.models.frames import Frame as Frame
    from quietfield.models.model import Model as Model
    from quietfield.models.verification import verify as verify
    from quietfield.output.report import write_report as write_report
    from quietfield.output.tables import people_tables as people_tables
    from quietfield.privacy.noise import Gaussian as Gaussian
    from quietfield.privacy.noise import Laplace as Laplace
    from quietfield.privacy.units import Person as Person
    from quietfield.privacy.units import Rows as Rows
    from quietfield.releases.release import Release as Release
    from quietfield.schema import Cuts as Cuts
    from quietfield.schema import Dates as Dates
    from quietfield.schema import Labels as Labels
    from quietfield.schema import Schema as Schema
    from quietfield.structures import Structure as Structure
    from quietfield.study.comparison import compare as compare
    from quietfield.study.goodness_of_fit import goodness_of_fit as goodness_of_fit
    from quietfield.study.rehearsal import rehearse as rehearse
    from quietfield.study.simulation import simulate as simulate

__version__ = "0.1.0"

#: Every public name and the module that defines it, or that it is (see _MODULES).
_NAMES = {
    "BudgetExceeded": "errors",
    "CannotLearn": "errors",
    "compare": "study.comparison",
    "confidential_score": "curator.score",
    "CsvFile": "curator.counting.csvfiles",
    "Cuts": "schema",
    "Dates": "schema",
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
    "Structure": "structures",
    "structures": "structures",
    "TooFewSignatures": "errors",
    "TooLarge": "errors",
    "Unreadable": "errors",
    "verify": "models.verification",
    "WeakPromise": "errors",
    "write_confidential_report": "curator.confidential_report",
    "write_report": "output.report",
}

#: Public names of modules.
_MODULES = {"inference", "references", "structures"}

__all__ = ["__version__", *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'quietfield' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"quietfield.{_NAMES[name]}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
