"""A loss table as a Gymnasium environment (extra ``[gymnasium]``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from umab._support import checks
from umab._support.extras import extra
from umab.results.regret import Costs
from umab.tables.losses import Losses, refuse_away

with extra("gymnasium", "umab.adapters.gymnasium"):
    import gymnasium


class LossTableEnv(gymnasium.Env[Any, Any]):
    """An environment that plays a loss table: an action is an arm, a step is a round.

    The reward is the loss of the arm in this round, with its sign flipped. The episode terminates with the last row.
    There is nothing to observe, so the observation is always 0: a round number would let an agent learn the table by
    heart. Nothing is random: all episodes have the same losses, whatever the seed.

    ``info`` has the ``loss``, the ``round`` that was played, from 0, and the ``regret`` up to it: sampled
    regret, of the arms that were pulled, as ``umab.simulate(..., expected=False)`` counts it.

    Parameters
    ----------
    losses
        Anything that `umab.Losses.of` accepts: an array, a frame, a file, `Losses`. All arms must be there in all
        rounds.

    Examples
    --------
    >>> from umab.adapters.gymnasium import LossTableEnv
    >>> env = LossTableEnv([[1.0, 3.0], [5.0, -2.0]])
    >>> _ = env.reset()
    >>> env.step(1)
    (0, -3.0, False, False, {'loss': 3.0, 'round': 0, 'regret': 2.0})
    >>> env.step(1)
    (0, 2.0, True, False, {'loss': -2.0, 'round': 1, 'regret': 0.0})
    """

    def __init__(self, losses: object) -> None:
        self.losses = Losses.of(losses)
        refuse_away(self.losses, "an environment")
        self.action_space = gymnasium.spaces.Discrete(self.losses.n_arms)
        self.observation_space = gymnasium.spaces.Discrete(1)
        self._costs = Costs.of(self.losses)
        self._round: int | None = None  # the next one to play; None before the first reset
        self._spent = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[int, dict[str, object]]:
        """Go back to the first round."""
        super().reset(seed=seed)
        self._round, self._spent = 0, 0.0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:
        """Play a round with the arm `action`."""
        arm = checks.whole("action", action, least=0, most=self.losses.n_arms - 1)
        if self._round is None:
            raise gymnasium.error.ResetNeeded("reset must be called before the first step, but it was not")
        if self._round == self.losses.n_rounds:
            raise gymnasium.error.ResetNeeded(
                f"a step must have a row in the table, but all {self.losses.n_rounds} were played; call reset"
            )
        at = self._round
        loss = float(self.losses.table[at, arm])
        self._spent += float(self._costs.table[at, arm])
        with np.errstate(over="ignore"):
            regret = float(np.ldexp(self._spent - self._costs.best[at], self._costs.exponent))
        self._round = at + 1
        # Not -loss: a loss of 0 is a reward of 0, and not of -0.
        return 0, 0.0 - loss, self._round == self.losses.n_rounds, False, {"loss": loss, "round": at, "regret": regret}
