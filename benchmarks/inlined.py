"""UMAB-G-A written into one loop by hand: what the generic compiled loop is compared with."""

from __future__ import annotations

import math
from typing import Any

import numba

FLOOR = 2.0**-1000
SMALLEST_PROPENSITY = 2.0**-900


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def run(uniforms: Any, losses: Any, costs: Any, best: Any, vectors: Any, regret: Any, arms: Any) -> None:
    n_rounds, n_arms = losses.shape
    n = float(n_arms)
    loss_sums, p, offsets = vectors[0], vectors[1], vectors[2]
    for trial in range(uniforms.shape[0]):
        for k in range(n_arms):
            loss_sums[k] = 0.0
            p[k] = 1.0 / n
            offsets[k] = 0.0
        clip, unit, rate = -1.0, 0.5, 0.25
        square_sum, square_sum_error, exploration_cost, total = 0.0, 0.0, 0.0, 0.0
        for t in range(n_rounds):
            uniform = uniforms[trial, t]
            cumulative = 0.0
            arm = -1
            for k in range(n_arms):
                cumulative += p[k]
                if uniform < cumulative:
                    arm = k
                    break
            if arm < 0:
                arm = 0
                for k in range(1, n_arms):
                    if p[k] > p[arm]:
                        arm = k
            total += costs[t, arm]
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]

            clipped = max(2.0 * clip, losses[t, arm])
            clip = min(clip, clipped)
            if abs(clipped * unit) >= 1.0:
                fitted = math.ldexp(1.0, min(-math.frexp(clipped)[1], 1021))
                shrink = fitted / unit
                unit = fitted
                for k in range(n_arms):
                    loss_sums[k] *= shrink
                square_sum = square_sum * shrink * shrink
                square_sum_error = square_sum_error * shrink * shrink
                exploration_cost *= shrink
            scaled = clipped * unit
            corrected = scaled * scaled - square_sum_error
            raised_sum = square_sum + corrected
            square_sum_error = (raised_sum - square_sum) - corrected
            square_sum = raised_sum
            estimate = scaled / max(p[arm], SMALLEST_PROPENSITY)
            loss_sums[arm] += estimate
            eta = rate * math.sqrt(n / (n * (clip * unit) * (clip * unit) + square_sum))

            lowest = loss_sums[0]
            for k in range(1, n_arms):
                lowest = min(lowest, loss_sums[k])
            x_sum = 0.0
            for k in range(n_arms):
                x = eta * (loss_sums[k] - lowest)
                p[k] = x
                x_sum += x
            shift = max(1.0, n - x_sum / n)
            for _ in range(100):
                sums, error, squares = 0.0, 0.0, 0.0
                for start in range(0, n_arms, 64):
                    stop = min(start + 64, n_arms)
                    quads = start + (stop - start) // 4 * 4
                    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
                    for k in range(start, quads, 4):
                        p0 = 1.0 / (p[k] + shift)
                        p1 = 1.0 / (p[k + 1] + shift)
                        p2 = 1.0 / (p[k + 2] + shift)
                        p3 = 1.0 / (p[k + 3] + shift)
                        a0 += p0
                        a1 += p1
                        a2 += p2
                        a3 += p3
                        b0 += p0 * p0
                        b1 += p1 * p1
                        b2 += p2 * p2
                        b3 += p3 * p3
                    for k in range(quads, stop):
                        p0 = 1.0 / (p[k] + shift)
                        a0 += p0
                        b0 += p0 * p0
                    corrected = ((a0 + a1) + (a2 + a3)) - error
                    raised_sum = sums + corrected
                    error = (raised_sum - sums) - corrected
                    sums = raised_sum
                    squares += (b0 + b1) + (b2 + b3)
                step = sums * (sums - 1.0) / squares
                shift += step
                if step <= 1e-8 * shift:
                    break
            for k in range(n_arms):
                p[k] = max(1.0 / (p[k] + shift), FLOOR)

            exploration_cost += abs(estimate * offsets[arm])
            rho = 1.0 / (2.0 * n * n + math.sqrt(2.0 * exploration_cost) / math.sqrt(unit))
            top = 0
            for k in range(1, n_arms):
                if p[k] > p[top]:
                    top = k
            n_raised = 0.0
            for k in range(n_arms):
                raised = 1.0 if p[k] < rho else 0.0
                offsets[k] = raised
                p[k] += rho * raised
                n_raised += raised
            offsets[top] = -n_raised
            p[top] -= rho * n_raised
