"""A random field with differential privacy in scikit-learn's terms: ``fit``, ``sample``, ``score_samples``, ``score``.

It needs scikit-learn, which the package itself does not. ``fit`` counts, pays and adds noise
(:func:`quietfield.release`), and learns from what may be published (:func:`quietfield.fit`). What a fitted estimator
holds is safe to publish. What reads records again is not: ``score`` and ``score_samples`` say so with a
:class:`ConfidentialWarning`, and are for simulation studies or for the curator alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from warnings import warn

import numpy as np

from quietfield.cliques import Structure
from quietfield.curator.counting.sources import FRAMES, is_a
from quietfield.curator.ledger import Ledger
from quietfield.curator.policy import read_policy
from quietfield.curator.release import release
from quietfield.errors import Error, PolicyRefused
from quietfield.learning import fit
from quietfield.models.frames import Frame
from quietfield.models.model import Model
from quietfield.privacy.accounting import Number
from quietfield.privacy.calibration import Weights
from quietfield.privacy.units import Neighbours, Person, Unit
from quietfield.schema import Labels, Rule, Schema
from quietfield.text import join_names

if TYPE_CHECKING:
    from quietfield.domain import Domain


class Missing(Error, ImportError):
    """A library that this module needs is not installed."""


class InputError(Error, ValueError):
    """Records of a shape or type that cannot be read. The message says nothing of their values."""


class ConfidentialWarning(UserWarning):
    """Something was computed from records without noise: it is for the curator's eyes, or for made-up records."""


try:
    from sklearn.base import BaseEstimator, DensityMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise Missing("quietfield.sklearn needs scikit-learn 1.6 or newer; run pip install 'scikit-learn>=1.6'.") from None

#: The checks of scikit-learn that do not apply, and why: for ``parametrize_with_checks(..., expected_failed_checks=)``.
EXPECTED_FAILED_CHECKS = {
    "check_estimators_empty_data_messages": "whether there are any records is private, so none is no error",
}
WARNING = (
    "NOT PRIVATE: {} reads records without noise. For the curator's eyes, or for made-up records; do not pass it on."
)


