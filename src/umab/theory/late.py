"""SCB-D along given arms, with late feedback, in extended precision, and its bound."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.engine.delays import Delays, Rounds
from umab.tables.losses import Losses
from umab.theory.path import PRECISION, Number, Precise, Runs


@dataclass(frozen=True, eq=False)
class LatePath(Runs):
    """Runs of SCB-D: arrays over runs, rounds and arms. Losses that would arrive after the end arrive there."""

    policy: Policy
    losses: Precise
    """ℓ_t, runs × T × n; if they are centred, ℓ_t − b_t, where b_t is the mean of what arrived before, and 0 for
    the loss that arrives first."""
    arms: npt.NDArray[np.intp]
    """k_t, runs × T."""
    p: Precise
    """x_t; runs × T × n."""
    drawn_from: Precise
    """q_t; runs × T × n."""
    scale: Precise
    """C_t; runs × T."""
    weight: Precise
    """h_t, the weight of the entropy; runs × T."""
    exploration: Precise
    """β_t; T."""
    outstanding: Precise
    """𝔡_t; runs × T."""
    clipped: Precise
    """c_t, the loss seen, clipped and moved up by C_t; runs × T."""
    arrived: Precise
    """L^obs_t, the estimates that had arrived; runs × T × n."""
    sums: Precise
    """L_t = Σ_{s<t} ℓ̂_s, all estimates; runs × (T + 1) × n."""

    @property
    def waited(self) -> Precise:
        """𝔇_t; runs × T."""
        return np.asarray(np.cumsum(self.outstanding, axis=1))

    @property
    def too_large(self) -> Precise:
        """‖ℓ_t − clip(ℓ_t)‖∞ = (‖ℓ_t‖∞ − C_t)⁺; runs × T."""
        return np.asarray(np.maximum(0, np.abs(self.losses).max(axis=2) - self.scale))


def share_of_exploration(n_arms: int, t: Precise | int) -> Precise:
    """Return β_t = n/(2n + √(nt))."""
    n = np.longdouble(n_arms)
    return np.asarray(n / (2 * n + np.sqrt(n * t)))


def delays_of(delays: object, n_rounds: int, n_trials: int, seed: int = 0) -> Rounds:
    """Return the delays of trials, one row each, as `umab.simulate` has them; None means none."""
    return Delays.of(0 if delays is None else delays, n_rounds).of_trials(seed, range(n_trials), n_rounds)[:, :, 0]


def total_delay(delays: Rounds) -> Precise:
    """Return D of each row: the sum of the delays, which count up to the last round at most."""
    return np.asarray(np.minimum(delays, np.arange(delays.shape[1])[::-1]).sum(axis=1), dtype=np.longdouble)


def size_of(policy: Policy, losses: Losses) -> np.longdouble:
    """Return ℓ∞; for centred losses, the largest distance from a mean of losses that any run can have."""
    table = losses.table.astype(np.longdouble)
    size: np.longdouble = table.max() - table.min() if isinstance(policy, Centred) else np.abs(table).max()
    return size


def bound_on_clipping(n_arms: int, n_rounds: int, total: Number) -> Number:
    """Return √(2D) + 2n + √(nT): how many times ℓ∞ all losses exceed the scales of their rounds by."""
    times: Number = np.sqrt(2 * total) + 2 * n_arms + np.sqrt(np.longdouble(n_arms) * n_rounds)
    return times


def terms_of_bound(n_arms: int, n_rounds: int, total: Number) -> dict[str, Number]:
    """Return the terms of Theorem D, in multiples of ℓ∞, for the sum D = `total` of the delays."""
    root = np.sqrt(np.longdouble(n_arms) * n_rounds)
    late = 2 * np.sqrt(2 * total * np.log(np.longdouble(n_arms)))
    return {
        "steps": 8 * root,
        "late steps": late,
        "regulariser": 4 * root + late,
        "exploration": 4 * root,
        "clipping": 2 * bound_on_clipping(n_arms, n_rounds, total),
    }


def follow_late(
    policy: Policy, losses: npt.ArrayLike, arms: npt.ArrayLike, delays: npt.ArrayLike | None = None
) -> LatePath:
    """Return what SCB-D does when it draws these arms.

    Parameters
    ----------
    policy
        A `SCBD`, bare or centred.
    losses
        Rounds × arms.
    arms
        The arms of each run: runs × rounds.
    delays
        The delays of each run, runs × rounds; None for none.
    """
    drawn = np.asarray(arms, dtype=np.intp)
    given = np.asarray(losses, dtype=np.longdouble)
    table = np.array(np.broadcast_to(given, (len(drawn), *given.shape)))
    n_runs, n_rounds, n_arms = table.shape
    late = np.zeros(drawn.shape, dtype=np.int64) if delays is None else np.broadcast_to(delays, drawn.shape)
    shares = share_of_exploration(n_arms, np.arange(1, n_rounds + 1))
    p, drawn_from, arrived = np.zeros((3, n_runs, n_rounds, n_arms), dtype=np.longdouble)
    scale, weight, outstanding, clipped = np.zeros((4, n_runs, n_rounds), dtype=np.longdouble)
    sums = np.zeros((n_runs, n_arms), dtype=np.longdouble)
    largest, n_open, waited = np.zeros((3, n_runs), dtype=np.longdouble)
    due: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    mean = _Means(table[np.arange(n_runs), 0, 0], n_runs) if isinstance(policy, Centred) else None

    def learn(run: int, s: int) -> None:
        arm, limit = drawn[run, s], scale[run, s]
        if mean is not None:
            table[run, s] = mean.centred(run, table[run, s], arm)
        seen = table[run, s, arm]
        clipped[run, s] = max(-limit, min(limit, seen)) + limit
        sums[run, arm] += clipped[run, s] / drawn_from[run, s, arm]
        largest[run] = max(largest[run], abs(seen))

    for t in range(n_rounds):
        waited += n_open
        h = np.sqrt(2 * waited / np.log(np.longdouble(n_arms))) if n_arms > 1 else 0 * waited
        p[:, t] = leader(sums, 2 * largest * np.sqrt(np.longdouble(t + 1)), 2 * largest * h)
        drawn_from[:, t] = (1 - shares[t]) * p[:, t] + shares[t] / n_arms
        arrived[:, t], scale[:, t], weight[:, t], outstanding[:, t] = sums, largest, h, n_open
        for run in range(n_runs):
            due[t + int(late[run, t])].append((run, t))
        n_open += 1
        for run, s in due.pop(t, []):
            learn(run, s)
            n_open[run] -= 1
    for at in sorted(due):
        for run, s in due[at]:
            learn(run, s)
    estimates = np.zeros_like(table)
    of_arm = np.take_along_axis(drawn_from, drawn[:, :, None], axis=2)
    np.put_along_axis(estimates, drawn[:, :, None], clipped[:, :, None] / of_arm, axis=2)
    every = np.concatenate([0 * estimates[:, :1], np.cumsum(estimates, axis=1)], axis=1)
    return LatePath(
        policy=policy,
        losses=table,
        arms=drawn,
        p=p,
        drawn_from=drawn_from,
        scale=scale,
        weight=weight,
        exploration=shares,
        outstanding=outstanding,
        clipped=clipped,
        arrived=arrived,
        sums=every,
    )


class _Means:
    """The means of the losses that have arrived, measured from some loss of each run so that no digits are lost."""

    def __init__(self, origin: Precise, n_runs: int) -> None:
        self.origin, self.count = origin, np.zeros(n_runs, dtype=np.longdouble)
        self.total = np.zeros(n_runs, dtype=np.longdouble)

    def centred(self, run: int, row: Precise, arm: np.intp) -> Precise:
        """Return the losses of a round minus the mean of what arrived before, 0 if that was nothing; and count one."""
        above = row - self.origin[run]
        found = above - self.total[run] / self.count[run] if self.count[run] else 0 * row
        self.total[run] += above[arm]
        self.count[run] += 1
        return np.asarray(found)


def leader(sums: Precise, root_weight: Precise, entropy_weight: Precise) -> Precise:
    """Return argmin ⟨L, x⟩ − 2A Σ √x_k + B Σ x_k ln x_k for each row of `sums`; uniform where A is 0.

    As `umab.maths.hybrid`, for many rows at a time.
    """
    n_arms = sums.shape[1]
    found = np.full(sums.shape, 1 / np.longdouble(n_arms))
    rows = root_weight > 0
    if n_arms == 1 or not rows.any():
        return found
    whole = (root_weight + 2 * entropy_weight)[rows, None]
    a, c = root_weight[rows, None] / whole, 2 * entropy_weight[rows, None] / whole
    gaps = sums[rows]
    gaps = (gaps - gaps.min(axis=1, keepdims=True)) / whole
    shift, logs = a + c * 0, np.zeros_like(gaps)
    for _ in range(100):
        logs = _logs_of_roots(a, c, gaps + shift, logs)
        share = np.exp(-2 * logs)
        total = share.sum(axis=1, keepdims=True)
        step = np.log(total) * total / (2 * (share / (a * np.exp(logs) + c)).sum(axis=1, keepdims=True))
        shift = np.maximum(a, shift + step)
        if (np.abs(step) <= 16 * PRECISION * n_arms * (1 + shift)).all():
            break
    found[rows] = share / total
    return found


def _logs_of_roots(a: Precise, c: Precise, y: Precise, guess: Precise) -> Precise:
    """Return s with a·exp(s) + c·s = y."""
    with np.errstate(divide="ignore"):
        most = np.minimum(np.log(np.maximum(1, y / a)), np.where(c > 0, y / np.where(c > 0, c, 1), np.inf))
    s = np.minimum(guess, most)
    for _ in range(100):
        root = a * np.exp(s)
        found = np.clip(s - (root + c * s - y) / (root + c), 0, most)
        moved, s = np.abs(found - s).max(), found
        if moved <= 1e-10:  # the error is squared in the step that it is found with
            break
    return s
