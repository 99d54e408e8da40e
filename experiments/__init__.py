"""The paper's figures and claims again, each by one command, and the harness in which estimators are compared.

Records here are made up, or read from public files; nothing in this folder makes or weakens a promise of privacy.
:func:`estimator` adds a way to learn, which then appears in every figure beside the others::

    from experiments import estimator

    @estimator("mine")
    def mine(release):
        return quietfield.fit(release, rounds=2)
"""

from experiments.estimators import Estimator as Estimator
from experiments.estimators import estimator as estimator
