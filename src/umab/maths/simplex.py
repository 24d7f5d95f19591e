"""Steps on the probability simplex that policies are built from.

Vectors are filled in place and nothing is allocated. Sums run in a fixed order that is spelled out, so that plain
Python and compiled code agree bit for bit.
"""

import math
from collections.abc import Callable, MutableSequence, Sequence
from typing import Annotated, TypeAlias

from umab._support.checks import LARGEST
from umab.maths.numerics import FLOOR, add

Vector: TypeAlias = MutableSequence[float]
"""One float for each arm: a list in plain Python, a float64 array in compiled code."""

Rows: TypeAlias = MutableSequence[MutableSequence[float]]
"""The same number of floats for each arm: a list of lists in plain Python, a float64 array of rows in compiled code."""

FixedVector: TypeAlias = Annotated[MutableSequence[float], "of a length that does not depend on the arms"]
"""As many floats as the state has at the start: a list in plain Python, a float64 array in compiled code."""

_BLOCK = 64
_STEPS = 100


def draw(probabilities: Vector, uniform: float) -> int:
    """Return the arm that a uniform number in [0, 1) picks: the inverse of the cumulative sum, in arm order."""
    cumulative = 0.0
    for arm in range(len(probabilities)):
        cumulative += probabilities[arm]
        if uniform < cumulative:
            return arm
    # Rounding left the sum slightly below 1 and `uniform` fell into the gap. This distorts the likeliest arm least;
    # the last one might have a tiny probability, by which its loss would be divided.
    return likeliest(probabilities)


def rest_of(probabilities: Vector, uniform: float, arm: int) -> float:
    """Return what is left of the uniform number that picked an arm: uniform in [0, 1), and independent of the arm."""
    before = 0.0
    for k in range(arm):
        before += probabilities[k]
    return in_unit((uniform - before) / probabilities[arm])


def in_unit(number: float) -> float:
    """Return a number in [0, 1) that rounding, or the gap below 1 in which `draw` takes another arm, may have left."""
    return max(0.0, min(BELOW_1, number))


BELOW_1 = 1.0 - 2.0**-53
"""The largest number below 1."""


def likeliest(probabilities: Vector) -> int:
    """Return the arm with the largest probability, the first one if there are several."""
    top = 0
    for arm in range(1, len(probabilities)):
        if probabilities[arm] > probabilities[top]:
            top = arm
    return top


def smallest(values: Vector) -> float:
    """Return the smallest value."""
    lowest = values[0]
    for k in range(1, len(values)):
        lowest = min(lowest, values[k])
    return lowest


def where_smallest(values: Vector) -> int:
    """Return the index of the smallest value, the first one if there are several."""
    at, lowest = 0, values[0]
    for k in range(1, len(values)):
        if values[k] < lowest:
            at, lowest = k, values[k]
    return at


def largest_size(values: Vector) -> float:
    """Return the largest absolute value."""
    size = 0.0
    for k in range(len(values)):
        size = max(size, abs(values[k]))
    return size


def sum_of(values: Vector) -> float:
    """Return the sum of the values: plain sums of blocks, which are added with compensation."""
    total, error = 0.0, 0.0
    for start in range(0, len(values), _BLOCK):
        part = 0.0
        for k in range(start, min(start + _BLOCK, len(values))):
            part += values[k]
        total, error = add(total, error, part)
    return total


def sum_of_others(values: Vector, arm: int) -> float:
    """Return the sum of all values except the one of `arm`; for probabilities, 1 − p with all its digits."""
    total = 0.0
    for k in range(len(values)):
        total += values[k] if k != arm else 0.0
    return total


