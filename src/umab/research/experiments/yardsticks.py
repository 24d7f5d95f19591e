"""Rules that practitioners write, to see whether a policy is better. They are not policies of this library.

Each is a function of a table, a random generator and perhaps parameters, and returns what its draws cost. They are
compiled, and written as one would write them in a service: ties go to the first arm, and nothing is done about losses
beyond 1e150.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from umab.engine.compiled import compiled_alone
from umab.tables.losses import Table


def standardised_ucb(losses: Table, rng: np.random.Generator) -> float:
    """UCB on losses divided by the standard deviation of all losses so far: argmin m_k/s − √(2 ln t / c_k)."""
    n_rounds, n_arms = losses.shape
    means, counts = np.zeros(n_arms), np.zeros(n_arms)
    total, centre, squares = 0.0, 0.0, 0.0
    for t in range(n_rounds):
        arm = t % n_arms
        if t >= n_arms:
            s, best = math.sqrt(squares / t), math.inf
            for k in range(n_arms):
                index = means[k] - s * math.sqrt(2.0 * math.log(t + 1.0) / counts[k])
                if index < best:
                    best, arm = index, k
        x = losses[t, arm]
        total += x
        counts[arm] += 1.0
        means[arm] += (x - means[arm]) / counts[arm]
        off = x - centre
        centre += off / (t + 1.0)
        squares += off * (x - centre)
    return total


def discounted_ucb(losses: Table, rng: np.random.Generator) -> float:
    """UCB in the same way, with counts, means and the standard deviation discounted by 0.999 in every round."""
    n_rounds, n_arms = losses.shape
    sums, counts = np.zeros(n_arms), np.zeros(n_arms)
    origin, total, number, first, second = losses[0, 0], 0.0, 0.0, 0.0, 0.0
    for t in range(n_rounds):
        arm = t % n_arms
        if t >= n_arms:
            s, best = math.sqrt(max(0.0, second / number - (first / number) ** 2)), math.inf
            for k in range(n_arms):
                index = sums[k] / counts[k] - s * math.sqrt(2.0 * math.log(max(number, math.e)) / counts[k])
                if index < best:
                    best, arm = index, k
        total += losses[t, arm]
        x = losses[t, arm] - origin
        for k in range(n_arms):
            sums[k] *= 0.999
            counts[k] *= 0.999
        sums[arm] += x
        counts[arm] += 1.0
        number, first, second = 0.999 * number + 1.0, 0.999 * first + x, 0.999 * second + x * x
    return total


def thompson(losses: Table, rng: np.random.Generator) -> float:
    """Thompson sampling for normal losses of unknown variance; arms forget by 0.999 in every round.

    The prior of an arm counts as one loss, with the mean and the variance of all losses so far.
    """
    n_rounds, n_arms = losses.shape
    counts, first, second = np.zeros(n_arms), np.zeros(n_arms), np.zeros(n_arms)
    origin, total, centre, squares = losses[0, 0], 0.0, 0.0, 0.0
    for t in range(n_rounds):
        arm = t % n_arms
        if t >= 2 * n_arms:
            best, variance = math.inf, squares / t
            for k in range(n_arms):
                c = counts[k] + 1.0
                mean = (first[k] + centre) / c
                spread = max(0.0, second[k] + centre * centre + variance - c * mean * mean)
                drawn = mean + math.sqrt(spread / rng.chisquare(c) / c) * rng.standard_normal()
                if drawn < best:
                    best, arm = drawn, k
        total += losses[t, arm]
        x = losses[t, arm] - origin
        for k in range(n_arms):
            counts[k] *= 0.999
            first[k] *= 0.999
            second[k] *= 0.999
        counts[arm] += 1.0
        first[arm] += x
        second[arm] += x * x
        off = x - centre
        centre += off / (t + 1.0)
        squares += off * (x - centre)
    return total


def greedy(losses: Table, rng: np.random.Generator, share: float, rate: float) -> float:
    """ε-greedy with this share of exploration, on moving means of this rate; at rate 0 they are means of all losses."""
    n_rounds, n_arms = losses.shape
    means, counts = np.zeros(n_arms), np.zeros(n_arms)
    total = 0.0
    for t in range(n_rounds):
        if t < n_arms:
            arm = t
        elif rng.random() < share:
            arm = int(rng.random() * n_arms)
        else:
            arm = int(np.argmin(means))
        x = losses[t, arm]
        total += x
        counts[arm] += 1.0
        means[arm] += (x - means[arm]) * max(rate, 1.0 / counts[arm])
    return total


def greedy_breaker(losses: Table, rng: np.random.Generator) -> float:
    """ε-greedy (0.05, moving means of rate 0.01) with a circuit breaker.

    A loss three standard deviations above the mean of all losses is a failure, and not learned from. Three failures
    of an arm in a row open its breaker for 100 rounds; then the next loss decides whether it stays open.
    """
    n_rounds, n_arms = losses.shape
    means, counts, failures, opens = np.zeros(n_arms), np.zeros(n_arms), np.zeros(n_arms), np.zeros(n_arms)
    total, centre, squares = 0.0, 0.0, 0.0
    for t in range(n_rounds):
        arm = t
        if t >= n_arms:
            n_closed, arm, best = 0, -1, math.inf
            for k in range(n_arms):
                if t >= opens[k]:
                    n_closed += 1
                    if means[k] < best:
                        best, arm = means[k], k
            if n_closed == 0:
                arm = int(rng.random() * n_arms)
            elif rng.random() < 0.05:
                which = int(rng.random() * n_closed)
                for k in range(n_arms):
                    if t >= opens[k]:
                        if which == 0:
                            arm = k
                        which -= 1
        x = losses[t, arm]
        total += x
        if t >= 2 * n_arms and x > centre + 3.0 * math.sqrt(squares / t):
            failures[arm] += 1.0
            if failures[arm] >= 3.0:
                opens[arm] = t + 100.0
        else:
            failures[arm] = 0.0
            counts[arm] += 1.0
            means[arm] += (x - means[arm]) * max(0.01, 1.0 / counts[arm])
        off = x - centre
        centre += off / (t + 1.0)
        squares += off * (x - centre)
    return total


def two_choices(losses: Table, rng: np.random.Generator) -> float:
    """Power of two choices: of two arms at random, the one with the smaller moving mean, of rate 0.1."""
    n_rounds, n_arms = losses.shape
    means, counts = np.zeros(n_arms), np.zeros(n_arms)
    total = 0.0
    for t in range(n_rounds):
        arm = t % n_arms
        if t >= n_arms:
            other = int(rng.random() * (n_arms - 1))
            arm = int(rng.random() * n_arms)
            other += 1 if other >= arm else 0
            if means[other] < means[arm]:
                arm = other
        x = losses[t, arm]
        total += x
        counts[arm] += 1.0
        means[arm] += (x - means[arm]) * max(0.1, 1.0 / counts[arm])
    return total


def glr_klucb(losses: Table, rng: np.random.Generator) -> float:
    """GLR-klUCB on losses scaled by their range so far; it is told the number of rounds.

    Each arm is forced once every ⌊n/α⌋ rounds of an episode, α = √(k n ln T / T) in episode k, and δ = 1/√T. A test
    that is significant starts all arms anew. Tests are made after every tenth loss of an arm, at up to 127 places.
    """
    n_rounds, n_arms = losses.shape
    sums = np.zeros((n_arms, n_rounds + 1))
    counts = np.zeros(n_arms, dtype=np.int64)
    total, low, high, start, episode = 0.0, losses[0, 0], losses[0, 0], 0, 1.0
    delta = 1.0 / math.sqrt(n_rounds)
    for t in range(n_rounds):
        since = t - start
        alpha = min(1.0, math.sqrt(episode * n_arms * math.log(n_rounds) / n_rounds))
        arm = since % max(n_arms, int(n_arms / alpha))
        if arm >= n_arms or (since >= n_arms and counts[arm] == 0):
            level = math.log(since + 1.0)
            level += 3.0 * math.log(max(1.0, level))
            arm, best = 0, -1.0
            for k in range(n_arms):
                if counts[k] == 0:
                    arm, best = k, 2.0
                    break
                mean = 1.0 - (sums[k, counts[k]] / counts[k] - low) / max(high - low, 1e-300)
                mean = min(max(mean, 0.0), 1.0)
                below, above = mean, 1.0
                for _ in range(20):
                    middle = 0.5 * (below + above)
                    kl = mean * math.log(mean / middle) if mean > 0.0 else 0.0
                    kl += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - middle)) if mean < 1.0 > middle else 0.0
                    if counts[k] * kl <= level:
                        below = middle
                    else:
                        above = middle
                if below > best:
                    best, arm = below, k
        x = losses[t, arm]
        total += x
        low, high = min(low, x), max(high, x)
        counts[arm] += 1
        c = counts[arm]
        sums[arm, c] = sums[arm, c - 1] + x
        if c % 10 == 0 and high > low:
            changed, width = False, high - low
            m = min(max((sums[arm, c] / c - low) / width, 1e-12), 1.0 - 1e-12)
            for s in range(max(1, c // 64), c, max(1, c // 64)):
                m1 = min(max((sums[arm, s] / s - low) / width, 1e-12), 1.0 - 1e-12)
                m2 = min(max(((sums[arm, c] - sums[arm, s]) / (c - s) - low) / width, 1e-12), 1.0 - 1e-12)
                kl1 = m1 * math.log(m1 / m) + (1.0 - m1) * math.log((1.0 - m1) / (1.0 - m))
                kl2 = m2 * math.log(m2 / m) + (1.0 - m2) * math.log((1.0 - m2) / (1.0 - m))
                changed = changed or s * kl1 + (c - s) * kl2 > math.log(c**1.5 / delta)
            if changed:
                counts[:] = 0
                start, episode = t + 1, episode + 1.0
    return total


_RULES: dict[str, tuple[Callable[..., float], *tuple[float, ...]]] = {
    "UCB, standardised": (standardised_ucb,),
    "UCB, discount 0.999": (discounted_ucb,),
    "Thompson, forgetting 0.999": (thompson,),
    "ε-greedy 0.1": (greedy, 0.1, 0.0),
    "ε-greedy, moving mean 0.01": (greedy, 0.05, 0.01),
    "ε-greedy, moving mean 0.05": (greedy, 0.05, 0.05),
    "ε-greedy, circuit breaker": (greedy_breaker,),
    "power of two choices": (two_choices,),
    "GLR-klUCB": (glr_klucb,),
}
"""The rules, by name, with the values of their parameters."""
YARDSTICKS = tuple(_RULES)
"""The names of the yardsticks."""


def cost(name: str, losses: Table, seed: list[int]) -> float:
    """Return what the draws of a yardstick cost on a table."""
    rule, *values = _RULES[name]
    return float(compiled_alone(rule)(losses, np.random.default_rng(seed), *values))
