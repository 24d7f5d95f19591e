"""What the algorithms of the paper never increase: the learning rate, the exploration rate and the clipping level."""

from __future__ import annotations

from umab.theory.path import Precise
from umab.theory.statements.common import OF_2, Sides, Steps, plain, statement


def _never_grows(values: Precise) -> Sides:
    return plain(values[:, 1:], values[:, :-1])


@statement(id="η never grows", where="Algorithms 1 and 2", text="", form="as printed")
def _learning_rate_never_grows(steps: Steps) -> Sides:
    """State it for 1/η, which never falls."""
    inverse = steps.of.inverse_rate
    return plain(inverse[:, :-1], inverse[:, 1:])


@statement(id="ρ never grows", where="Algorithm 2", text="", form="as printed", of=OF_2)
def _exploration_rate_never_grows(steps: Steps) -> Sides:
    return _never_grows(steps.of.exploration)


@statement(id="C never grows", where="Algorithm 2", text="", form="as printed", of=OF_2)
def _clipping_level_never_grows(steps: Steps) -> Sides:
    return _never_grows(steps.of.clip)