def log_barrier(loss_sums: Vector, rate: float, p: Vector) -> int:
    """Fill `p` with argmin ⟨L, p⟩ + (1/η) Σ log(1/p_k) on the simplex, where L = `loss_sums` and η = `rate`.

    Return the likeliest arm, the first of those with the smallest sum.

    The minimum is at p_k = 1/(x_k + μ), x_k = η(L_k − min L), with μ in [1, n] such that the p_k sum to 1. Every p_k
    has a relative error of about 1e-13. No p_k is below `FLOOR`.

    The closer the values in `p` are to the solution, the faster it is found: with 1/(x + μ) ≈ p(2 − p(x + μ)), the
    tangent at 1/p, the sum is 1 for μ = (1 − Σ p_k² x_k) / Σ p_k², where the search starts. Any values will do.
    """
    best, lowest = 0, loss_sums[0]
    squares, products = 0.0, 0.0
    for k in range(len(p)):
        # As in `where_smallest`, but in the same loop: two loops take up to a twelfth longer in all.
        if loss_sums[k] < lowest:
            best, lowest = k, loss_sums[k]
        square = p[k] * p[k]
        squares += square
        products += square * loss_sums[k]
    rate = min(rate, LARGEST)
    guess = (1.0 - rate * (products - lowest * squares)) / max(squares, FLOOR)
    scaled_gaps(loss_sums, lowest, rate, p)
    shift = power_shift(p, 1, guess)
    for k in range(len(p)):
        p[k] = max(1.0 / (p[k] + shift), FLOOR)
    return best


def tsallis(loss_sums: Vector, rate: float, p: Vector) -> None:
    """Fill `p` with argmin ⟨L, p⟩ − (2/η) Σ √p_k on the simplex, where L = `loss_sums` and η = `rate`.

    The minimum is at p_k = 1/(x_k + μ)², x_k = η(L_k − min L), with μ in [1, √n]. No p_k is below `FLOOR`. The search
    for μ starts from 1/√p_k for the k with the smallest sum.
    """
    best = where_smallest(loss_sums)
    guess = 1.0 / math.sqrt(max(p[best], FLOOR))
    scaled_gaps(loss_sums, loss_sums[best], rate, p)
    shift = power_shift(p, 2, guess)
    for k in range(len(p)):
        root = 1.0 / (p[k] + shift)
        p[k] = max(root * root, FLOOR)


def softmin(loss_sums: Vector, rate: float, p: Vector) -> None:
    """Fill `p` with argmin ⟨L, p⟩ + (1/η) Σ p_k log p_k on the simplex, where L = `loss_sums` and η = `rate`.

    The minimum is at p_k = exp(−x_k) / Σ exp(−x_j), x_k = η(L_k − min L). No p_k is below `FLOOR`.
    """
    scaled_gaps(loss_sums, smallest(loss_sums), rate, p)
    for k in range(len(p)):
        p[k] = math.exp(-p[k])
    total = sum_of(p)
    for k in range(len(p)):
        p[k] = max(p[k] / total, FLOOR)


def soft_minimum(loss_sums: Vector, temperature: float, origin: float) -> float:
    """Return −τ ln Σ exp(−(L_k − o)/τ), where L = `loss_sums`, τ = `temperature` and o = `origin`; min L − o if τ is 0.

    It is right however small the weights of `softmin` are; a sum of weights is wrong once they are at their floor.
    """
    lowest = smallest(loss_sums)
    if temperature == 0.0:
        return lowest - origin
    total = 0.0
    for k in range(len(loss_sums)):
        total += math.exp(-min((loss_sums[k] - lowest) / temperature, 800.0))
    return (lowest - origin) - temperature * math.log(total)


def mix(p: Vector, share: float, mixed: Vector) -> None:
    """Fill `mixed` with (1 − γ)p + γ/n, where γ = `share`."""
    n_arms = len(p)
    for k in range(n_arms):
        mixed[k] = (1.0 - share) * p[k] + share / n_arms


def scaled_gaps(loss_sums: Vector, lowest: float, rate: float, x: Vector) -> None:
    """Fill `x` with η(L_k − min L), where L = `loss_sums`, min L = `lowest` and η = `rate`."""
    rate = min(rate, LARGEST)  # infinity times the 0 of the best arm is not a number
    for k in range(len(x)):
        x[k] = rate * (loss_sums[k] - lowest)


