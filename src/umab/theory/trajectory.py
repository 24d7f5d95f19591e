"""Every quantity of the proofs along runs of UMAB-NN and UMAB-G, in extended precision.

This is the algorithms once more, for many runs at a time, from their definition: no units, no compensated sums, no
speed. The arms are given, as lemmas hold for any sequence of them. Numbers are NumPy's long doubles: 64 bits of
mantissa on x86, so a rounding error is about 1e-19 of a number, and squares of doubles cannot overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN

Precise = npt.NDArray[Any]
"""An array of long doubles, or of what is compared with them."""

PRECISION = float(np.finfo(np.longdouble).eps)
"""The gap between 1 and the next long double."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Runs of a policy: arrays over runs, rounds and arms. Those of T + 1 rounds include what comes after the last."""

    policy: UMABNN | UMABG
    losses: Precise
    """ℓ_t, runs × T × n."""
    arms: npt.NDArray[np.intp]
    """k_t, runs × T."""
    p: Precise
    """p_t, what follows the regularised leader; runs × (T + 1) × n."""
    drawn_from: Precise
    """p'_t, with extra exploration; runs × (T + 1) × n."""
    offsets: Precise
    """c_t; runs × (T + 1) × n."""
    inverse_rate: Precise
    """1/η_t, as η_1 of UMAB-NN is infinite; runs × (T + 1)."""
    exploration: Precise
    """ρ_t; runs × (T + 1)."""
    clip: Precise
    """C_t; runs × (T + 1)."""
    sums: Precise
    """Σ_{s<t} ℓ̂'_s; runs × (T + 1) × n."""
    clipped: Precise
    """ℓ'_{t,k_t}; runs × T."""

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.losses.shape[2])

    @property
    def n_rounds(self) -> int:
        """The number of rounds, T."""
        return int(self.losses.shape[1])

    def of_arm(self, values: Precise) -> Precise:
        """Return the entries of the arms that were drawn: runs × T, from runs × T × n or more rounds."""
        drawn = np.take_along_axis(values[:, : self.n_rounds], self.arms[:, :, None], axis=2)
        return np.asarray(drawn[:, :, 0])

    @property
    def seen(self) -> Precise:
        """ℓ_{t,k_t}."""
        return self.of_arm(self.losses)

    @property
    def estimate(self) -> Precise:
        """ℓ̂'_{t,k_t}, the only entry of the estimate that is not 0."""
        return np.asarray(self.clipped / self.of_arm(self.drawn_from))

    @property
    def expected_regret(self) -> Precise:
        """Σ_t ⟨ℓ_t, p'_t⟩ − min_k Σ_t ℓ_{t,k}; one number a run."""
        spent = (self.losses * self.drawn_from[:, :-1]).sum(axis=(1, 2))
        return np.asarray(spent - self.losses.sum(axis=1).min(axis=1))

    @property
    def log_probability(self) -> Precise:
        """The logarithm of the probability that the policy draws these arms; one number a run."""
        return np.asarray(np.log(self.of_arm(self.drawn_from)).sum(axis=1))


