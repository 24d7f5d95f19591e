"""Centred: any policy for general losses, on each loss minus the mean of the losses before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from umab._support.checks import LARGEST
from umab.algorithms.base import HasProbabilities, Learns, Policy
from umab.algorithms.limits import ANY, COUNT, Limits
from umab.algorithms.wrapper import Inside, Wrapper, layers
from umab.maths.level import within
from umab.maths.simplex import Vector


class State(NamedTuple):
    """The state of the policy inside, and the mean of the losses, measured from the first one."""

    inner: HasProbabilities
    origin: float  # the first loss; measured from it, the mean loses no digits to an offset
    mean: float  # of the losses so far, minus the origin
    n_losses: float

    @property
    def probabilities(self) -> Vector:
        """The probabilities of the policy inside."""
        return self.inner.probabilities


@dataclass(frozen=True)
class Centred(Wrapper):
    """A policy on centred losses: adding a number to all losses changes nothing.

    The mean b_t of all losses seen before is subtracted from every loss; from the first one, itself.

    Parameters
    ----------
    policy
        A policy for losses of any size and sign, or its name.

    Guarantee
    ---------
    The guarantee of the policy inside, with ℓ_t − b_t in place of ℓ_t: sizes become distances from the mean. It holds
    because b_t is known before the arm is drawn, and subtracting a number from all arms of a round changes no regret.
    The first round, in which b_t is the loss itself, teaches the policy inside nothing; its regret is added.

    References
    ----------
    From this project. AHB (Hadiji and Stoltz, Adaptation to the Range in K-Armed Bandits, JMLR 2023) centres by the
    mean of the first losses.

    Examples
    --------
    >>> import umab
    >>> umab.Centred("umab-s") == umab.Centred(umab.UMABS())
    True
    >>> learner = umab.Learner(umab.Centred(umab.UMABS()), arms=3)
    >>> for arm, loss in [(0, 1000.5), (1, 999.0)]:
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.0719, 0.8561, 0.0719])
    """

    if TYPE_CHECKING:

        def __init__(self, policy: Policy | str) -> None: ...

    def __post_init__(self) -> None:
        """Check the policy."""
        super().__post_init__()
        if any(isinstance(layer, Centred) for layer in layers(self.policy)):
            raise ValueError(f"{self._what} must not be centred already, but got {self.policy.name}")
        if self.policy.loss_range != (-LARGEST, LARGEST):
            raise ValueError(
                f"{self._what} must take losses of any size and sign, because centred losses have both signs, "
                f"but got {self.policy.name}"
            )

    @property
    def shift_free(self) -> bool:  # type: ignore[override]
        """Always true."""
        return True

    @property
    def guarantee(self) -> str:
        """The guarantee of the policy inside, for centred losses."""
        return self.policy.guarantee and f"{self.policy.guarantee}, of ℓ_t − b_t"

    def init(self, n_arms: int) -> State:
        """Return the start of the policy inside, with no losses counted yet."""
        return State(inner=self.policy.init(n_arms), origin=0.0, mean=0.0, n_losses=0.0)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Those of the policy inside, and of the fields of `State`."""
        return {**super().limits, **{"origin": ANY, "mean": ANY, "n_losses": COUNT}}

    @staticmethod
    def around(inner_update: Learns) -> Learns:
        """Return the update that centres a loss before the policy inside learns from it."""

        def update(
            parameters: Inside, state: State, arm: int, loss: float, probability: float, *ticket: object
        ) -> State:
            centred, origin, mean, n_losses = centred_loss(loss, state.origin, state.mean, state.n_losses)
            return State(
                inner=inner_update(parameters.inner, state.inner, arm, centred, probability, *ticket),
                origin=origin,
                mean=mean,
                n_losses=n_losses,
            )

        return update


def centred_loss(loss: float, origin: float, mean: float, n_losses: float) -> tuple[float, float, float, float]:
    """Return ℓ_t − b_t, and the origin, the mean b_{t+1} measured from it, and the number of losses after this one."""
    if n_losses == 0.0:
        origin = loss
    centred = within(within(loss - origin) - mean)
    n_losses += 1.0
    return centred, origin, mean + centred / n_losses, n_losses