def power_shift(x: Vector, power: int, guess: float) -> float:
    """Return the root μ of Σ 1/(x_k + μ)^a = 1 for a = `power`, 1 or 2, and x ≥ 0 with minimum 0.

    Newton's method on g(μ) = (Σ 1/(x_k + μ)^a)^(−1/a) = 1, which is concave and increasing (it is a power mean of the
    x_k + μ, up to a factor). So a step from anywhere leads to the left of the root, and from there the iterates climb.
    The start is `guess`, or the nearer end of [1, n^(1/a)], which contains the root.

    A step of less than a quarter of μ is corrected by the curvature of g (Chebyshev's method), by up to 3/8 of it, so
    that the error relative to μ is about cubed: after a step below 1e-5 of μ, the error is below rounding. With a guess
    from the round before, one or two steps are enough in most rounds; with the worst guess, a dozen are.
    """
    n = float(len(x))
    highest = n if power == 1 else math.sqrt(n)
    shift = max(1.0, min(guess, highest))
    for _ in range(_STEPS):
        total, slope, curve = reciprocal_sums(x, shift, power)
        step = total * ((total if power == 1 else math.sqrt(total)) - 1.0) / slope
        if abs(step) < 0.25 * shift:
            step += (0.5 + 0.5 * power) * (curve / slope - slope / total) * step * step
        shift = max(1.0, shift + step)
        if abs(step) <= 1e-5 * shift:
            break
    return shift


def reciprocal_sums(x: Vector, shift: float, power: int) -> tuple[float, float, float]:
    """Return Σ 1/(x_k + shift)^b for b = a, a + 1 and a + 2, where a = `power`, 1 or 2.

    A root near √n multiplies the rounding error of the first sum by up to √n, so a plain loop is not good enough for
    many arms. Blocks of 64 are summed in four lanes, which also lets a compiler use vector instructions, and the
    blocks' sums are added with compensation.
    """
    n_arms = len(x)
    total, error = 0.0, 0.0
    slope, curve = 0.0, 0.0
    for start in range(0, n_arms, _BLOCK):
        stop = min(start + _BLOCK, n_arms)
        quads = start + (stop - start) // 4 * 4
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
        for k in range(start, quads, 4):
            r0 = 1.0 / (x[k] + shift)
            r1 = 1.0 / (x[k + 1] + shift)
            r2 = 1.0 / (x[k + 2] + shift)
            r3 = 1.0 / (x[k + 3] + shift)
            s0 = r0 * r0
            s1 = r1 * r1
            s2 = r2 * r2
            s3 = r3 * r3
            a0 += r0 if power == 1 else s0
            a1 += r1 if power == 1 else s1
            a2 += r2 if power == 1 else s2
            a3 += r3 if power == 1 else s3
            b0 += s0 if power == 1 else s0 * r0
            b1 += s1 if power == 1 else s1 * r1
            b2 += s2 if power == 1 else s2 * r2
            b3 += s3 if power == 1 else s3 * r3
            c0 += s0 * r0 if power == 1 else s0 * s0
            c1 += s1 * r1 if power == 1 else s1 * s1
            c2 += s2 * r2 if power == 1 else s2 * s2
            c3 += s3 * r3 if power == 1 else s3 * s3
        for k in range(quads, stop):
            r0 = 1.0 / (x[k] + shift)
            s0 = r0 * r0
            a0 += r0 if power == 1 else s0
            b0 += s0 if power == 1 else s0 * r0
            c0 += s0 * r0 if power == 1 else s0 * s0
        total, error = add(total, error, (a0 + a1) + (a2 + a3))
        slope += (b0 + b1) + (b2 + b3)
        curve += (c0 + c1) + (c2 + c3)
    return total, slope, curve


def explore(p: Vector, top: int, rate: float, offsets: Vector) -> None:
    """Turn `p` into p' = p + ρc, the paper's extra exploration (Algorithm 3), and fill `offsets` with c.

    Every arm whose probability is below ρ = `rate` gets ρ more (c = 1), taken from the likeliest arm, `top`. With
    ρ ≤ 1/(2n²) that arm keeps more than half of its probability.
    """
    n_raised = 0.0
    for k in range(len(p)):
        raised = 1.0 if p[k] < rate else 0.0
        offsets[k] = raised
        p[k] += rate * raised
        n_raised += raised
    offsets[top] = -n_raised
    p[top] -= rate * n_raised


