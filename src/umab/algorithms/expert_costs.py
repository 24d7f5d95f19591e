"""What a step costs a policy over experts: A, from which its learning rate follows, grows by it.

Expert i is charged the estimate v·c_i, where v is the loss of the arm that was drawn, divided by its probability, and
c_i the probability with which the expert advised that arm: a column of the advice.
"""

import math

from umab.algorithms.sf_mab import log_gap
from umab.algorithms.umab_sh import above_tangent
from umab.maths.simplex import FixedVector, power_shift, smallest

AGREED = 1e-9
"""Probabilities that differ by no more than this share count as the same: rows of advice sum to 1 up to rounding."""

_FAR = 30.0
"""From here on, eᶻ is taken together with the weight in front of it: it may overflow, and the weight underflow."""


def have_agreed(column: FixedVector) -> bool:
    """Whether all experts gave the arm the same probability, up to rounding: then the loss says nothing about them.

    Before they first differ, 1/η is 0, and rounding would be all that counts.
    """
    least, most = column[0], column[0]
    for i in range(1, len(column)):
        least, most = min(least, column[i]), max(most, column[i])
    return most - least <= AGREED * most


def stability(p: FixedVector, column: FixedVector, estimate: float, rate: float, scratch: FixedVector) -> float:
    """Return M = sup_q v⟨c, p − q⟩ − Breg(q‖p)/η for v = `estimate`, c = `column` and η = `rate`.

    `scratch` is overwritten. Breg is the Bregman divergence of the log-barrier. For the column of a single expert it is
    `sf_mab.stability`, bit for bit, where the steps are explained.
    """
    if estimate == 0.0:
        return 0.0
    n_experts = len(p)
    force = rate * estimate
    if abs(force) > 2.0**1000:  # the divergence is negligible next to the gain
        return furthest_gap(p, column, estimate)
    lowest = 1.0 / p[0] + force * column[0]
    for j in range(n_experts):
        scratch[j] = 1.0 / p[j] + force * column[j]
        lowest = min(lowest, scratch[j])
    for j in range(n_experts):
        scratch[j] -= lowest
    shift = power_shift(scratch, 1, lowest)
    total, squares = 0.0, 0.0
    for j in range(n_experts):
        ratio = p[j] * (scratch[j] + shift)
        small_step = p[j] * (force * column[j] + (shift - lowest))
        total += log_gap(small_step if abs(force) < 1.0 else ratio - 1.0, ratio)
        squares += p[j] * column[j] * column[j]
    return max(0.0, min(total / rate, 0.5 * force * estimate * squares))


def mixability_gap(
    p: FixedVector, loss_sums: FixedVector, column: FixedVector, estimate: float, inverse: float, scratch: FixedVector
) -> float:
    """Return M = v⟨c, p⟩ + a ln Σ_i p_i exp(−v c_i/a) for v = `estimate`, c = `column` and a = `inverse`.

    `p` are the weights for the sums in `loss_sums`, and `scratch` is overwritten. For a = 0, M is v⟨c, p⟩ − min v c_i.

    With z_i = (v/a)(⟨c, p⟩ − c_i), whose mean is 0, it is a ln(1 + Σ p_i φ(z_i)), where φ(z) = eᶻ − 1 − z is never
    negative, so nothing cancels. Where z_i is large, p_i eᶻ is computed as one exponential, from the sums: the weight
    may be at its floor although the expert has just become the best.
    """
    if estimate == 0.0:
        return 0.0
    if abs(estimate) >= 2.0**1000 * inverse:
        return furthest_gap(p, column, estimate)
    n_experts, mean = len(p), 0.0
    for i in range(n_experts):
        mean += p[i] * column[i]
    force, gap, top = estimate / inverse, 0.0, 0.0
    for i in range(n_experts):
        z = force * (mean - column[i])
        gap += p[i] * above_tangent(z) if z <= _FAR else -p[i] * (1.0 + z)
        top = max(top, z)
    if top <= _FAR:
        return inverse * math.log1p(max(gap, 0.0))
    lowest, total = smallest(loss_sums), 0.0
    for i in range(n_experts):
        scratch[i] = -min((loss_sums[i] - lowest) / inverse, 2.0**1000)
        total += math.exp(max(scratch[i], -800.0))
    logarithm, highest = math.log(total), 0.0
    for i in range(n_experts):
        z = force * (mean - column[i])
        scratch[i] = scratch[i] - logarithm + z if z > _FAR else -800.0
        highest = max(highest, scratch[i])
    large = 0.0
    for i in range(n_experts):
        large += math.exp(max(scratch[i] - highest, -800.0)) if scratch[i] > -800.0 else 0.0
    if highest < 1.0:
        return inverse * math.log1p(max(gap + large * math.exp(highest), 0.0))
    return inverse * (highest + math.log(large + (1.0 + gap) * math.exp(max(-highest, -800.0))))


def furthest_gap(p: FixedVector, column: FixedVector, estimate: float) -> float:
    """Return v⟨c, p⟩ − min v c_i for v = `estimate` and c = `column`."""
    best = column[0]
    for i in range(len(p)):
        best = min(best, column[i]) if estimate > 0.0 else max(best, column[i])
    gap = 0.0
    for i in range(len(p)):
        gap += p[i] * abs(column[i] - best)
    return abs(estimate) * gap
