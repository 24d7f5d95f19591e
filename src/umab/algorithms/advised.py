"""Policies over experts: in every round each expert advises a distribution over the arms, or abstains.

Such a policy keeps the contract of `umab.algorithms.base`, with these differences:

- It has a parameter ``experts``, their number, which `simulate` and `Learner` fill in. Its state has a ``FixedVector``
  with one float for each expert called ``weights``: how much each counts now.
- ``advised(parameters, state, advice)`` is called before each draw and fills in the probabilities of the state.
  ``advice[i][k]`` is the probability with which expert i would draw arm k; a row that begins with nan says that expert
  i abstains. ``advised_arms(parameters, state, advice)`` does the same for sure advice: ``advice[i]`` is the arm of
  expert i, −1 if it abstains. Both must give the same probabilities for the same advice.
- It has tickets. ``remember(parameters, state, arm, advice, ticket)``, and ``remember_arms`` for sure advice, fill in
  what learning from the draw will need, so that feedback may come late.
- An arm that nobody advises may have probability 0.

At least one expert gives advice in every round, and the rows of those who do sum to 1: callers see to both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from umab._support import checks
from umab.algorithms.base import P, Policy, S
from umab.maths.simplex import Rows

SureAdvice = Sequence[int]
"""The arm that each expert advises, −1 if it abstains."""

LARGEST_NUMBER = 1_000_000
"""How many experts there may be."""


class Advised(Policy[S, P]):
    """A policy over experts; the docstring of this module says how it differs from others."""

    takes_advice: ClassVar[bool] = True

    experts: int | None

    @staticmethod
    @abstractmethod
    def advised(parameters: P, state: S, advice: Rows) -> S:
        """Return the state with the probabilities that follow from the advice of this round."""

    @staticmethod
    @abstractmethod
    def advised_arms(parameters: P, state: S, advice: SureAdvice) -> S:
        """Return the same for experts who each advise one arm."""

    @staticmethod
    @abstractmethod
    def remember(parameters: P, state: S, arm: int, advice: Rows, ticket: Any) -> Any:  # type: ignore[override]
        """Return the ticket of a draw of `arm`, after `advised`."""

    @staticmethod
    @abstractmethod
    def remember_arms(parameters: P, state: S, arm: int, advice: SureAdvice, ticket: Any) -> Any:
        """Return the ticket of a draw of `arm`, after `advised_arms`."""

    def for_experts(self, n_experts: int) -> Self:
        """Return this policy for so many experts."""
        if self.experts not in (None, n_experts):
            raise ValueError(f"{self.name} must get advice from {self.experts} experts, but got {n_experts}")
        return self.with_parameters(experts=n_experts)

    @property
    def n_experts(self) -> int:
        """The number of experts, which must be known by now."""
        if self.experts is None:
            raise ValueError(f"{self.name} must know the number of experts before it starts; pass experts=...")
        return self.experts

    @staticmethod
    def checked_number(experts: object) -> int | None:
        """Return a number of experts, or None."""
        return None if experts is None else checks.whole("experts", experts, least=1, most=LARGEST_NUMBER)