def raise_to(p: Vector, floor: float) -> None:
    """Raise every probability below `floor` to it, at the cost of the others, in proportion to what they have above it.

    With floor ≤ 1/n² every arm keeps at least three quarters of its probability: what is above the floor shrinks by a
    factor of at least (1 − n·floor)/(1 − floor) ≥ n/(n + 1), and with two arms the likelier keeps 1 − floor ≥ 3/4.
    """
    above, taken = 0.0, 0.0
    for k in range(len(p)):
        above += max(0.0, p[k] - floor)
        taken += max(0.0, floor - p[k])
    if taken > 0.0:
        left = 1.0 - taken / above
        for k in range(len(p)):
            p[k] = floor + max(0.0, p[k] - floor) * left


def raise_among(p: Vector, among: Vector, floor: float) -> None:
    """Raise as `raise_to` does, among the arms for which `among` is above 0; the others must have probability 0.

    With floor ≤ 1/(2n), every arm keeps at least half of its probability.
    """
    above, taken = 0.0, 0.0
    for k in range(len(p)):
        if among[k] > 0.0:
            above += max(0.0, p[k] - floor)
            taken += max(0.0, floor - p[k])
    if taken > 0.0 and above > 0.0:  # what a single arm lacks is rounding
        left = 1.0 - taken / above
        for k in range(len(p)):
            if among[k] > 0.0:
                p[k] = floor + max(0.0, p[k] - floor) * left


def are_distributions(rows: Rows, tolerance: float) -> bool:
    """Whether each row has no number below 0 and sums to 1, up to `tolerance`; false for nan."""
    for i in range(len(rows)):
        total, good = 0.0, True
        for k in range(len(rows[i])):
            total += rows[i][k]
            good = good and rows[i][k] >= 0.0
        if not (good and abs(total - 1.0) <= tolerance):
            return False
    return True


def shared_out(p: Vector, arms: Sequence[int | None]) -> list[float]:
    """Return a distribution over `arms`: a new one, None, gets 1/n; old ones share the rest in proportion to `p`."""
    kept = [p[arm] for arm in arms if arm is not None]
    total = math.fsum(kept)
    rest = len(kept) / len(arms)
    if total > 0.0:
        shares = iter([max(each / total * rest, FLOOR) for each in kept])
    else:  # all probability was on arms that are gone
        shares = iter([1.0 / len(arms)] * len(kept))
    return [1.0 / len(arms) if arm is None else next(shares) for arm in arms]


def beside_fair_share(p: Vector, link: Callable[[float], float]) -> tuple[int, int, float]:
    """Return the arms whose probabilities are just above and just below 1/n, and where between them 1/n lies.

    Where is measured in `link`: if p_k is the solution for sums L, link(p_k) is linear in L_k. So an arm of probability
    1/n has a sum at the same place between the sums of these arms, from 0 at the first to 1 at the second.
    """
    fair = 1.0 / len(p)
    likelier, rarer = likeliest(p), -1
    for k in range(len(p)):
        if fair <= p[k] < p[likelier]:
            likelier = k
        if p[k] < fair and (rarer < 0 or p[k] > p[rarer]):
            rarer = k
    if rarer < 0 or p[likelier] <= fair:
        return likelier, likelier, 0.0
    top, bottom = link(p[likelier]), link(max(p[rarer], FLOOR))
    return likelier, rarer, max(0.0, min(1.0, (link(fair) - top) / (bottom - top)))


def entropy_link(probability: float) -> float:
    """Return −ln p, which is linear in the sums for `softmin`; see `beside_fair_share`."""
    return -math.log(probability)


def tsallis_link(probability: float) -> float:
    """Return 1/√p, which is linear in the sums for `tsallis`; see `beside_fair_share`."""
    return 1.0 / math.sqrt(probability)


def uniform(n_arms: int) -> list[float]:
    """Return the uniform distribution."""
    return [1.0 / n_arms] * n_arms