def follow(policy: Policy, losses: npt.ArrayLike, arms: npt.ArrayLike) -> Trajectory:
    """Return what a policy does when it draws these arms.

    Parameters
    ----------
    policy
        A `UMABNN` or `UMABG`, with its horizon if it needs one.
    losses
        Rounds × arms, or a table for each run: runs × rounds × arms.
    arms
        The arms of each run: runs × rounds.
    """
    if not isinstance(policy, (UMABNN, UMABG)):
        raise TypeError(f"the proofs are those of UMAB-NN and UMAB-G, but got {policy.name}")
    drawn = np.asarray(arms, dtype=np.intp)
    table = np.asarray(losses, dtype=np.longdouble)
    table = np.broadcast_to(table, (len(drawn), *table.shape[-2:]))
    n_runs, n_rounds, n_arms = table.shape
    policy = policy.for_horizon(n_rounds)
    known_sign = isinstance(policy, UMABNN)

    def room(*shape: int) -> Precise:
        return np.zeros((n_runs, *shape), dtype=np.longdouble)

    kept: dict[str, Any] = {
        "p": room(n_rounds + 1, n_arms),
        "drawn_from": room(n_rounds + 1, n_arms),
        "offsets": room(n_rounds + 1, n_arms),
        "sums": room(n_rounds + 1, n_arms),
        "inverse_rate": room(n_rounds + 1),
        "exploration": room(n_rounds + 1),
        "clip": room(n_rounds + 1),
        "clipped": room(n_rounds),
    }
    run = np.arange(n_runs)
    sums, sizes, offsets = room(n_arms), room(n_arms), room(n_arms)
    squares, cost = room(), room()
    if isinstance(policy, UMABG):
        clip = room() - policy.initial_scale
        inverse_rate = room() + np.longdouble(policy.initial_scale) / np.longdouble(policy.rate)
        rho = room() + (0 if policy.exploration == "none" else np.longdouble(0.5) / n_arms**2)
    else:
        clip, inverse_rate, rho = room(), room(), room()
    for t in range(n_rounds + 1):
        p = log_barrier(sums, inverse_rate)
        offsets = room(n_arms) if known_sign else _offsets(p, rho)
        drawn_from = p + rho[:, None] * offsets
        for name, value in (
            ("p", p),
            ("drawn_from", drawn_from),
            ("offsets", offsets),
            ("sums", sums),
            ("inverse_rate", inverse_rate),
            ("exploration", rho),
            ("clip", clip),
        ):
            kept[name][:, t] = value
        if t == n_rounds:
            break
        arm = drawn[:, t]
        seen = table[run, t, arm]
        clipped = seen if known_sign else np.maximum(2 * clip, seen)
        estimate = clipped / drawn_from[run, arm]
        kept["clipped"][:, t] = clipped
        sums = sums.copy()
        sums[run, arm] += estimate
        squares = squares + clipped * clipped
        if isinstance(policy, UMABG):
            clip = np.minimum(clip, clipped)
            inverse_rate = np.sqrt((n_arms * clip * clip + squares) / n_arms) / np.longdouble(policy.rate)
            cost = cost + np.abs(estimate * offsets[run, arm])
            sizes[run, arm] += np.abs(seen / drawn_from[run, arm])
            rho = _exploration(policy, n_arms, t + 2, cost, (sizes * np.abs(offsets)).sum(axis=1))
        else:
            inverse_rate = np.sqrt(squares / n_arms) / 2
    return Trajectory(policy=policy, losses=table, arms=drawn, **kept)


def _exploration(policy: UMABG, n_arms: int, t: int, cost: Precise, size: Precise) -> Precise:
    """Return ρ_t: `cost` is the appendix's Σ |⟨ℓ̂'_s, c_s⟩|, `size` the main text's Σ |⟨ℓ̂_s, c_{t−1}⟩|."""
    if policy.exploration == "none":
        return np.zeros_like(cost)
    n = np.longdouble(n_arms)
    more = {
        "adaptive": np.sqrt(2 * cost),
        "fixed": np.sqrt(n * (policy.horizon or 0)) + 0 * cost,
        "anytime": np.sqrt(n * t) + 0 * cost,
        "maintext": 2 * np.sqrt(size),
    }[policy.exploration]
    rate: Precise = 1 / (2 * n * n + more)
    return rate


def _offsets(p: Precise, rho: Precise) -> Precise:
    """Return c_t of Algorithm 3."""
    offsets = (p < rho[:, None]).astype(np.longdouble)
    best = p.argmax(axis=1)
    run = np.arange(len(p))
    offsets[run, best] = 0
    offsets[run, best] = -offsets.sum(axis=1)
    return offsets


def log_barrier(sums: Precise, inverse_rate: Precise) -> Precise:
    """Return argmin ⟨L, p⟩ + (1/η) Σ log(1/p_k) for each row of `sums` and entry of `inverse_rate`, by Newton's method.

    p_k = 1/(x_k + μ) with x = η(L − min L). The iterates climb to μ from the left, as `umab.simplex.power_shift` shows.
    """
    n_arms = sums.shape[1]
    gaps = sums - sums.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(gaps == 0, np.longdouble(0), gaps / inverse_rate[:, None])
    shift = np.maximum(1, n_arms - x.mean(axis=1))
    for _ in range(200):
        p = 1 / (x + shift[:, None])
        total = p.sum(axis=1)
        step = total * (total - 1) / (p * p).sum(axis=1)
        shift = shift + step
        if (np.abs(step) <= 4 * PRECISION * shift).all():
            break
    p = 1 / (x + shift[:, None])
    normalised: Precise = p / p.sum(axis=1, keepdims=True)
    return normalised
