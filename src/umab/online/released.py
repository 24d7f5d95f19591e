"""Choices that are kept outside the learner, for example by a server that stores them in a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from umab.online.choice import Choice, Draw, checked_draw
from umab.online.feedback import as_loss, refusal
from umab.online.persistent import Persistent, nested


class Releasing(Persistent):
    """The part of a learner that lets go of open choices, and learns from them when they come back."""

    def release(self, choice: Choice) -> Draw:
        """Let go of an open choice, and return its draw, with which `settle` can learn from it at any later time.

        The learner no longer knows the choice: it neither saves it nor lets it expire. It is up to you to settle the
        draw at most once.

        Examples
        --------
        >>> import umab
        >>> learner = umab.Learner("umab-w", arms=["a", "b"], seed=0)
        >>> draw = learner.release(learner.select())
        >>> learner.n_open
        0
        >>> learner.settle(draw, loss=2.5)
        """
        with self._lock:  # as `_changing`, without its call: a server does this in every round
            if self._busy:
                raise nested()
            self._busy = True
            try:
                known = self._core.known(choice)
                draw = self._core.draw_of(known)
                self._core.close(known, None)
                self._n_quiet = 0  # the keeper of the draw knows whether its feedback is missing
                return draw
            finally:
                self._busy = False

    def settle(self, draw: Draw | Sequence[Any], loss: float | None = None, *, reward: float | None = None) -> None:
        """Learn from the loss, or the reward, of a draw that this learner, or an earlier copy of it, has released.

        If its account's arm is gone, the policy learns nothing; if that arm was removed and added again, it learns.
        """
        draw = checked_draw(draw)
        value, loss = as_loss(self._maximize, loss, reward)
        with self._lock:  # as in `release`
            if self._busy:
                raise nested()
            self._busy = True
            try:
                core = self._core
                if not self._lowest <= loss <= self._highest:
                    raise refusal(core.policy, loss, draw.arm, reward)
                index = core.index.get(draw.arm)
                core.settle(draw, index, loss)
                if index is not None:
                    core.tallies[index].take_in(value)
                self._n_quiet = 0
            finally:
                self._busy = False
