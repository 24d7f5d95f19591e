"""Locally centred: any policy for general losses, on each loss minus a level that may move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from umab.algorithms.base import HasProbabilities, Learns
from umab.algorithms.centred import Centred
from umab.algorithms.limits import LEVEL, Limits, within
from umab.algorithms.wrapper import Inside
from umab.maths.level import Level, above, followed, moves, no_level
from umab.maths.simplex import Vector


class State(NamedTuple):
    """The state of the policy inside, and the level of the losses."""

    inner: HasProbabilities
    level: Level

    @property
    def probabilities(self) -> Vector:
        """The probabilities of the policy inside."""
        return self.inner.probabilities


@dataclass(frozen=True)
class LocallyCentred(Centred):
    """A policy on losses minus their level, for losses of all arms that move together, as with the time of day.

    This is `Centred`, except that what is subtracted from a loss, b_t, need not be the mean of all losses before it. If
    the losses wander, it is a moving mean: of the two with rates 1/8 and 1/64, the one with the smaller sum of squared
    errors. It is taken from the 33rd loss on, if that sum is below 0.6 times the same sum for the mean. On losses that
    do not wander, this policy does the same as `Centred`.

    If the leader becomes bad, the level follows its losses, and the policy inside may stay with it. `UMABW` notices
    such a change.

    Parameters
    ----------
    policy
        A policy for losses of any size and sign, or its name.

    Guarantee
    ---------
    As for `Centred`, since b_t is known before the arm is drawn: the guarantee of the policy inside, with ℓ_t − b_t in
    place of ℓ_t, and the regret of the first round.

    References
    ----------
    From this project; see docs/changing.md.

    Examples
    --------
    >>> import umab
    >>> umab.LocallyCentred("umab-s").name, umab.LocallyCentred("umab-g").name
    ('umab-l', 'local(umab-g)')
    """

    def init(self, n_arms: int) -> State:  # type: ignore[override]
        """Return the start of the policy inside, with no level yet."""
        return State(inner=self.policy.init(n_arms), level=no_level())

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Those of the policy inside, and of the fields of `State`."""
        return {**within("inner", self.policy.limits), **within("level", LEVEL)}

    @staticmethod
    def around(inner_update: Learns) -> Learns:
        """Return the update that centres a loss before the policy inside learns from it."""

        def update(
            parameters: Inside, state: State, arm: int, loss: float, probability: float, *ticket: object
        ) -> State:
            centred = above(state.level, loss, moves(state.level))
            return State(
                inner=inner_update(parameters.inner, state.inner, arm, centred, probability, *ticket),
                level=followed(state.level, loss),
            )

        return update