class DPMarkovRandomField(DensityMixin, BaseEstimator):
    """A discrete Markov random field learned with differential privacy.

    ``schema`` is public and never learned from the records: a Schema, or one rule for every column (labels such as
    ``[0, 1, 2]``, a number of them, ``Cuts([18, 65])``). ``structure`` is public too: cliques, a Structure, or a
    function of the domain such as ``quietfield.structures.chain``. ``epsilon``, ``delta``, ``unit``, ``ledger``,
    ``neighbours``, ``total``, ``weights`` and ``noise`` are those of :func:`quietfield.release`; ``method``,
    ``inference`` and ``options`` those of :func:`quietfield.fit`. Each call of ``fit`` is one release and is paid for:
    five folds cost five times epsilon. There is no ``random_state``: noise takes no seed.

    >>> import numpy as np, quietfield as qf
    >>> X = np.random.default_rng(0).integers(0, 2, size=(1000, 3))
    >>> field = DPMarkovRandomField([0, 1], qf.structures.chain, epsilon=1, unit=qf.Rows(1), ledger=None).fit(X)
    >>> field.sample(5, random_state=0).columns
    ('x0', 'x1', 'x2')

    A fitted estimator has ``release_`` (the noisy tables), ``model_`` (what was learned), ``schema_``,
    ``structure_``, ``n_features_in_`` and, for frames, ``feature_names_in_``. All of them may be published.
    """

    def __init__(
        self,
        schema: Schema | Rule,
        structure: "Structure | Iterable[Any] | Callable[[Domain], Structure]",
        *,
        epsilon: Number,
        unit: Unit,
        ledger: Ledger | str | Path | None,
        delta: Number | None = None,
        neighbours: Neighbours = "add_remove",
        total: Literal["auto"] | bool = "auto",
        weights: Weights = None,
        noise: Literal["laplace", "gaussian"] = "laplace",
        method: str = "map",
        inference: str = "exact",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.schema = schema
        self.structure = structure
        self.epsilon = epsilon
        self.unit = unit
        self.ledger = ledger
        self.delta = delta
        self.neighbours = neighbours
        self.total = total
        self.weights = weights
        self.noise = noise
        self.method = method
        self.inference = inference
        self.options = options

    def fit(self, X: Any, y: Any = None) -> "DPMarkovRandomField":
        """Release the tables of some records, which is paid for, and learn a model from that release alone.

        Args:
            X: An array of values with a column for each column of the schema, a frame with named columns, or any other
                source that :func:`quietfield.release` takes (a path, an Arrow table, a DuckDB relation, ...).
            y: Ignored.

        Returns:
            The estimator itself.

        Raises:
            BudgetExceeded: It costs more than remains in the ledger.
            PolicyRefused: The policy in force does not allow it, or has two persons sign releases.
            CannotLearn: Noise outweighs the records. The charge stands.
            InputError: ``X`` is not such an array.
            Error: What :func:`quietfield.release` and :func:`quietfield.fit` refuse.
        """
        if (policy := read_policy()) is not None and policy.signers:  # before the charge: fit would refuse it after
            raise PolicyRefused(
                "the policy in force has two persons sign a release before anything is learned from it; make one with "
                "quietfield.release, have it signed, and learn from its file with quietfield.fit. Nothing was charged."
            )
        schema, source = self._read(X, reset=True)
        structure = self.structure(schema.domain) if callable(self.structure) else deepcopy(self.structure)
        self.schema_ = schema
        self.structure_ = Structure.of(structure, schema.domain)
        # Methods other than the default learn from tables alone, and would refuse interactions after the charge.
        weights = "equal" if self.weights is None and self.method != "map" else self.weights
        self.release_ = release(
            source,
            schema,
            self.structure_,
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            ledger=self.ledger,
            neighbours=self.neighbours,
            total=self.total,
            weights=weights,
            noise=self.noise,
        )
        self.model_: Model = fit(self.release_, self.method, inference=self.inference, **dict(self.options or {}))
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Frame:
        """Made-up records with labels, from the model alone: they may be published.

        Args:
            n_samples: How many.
            random_state: A seed, or a random generator of numpy that draws one; None draws anew each time.

        Returns:
            A Frame, which has ``to_pandas()``, ``to_polars()``, ``to_arrow()`` and ``codes``.

        Raises:
            NotFittedError: ``fit`` was not called.
        """
        check_is_fitted(self)
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        elif isinstance(random_state, np.random.Generator):
            random_state = int(random_state.integers(2**31))
        return self.model_.sample(n_samples, seed=random_state)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log-probability of each record in nats. NOT PRIVATE, unless ``X`` is what ``sample`` returned.

        Args:
            X: Records, as ``fit`` takes them.

        Returns:
            One number per record; NaN for one that would not be counted, because a rule drops one of its values.

        Raises:
            NotFittedError: ``fit`` was not called.
            InputError: ``X`` is an array of another form than the schema reads.
        """
        check_is_fitted(self)
        if isinstance(X, Frame):  # drawn from a model: nobody's record
            return self.model_.log_prob(X)
        warn(WARNING.format("score_samples"), ConfidentialWarning, stacklevel=2)
        return self._score_samples(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-probability of the records that a count would take, in nats: higher is better.

        NOT PRIVATE, unless ``X`` is what ``sample`` returned.

        Args:
            X: Records, as ``fit`` takes them.
            y: Ignored.

        Returns:
            The mean; NaN where no record is counted.

        Raises:
            NotFittedError: ``fit`` was not called.
            InputError: ``X`` is an array of another form than the schema reads.
        """
        check_is_fitted(self)
        if isinstance(X, Frame):
            return float(np.mean(self.model_.log_prob(X)))
        warn(WARNING.format("score"), ConfidentialWarning, stacklevel=2)
        scores = self._score_samples(X)
        counted = ~np.isnan(scores)
        return float(scores[counted].mean()) if counted.any() else float("nan")

    def _score_samples(self, X: Any) -> np.ndarray:
        from quietfield.curator.codes import log_prob

        schema, source = self._read(X, reset=False)
        return log_prob(self.model_, source, schema)

    def _read(self, X: Any, *, reset: bool) -> tuple[Schema, Any]:
        """The schema, and the records as a source that the schema reads. No value is looked at."""
        persons = self.unit.columns if isinstance(self.unit, Person) else ()
        if isinstance(X, Frame):
            schema = self._schema(X.columns, reset)
            if schema.domain != X.domain:
                raise Error("the frame was drawn from a model with other attributes or labels than the schema's.")
            validate_data(self, X.codes, reset=reset, skip_check_array=True)
            return schema, X.codes
        if is_a(X, *FRAMES):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return self._schema([str(name) for name in X.columns if name not in persons], reset), X
        if not _is_array(X):
            if not isinstance(self.schema, Schema):
                raise Error("one rule for all columns needs an array or a frame; give a Schema that names its columns.")
            schema = self._schema((), reset)
            if reset:
                self.n_features_in_ = len(_columns(schema))
            return schema, X
        array = _array(X)
        if persons:
            raise Error(
                f"an array has no column {join_names(persons)} that names persons; give the records as a frame."
            )
        validate_data(self, array, reset=reset, skip_check_array=True)
        schema = self._schema([f"x{i}" for i in range(array.shape[1])], reset)
        columns = _columns(schema)
        if len(columns) != array.shape[1]:
            raise InputError(
                f"X has {array.shape[1]} features, but the schema reads {len(columns)} columns "
                f"({join_names(columns)}); "
                "give one column for each, in the schema's order, or a frame with names."
            )
        _check_kinds(schema, array)
        return schema, {name: array[:, i] for i, name in enumerate(columns)}

    def _schema(self, columns: Sequence[str], reset: bool) -> Schema:
        """A copy, so that what it caches does not change a parameter."""
        if not reset:
            return self.schema_
        if isinstance(self.schema, Schema):
            return deepcopy(self.schema)
        if self.schema is None or isinstance(self.schema, Mapping | str):
            raise Error(
                "schema is a Schema, or one rule for every column such as [0, 1, 2] or Cuts([18, 65]); it is public, "
                f"and never learned from the records. A {type(self.schema).__name__} is neither."
            )
        return Schema({name: deepcopy(self.schema) for name in columns})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise takes no seed
        tags.input_tags.allow_nan = True  # a null to the schema
        tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """A model travels as the file that it would be saved in."""
        state = dict(super().__getstate__())
        if "model_" in state:
            with TemporaryDirectory() as folder:
                path = Path(folder, "model.qfm")
                self.model_.save(path)
                state["model_"] = path.read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "model_" in state:
            with TemporaryDirectory() as folder:
                path = Path(folder, "model.qfm")
                path.write_bytes(state["model_"])
                state["model_"] = Model.load(path)
        super().__setstate__(state)


def _columns(schema: Schema) -> list[str]:
    return list(dict.fromkeys(schema.column(name) for name in schema))


def _is_array(X: Any) -> bool:
    """Whether something is an array of values, or would be if it were not sparse."""
    return isinstance(X, np.ndarray | list | tuple) or hasattr(X, "toarray") or hasattr(X, "__array_namespace__")


def _array(X: Any) -> np.ndarray:
    """An array of values with two dimensions, refused by its shape and type alone: scikit-learn's own messages quote
    the array."""
    if hasattr(X, "toarray"):
        raise InputError("X is a sparse matrix, and sparse input is not supported; give a dense array or a frame.")
    array = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)  # each value is read on its own
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using array.reshape(-1, 1) "
            "if it has a single column or array.reshape(1, -1) if it is a single record."
        )
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported; give texts, whole numbers or numbers.")
    if array.shape[1] == 0:
        raise InputError(f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array


def _check_kinds(schema: Schema, array: np.ndarray) -> None:
    """Refuse numbers where labels are words, which would all be unknown: codes were meant, perhaps."""
    if array.dtype.kind not in "iufb":
        return
    for name in schema:
        rule = schema[name]
        if isinstance(rule, Labels) and all(isinstance(v, str) and not v[:1].isdigit() for v in rule.values):
            raise InputError(
                f"X is an array of {array.dtype}, but the labels of {name!r} are texts ({join_names(rule.values)}); "
                "give the values themselves as an array of objects or a frame, not their codes."
            )
