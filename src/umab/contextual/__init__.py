"""Decisions that depend on a context: experts turn it into advice, and UMAB-E chooses among them.

`Learner` is to contexts what `umab.Learner` is to a choice without one. docs/context.md says what is guaranteed.
"""

from umab.contextual.context import Context
from umab.contextual.experts import ByKey, ContextFree, Expert, SingleArms
from umab.contextual.learner import Learner
from umab.contextual.models import Linear, Regressor

__all__ = ["ByKey", "Context", "ContextFree", "Expert", "Learner", "Linear", "Regressor", "SingleArms"]
