"""SCB-IX, scale-clipping with implicit exploration: bounds that hold with high probability."""

import math
from dataclasses import dataclass

from umab.algorithms.base import NoParameters
from umab.algorithms.exp3_ix import learning_rate
from umab.algorithms.scb import ScaleClipping, State, add_clipped, explored, first_state
from umab.maths.simplex import entropy_link, softmin


@dataclass(frozen=True, kw_only=True)
class SCBIX(ScaleClipping[State]):
    """SCB-IX, for losses of any size and sign; strictly scale-free, with a bound that holds with high probability.

    As `SCB`, with the entropy in place of the Tsallis regularizer, η_t = √(ln n/(nt))/C and β_t = √(n ln n/(n ln n +
    t)), and estimates divided by q_k + γ_t in place of q_k, with γ_t = η_t C/2 (0 until the first loss that is not 0).

    Guarantee
    ---------
    Regret of order ℓ∞ √(nT ln n), with high probability. The bound does not cover late feedback.

    References
    ----------
    Chen and Zhang, Scale-free Adversarial Reinforcement Learning, COLT 2024, Algorithm 2.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.SCBIX(), arms=3)
    >>> for arm, loss in enumerate([0.5, -1.0, 5.0]):
    ...     learner.update(arm, loss)
    >>> learner.probabilities().round(4)
    array([0.3376, 0.3376, 0.3248])
    """

    link = staticmethod(entropy_link)

    @property
    def guarantee(self) -> str:
        """As published."""
        return "ℓ∞ √(nT ln n), w.h.p."

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return first_state(n_arms)

    def rates(self, state: State) -> dict[str, float]:
        """Return β, and η once there was a loss."""
        n_arms = len(state.probabilities)
        rates = {"β": exploration_share(n_arms, state.round)}
        if state.scale > 0.0:
            rates["η"] = learning_rate(n_arms, state.round) / (state.scale / state.unit)
        return rates

    @staticmethod
    def update(parameters: NoParameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        # The rate of EXP3-IX, which is for losses of size at most 1, is η_t C. While C is 0, so is the estimate.
        bias = 0.5 * learning_rate(n_arms, state.round)
        scale, unit = add_clipped(state, arm, loss, probability + bias)
        t = state.round + 1.0
        if scale > 0.0:
            softmin(state.loss_sums, learning_rate(n_arms, t) / scale, state.iterate)
        return explored(state, exploration_share(n_arms, t), scale, unit, t)


def exploration_share(n_arms: int, t: float) -> float:
    """Return β_t."""
    width = n_arms * math.log(n_arms)
    return math.sqrt(width / (width + t))
