"""The statements of the proofs, each as two sides of an inequality along a trajectory.

Every module here is a part of a proof, and declares its statements in the order in which they are shown. A statement
that the paper's text gets wrong is declared twice, as printed and as repaired. Lemmas 6 to 10 are the lemmas of the
appendix, in order: Orabona's lemma, two on the steps of the log-barrier, and two on the adaptive exploration rate.
"""

from types import ModuleType

from umab.theory.statements import (
    ftrl,
    monotone,
    theorem1,
    theorem2,
    theorem_d,
    theorem_e,
    theorem_e_barrier,
    theorem_g,
    theorem_l,
    theorem_r,
    theorem_sh,
    theorem_w,
)
from umab.theory.statements.advised import AdvisedSteps
from umab.theory.statements.common import Form, Sides, Statement, Steps
from umab.theory.statements.theorem_d import LateSteps
from umab.theory.statements.theorem_l import ArrivalSteps

__all__ = [
    "OF_GUARDED",
    "OF_SCB_D",
    "OF_UMAB_E",
    "OF_UMAB_S",
    "OF_UMAB_SH",
    "OF_UMAB_S_LATE",
    "OF_UMAB_W",
    "STATEMENTS",
    "AdvisedSteps",
    "ArrivalSteps",
    "Form",
    "LateSteps",
    "Sides",
    "Statement",
    "Steps",
]


def _declared_in(*modules: ModuleType) -> tuple[Statement, ...]:
    """Return the statements of modules, in the order in which they are declared."""
    return tuple(each for module in modules for each in vars(module).values() if isinstance(each, Statement))


STATEMENTS = _declared_in(ftrl, theorem1, theorem2, monotone)
"""The numbered statements of the paper that hold, or should hold, along every sequence of arms."""

OF_UMAB_S = _declared_in(theorem_r)
"""The statements about UMAB-S, bare or centred, that hold along every sequence of arms."""

OF_UMAB_W = _declared_in(theorem_w)
"""The statements about UMAB-W that hold along every sequence of arms."""

OF_GUARDED = _declared_in(theorem_g)
"""The statements about policies with a guard that hold along every sequence of arms."""

OF_UMAB_SH = _declared_in(theorem_sh)
"""The statements about UMAB-Sh, bare or centred, that hold along every sequence of arms."""

OF_UMAB_E = {"entropy": _declared_in(theorem_e), "barrier": _declared_in(theorem_e_barrier)}
"""The statements about each form of UMAB-E, of `AdvisedSteps`, that hold along every sequence of arms."""

OF_SCB_D = _declared_in(theorem_d)
"""The statements about SCB-D, bare or centred, of `LateSteps`, that hold along every sequence of arms."""

OF_UMAB_S_LATE = _declared_in(theorem_l)
"""The statements about UMAB-S with late feedback, bare or centred, of `ArrivalSteps`, that hold along every run."""
