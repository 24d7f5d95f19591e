"""HTINF and AdaTINF once more, straight from their definition, in 40 digits: no units, no tricks, no speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

from umab.testing import Array

mpf: Any = mpmath.mpf


def leader(loss_sums: Sequence[Any], rate: Any, alpha: Any) -> list[Any]:
    """Return argmin η⟨L, q⟩ − α Σ q_k^(1/α): q_k = (η L_k + ν)^(−α/(α − 1)).

    The sum of the q_k is convex and falls with ν, so Newton's method climbs to the ν where it is 1, from below.
    """
    power = alpha / (alpha - 1)
    lowest = min(loss_sums)
    x, shift = [rate * (loss - lowest) for loss in loss_sums], mpf(1)
    for _ in range(1000):
        q = [(each + shift) ** -power for each in x]
        slope = power * mpmath.fsum(each / (gap + shift) for each, gap in zip(q, x, strict=True))
        step = (mpmath.fsum(q) - 1) / slope
        shift += step
        if abs(step) * power < mpf(10) ** (20 - mpmath.mp.dps):
            return [(each + shift) ** -power for each in x]
    raise AssertionError("no convergence")


def htinf(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> tuple[Array, list[bool]]:
    """Return the distributions of HTINF, one row a round, and which rounds it skips."""
    with mpmath.workdps(40):
        alpha, sigma, sums = mpf(policy.alpha), mpf(policy.sigma), [mpf(0)] * n
        theta = 1 - mpf(2) ** (-(alpha - 1) / (2 * alpha - 1))
        if alpha < 2:
            theta = min(theta, (2 - 2 / alpha) ** (1 / (2 - alpha)))
        rows, skips = [], []
        for t in range(1, len(losses) + 2):
            inverse_rate = sigma * mpf(t) ** (1 / alpha)
            q = leader(sums, 1 / inverse_rate, alpha)
            rows.append(q)
            if t <= len(losses):
                arm, loss = arms[t - 1], mpf(losses[t - 1])
                skips.append(bool(abs(loss) > theta * inverse_rate * q[arm] ** (1 / alpha)))
                sums[arm] += 0 if skips[-1] else loss / q[arm]
        return np.array(rows, dtype=float), skips


class AdaTINF:
    """One AdaTINF that is told T."""

    def __init__(self, n: int, horizon: int) -> None:
        self.sums, self.J, self.S, self.t = [mpf(0)] * n, 0, mpf(0), 1
        self.limit = mpmath.sqrt(n * mpf(horizon + 1))

    def distribution(self) -> list[Any]:
        return leader(self.sums, 1 / (mpf(2) ** self.J * mpmath.sqrt(self.t)), mpf(2))

    def learn(self, arm: int, loss: Any, q: Any) -> bool:
        """Learn from a loss; return whether it is skipped."""
        scale = mpf(2) ** self.J
        rate = 1 / (scale * mpmath.sqrt(self.t))
        skipped = abs(loss) > scale * (1 - mpf(2) ** (mpf(-1) / 3)) * mpmath.sqrt(self.t) * mpmath.sqrt(q)
        cost = loss if skipped else 2 * rate * loss**2 / mpmath.sqrt(q)
        self.sums[arm] += 0 if skipped else loss / q
        self.S += cost
        if scale * self.limit < self.S:
            self.J = max(self.J + 1, int(mpmath.ceil(mpmath.log(cost / self.limit, 2))) + 1)
            self.S = cost
        self.t += 1
        return bool(skipped)


def ada_tinf(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> tuple[Array, list[bool], list[int]]:
    """Return the distributions of AdaTINF, one row a round, which rounds it skips, and J after each round."""
    with mpmath.workdps(40):
        epochs = [2**j - 1 for j in range(1, 60)] if policy.anytime else [10**9]
        inner = AdaTINF(n, epochs[0] if policy.anytime else policy.horizon)
        rows, skips, levels = [inner.distribution()], [], []
        for arm, loss in zip(arms, losses, strict=True):
            skips.append(inner.learn(arm, mpf(loss), rows[-1][arm]))
            if inner.t > epochs[0]:
                epochs = epochs[1:]
                inner = AdaTINF(n, epochs[0])
            levels.append(inner.J)
            rows.append(inner.distribution())
        return np.array(rows, dtype=float), skips, levels
