"""Policies written by hand as one loop each, to compare the generic compiled loop with.

They are UMAB-G-A and the three policies whose rounds take longest: SF-MAB-A, AdaHedge and Banker-OMD.
"""

from __future__ import annotations

import math
from typing import Any

import numba

FLOOR = 2.0**-1000
SMALLEST_PROPENSITY = 2.0**-900
LARGEST = 1.7976931348623157e308


inline = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)


@inline  # type: ignore[untyped-decorator]
def umab_g_a(uniforms: Any, losses: Any, costs: Any, best: Any, vectors: Any, regret: Any, arms: Any) -> None:
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

            leader, lowest = 0, loss_sums[0]
            squared, products = 0.0, 0.0
            for k in range(n_arms):
                if loss_sums[k] < lowest:
                    leader, lowest = k, loss_sums[k]
                square = p[k] * p[k]
                squared += square
                products += square * loss_sums[k]
            guess = (1.0 - eta * (products - lowest * squared)) / max(squared, FLOOR)
            for k in range(n_arms):
                p[k] = eta * (loss_sums[k] - lowest)
            shift = max(1.0, min(guess, n))
            for _ in range(100):
                sums, error, squares, cubes = 0.0, 0.0, 0.0, 0.0
                for start in range(0, n_arms, 64):
                    stop = min(start + 64, n_arms)
                    quads = start + (stop - start) // 4 * 4
                    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
                    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
                    for k in range(start, quads, 4):
                        p0 = 1.0 / (p[k] + shift)
                        p1 = 1.0 / (p[k + 1] + shift)
                        p2 = 1.0 / (p[k + 2] + shift)
                        p3 = 1.0 / (p[k + 3] + shift)
                        s0 = p0 * p0
                        s1 = p1 * p1
                        s2 = p2 * p2
                        s3 = p3 * p3
                        a0 += p0
                        a1 += p1
                        a2 += p2
                        a3 += p3
                        b0 += s0
                        b1 += s1
                        b2 += s2
                        b3 += s3
                        c0 += s0 * p0
                        c1 += s1 * p1
                        c2 += s2 * p2
                        c3 += s3 * p3
                    for k in range(quads, stop):
                        p0 = 1.0 / (p[k] + shift)
                        s0 = p0 * p0
                        a0 += p0
                        b0 += s0
                        c0 += s0 * p0
                    corrected = ((a0 + a1) + (a2 + a3)) - error
                    raised_sum = sums + corrected
                    error = (raised_sum - sums) - corrected
                    sums = raised_sum
                    squares += (b0 + b1) + (b2 + b3)
                    cubes += (c0 + c1) + (c2 + c3)
                step = sums * (sums - 1.0) / squares
                if abs(step) < 0.25 * shift:
                    step += (cubes / squares - squares / sums) * step * step
                shift = max(1.0, shift + step)
                if abs(step) <= 1e-5 * shift:
                    break
            for k in range(n_arms):
                p[k] = max(1.0 / (p[k] + shift), FLOOR)

            exploration_cost += abs(estimate * offsets[arm])
            rho = 1.0 / (2.0 * n * n + math.sqrt(2.0 * exploration_cost) / math.sqrt(unit))
            n_raised = 0.0
            for k in range(n_arms):
                raised = 1.0 if p[k] < rho else 0.0
                offsets[k] = raised
                p[k] += rho * raised
                n_raised += raised
            offsets[leader] = -n_raised
            p[leader] -= rho * n_raised


@inline  # type: ignore[untyped-decorator]
def sf_mab_a(uniforms: Any, losses: Any, costs: Any, best: Any, vectors: Any, regret: Any, arms: Any) -> None:
    n_rounds, n_arms = losses.shape
    n = float(n_arms)
    loss_sums, q, p = vectors[0], vectors[1], vectors[2]
    for trial in range(uniforms.shape[0]):
        for k in range(n_arms):
            loss_sums[k] = 0.0
            q[k] = 1.0 / n
            p[k] = 1.0 / n
        unit, stability_sum, exploration_cost, gamma, total = 0.5, 0.0, 0.0, 0.5, 0.0
        for t in range(n_rounds):
            uniform = uniforms[trial, t]
            cumulative = 0.0
            arm = -1
            for k in range(n_arms):
                cumulative += q[k]
                if uniform < cumulative:
                    arm = k
                    break
            if arm < 0:
                arm = 0
                for k in range(1, n_arms):
                    if q[k] > q[arm]:
                        arm = k
            total += costs[t, arm]
            arms[trial, t] = arm
            regret[trial, t] = total - best[t]

            loss = losses[t, arm]
            if abs(loss * unit) >= 1.0:
                fitted = math.ldexp(1.0, min(-math.frexp(loss)[1], 1021))
                shrink = fitted / unit
                unit = fitted
                for k in range(n_arms):
                    loss_sums[k] *= shrink
                exploration_cost *= shrink
                stability_sum *= shrink
            estimate = loss * unit / max(q[arm], SMALLEST_PROPENSITY)
            exploration_cost += gamma * abs(estimate)
            rate = n / (unit + stability_sum)
            force = rate * estimate
            if estimate == 0.0:
                stability_sum += 0.0
            elif abs(force) > 2.0**1000:
                others = 0.0
                for k in range(n_arms):
                    others += p[k] if k != arm else 0.0
                stability_sum += abs(estimate) * (p[arm] if estimate > 0.0 else others)
            else:
                lowest = 1.0 / p[arm] + force
                for k in range(n_arms):
                    q[k] = 1.0 / p[k] + (force if k == arm else 0.0)
                    lowest = min(lowest, q[k])
                for k in range(n_arms):
                    q[k] -= lowest
                shift = max(1.0, min(lowest, n))
                for _ in range(100):
                    sums, error, squares, cubes = 0.0, 0.0, 0.0, 0.0
                    for start in range(0, n_arms, 64):
                        stop = min(start + 64, n_arms)
                        quads = start + (stop - start) // 4 * 4
                        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                        b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
                        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
                        for k in range(start, quads, 4):
                            p0 = 1.0 / (q[k] + shift)
                            p1 = 1.0 / (q[k + 1] + shift)
                            p2 = 1.0 / (q[k + 2] + shift)
                            p3 = 1.0 / (q[k + 3] + shift)
                            s0 = p0 * p0
                            s1 = p1 * p1
                            s2 = p2 * p2
                            s3 = p3 * p3
                            a0 += p0
                            a1 += p1
                            a2 += p2
                            a3 += p3
                            b0 += s0
                            b1 += s1
                            b2 += s2
                            b3 += s3
                            c0 += s0 * p0
                            c1 += s1 * p1
                            c2 += s2 * p2
                            c3 += s3 * p3
                        for k in range(quads, stop):
                            p0 = 1.0 / (q[k] + shift)
                            s0 = p0 * p0
                            a0 += p0
                            b0 += s0
                            c0 += s0 * p0
                        corrected = ((a0 + a1) + (a2 + a3)) - error
                        raised_sum = sums + corrected
                        error = (raised_sum - sums) - corrected
                        sums = raised_sum
                        squares += (b0 + b1) + (b2 + b3)
                        cubes += (c0 + c1) + (c2 + c3)
                    step = sums * (sums - 1.0) / squares
                    if abs(step) < 0.25 * shift:
                        step += (cubes / squares - squares / sums) * step * step
                    shift = max(1.0, shift + step)
                    if abs(step) <= 1e-5 * shift:
                        break
                gap = 0.0
                for k in range(n_arms):
                    ratio = p[k] * (q[k] + shift)
                    small = p[k] * ((force if k == arm else 0.0) + (shift - lowest))
                    d = small if abs(force) < 1.0 else ratio - 1.0
                    if abs(d) < 1e-3:
                        gap += d * d * (0.5 - d * (1.0 / 3.0 - d * (0.25 - d * (0.2 - d / 6.0))))
                    elif abs(d) < 0.5:
                        gap += d - math.log1p(d)
                    else:
                        gap += d - math.log(ratio)
                stability_sum += max(0.0, min(gap / rate, 0.5 * force * estimate * p[arm]))
            loss_sums[arm] += estimate

            gamma = n / (2.0 * n + exploration_cost / unit)
            rate = min(n / (unit + stability_sum), LARGEST)
            lowest = loss_sums[0]
            squared, products = 0.0, 0.0
            for k in range(n_arms):
                if loss_sums[k] < lowest:
                    lowest = loss_sums[k]
                square = p[k] * p[k]
                squared += square
                products += square * loss_sums[k]
            guess = (1.0 - rate * (products - lowest * squared)) / max(squared, FLOOR)
            for k in range(n_arms):
                p[k] = rate * (loss_sums[k] - lowest)
            shift = max(1.0, min(guess, n))
            for _ in range(100):
                sums, error, squares, cubes = 0.0, 0.0, 0.0, 0.0
                for start in range(0, n_arms, 64):
                    stop = min(start + 64, n_arms)
                    quads = start + (stop - start) // 4 * 4
                    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
                    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
                    for k in range(start, quads, 4):
                        p0 = 1.0 / (p[k] + shift)
                        p1 = 1.0 / (p[k + 1] + shift)
                        p2 = 1.0 / (p[k + 2] + shift)
                        p3 = 1.0 / (p[k + 3] + shift)
                        s0 = p0 * p0
                        s1 = p1 * p1
                        s2 = p2 * p2
                        s3 = p3 * p3
                        a0 += p0
                        a1 += p1
                        a2 += p2
                        a3 += p3
                        b0 += s0
                        b1 += s1
                        b2 += s2
                        b3 += s3
                        c0 += s0 * p0
                        c1 += s1 * p1
                        c2 += s2 * p2
                        c3 += s3 * p3
                    for k in range(quads, stop):
                        p0 = 1.0 / (p[k] + shift)
                        s0 = p0 * p0
                        a0 += p0
                        b0 += s0
                        c0 += s0 * p0
                    corrected = ((a0 + a1) + (a2 + a3)) - error
                    raised_sum = sums + corrected
                    error = (raised_sum - sums) - corrected
                    sums = raised_sum
                    squares += (b0 + b1) + (b2 + b3)
                    cubes += (c0 + c1) + (c2 + c3)
                step = sums * (sums - 1.0) / squares
                if abs(step) < 0.25 * shift:
                    step += (cubes / squares - squares / sums) * step * step
                shift = max(1.0, shift + step)
                if abs(step) <= 1e-5 * shift:
                    break
            for k in range(n_arms):
                p[k] = max(1.0 / (p[k] + shift), FLOOR)
            for k in range(n_arms):
                q[k] = (1.0 - gamma) * p[k] + gamma / n_arms


@inline  # type: ignore[untyped-decorator]
def ada_hedge(uniforms: Any, losses: Any, costs: Any, best: Any, vectors: Any, regret: Any, arms: Any) -> None:
    n_rounds, n_arms = losses.shape
    loss_sums, p = vectors[0], vectors[1]
    for trial in range(uniforms.shape[0]):
        for k in range(n_arms):
            loss_sums[k] = 0.0
            p[k] = 1.0 / n_arms
        unit, gap_sum, total = 2.0**1021, 0.0, 0.0
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

            size = 0.0
            for k in range(n_arms):
                size = max(size, abs(losses[t, k]))
            shrink = 1.0
            if abs(size * unit) >= 1.0:
                fitted = math.ldexp(1.0, min(-math.frexp(size)[1], 1021))
                shrink = fitted / unit
                unit = fitted
                gap_sum *= shrink
            temperature = gap_sum / math.log(n_arms) if n_arms > 1 else 0.0
            lowest, lowest_sum, heaviest = losses[t, 0] * unit, loss_sums[0] * shrink, 0.0
            for k in range(n_arms):
                loss_sums[k] *= shrink
                lowest = min(lowest, losses[t, k] * unit)
                lowest_sum = min(lowest_sum, loss_sums[k])
                heaviest = max(heaviest, p[k])
            mean, shrunk = 0.0, 0.0
            for k in range(n_arms):
                above = losses[t, k] * unit - lowest
                mean += p[k] * above
                if temperature > 0.0:
                    shrunk += p[k] * math.expm1(-min(above / temperature, 800.0))
                loss_sums[k] += above
            if temperature > 0.0 and shrunk > -0.5:
                mix_loss = -temperature * math.log1p(shrunk)
            else:
                lowest = loss_sums[0]
                for k in range(1, n_arms):
                    lowest = min(lowest, loss_sums[k])
                mix_loss = lowest - lowest_sum
                if temperature > 0.0:
                    weight = 0.0
                    for k in range(n_arms):
                        weight += math.exp(-min((loss_sums[k] - lowest) / temperature, 800.0))
                    mix_loss -= temperature * math.log(weight)
                mix_loss -= temperature * math.log(heaviest)
            gap_sum += max(0.0, mean - mix_loss)
            rate = min(math.log(n_arms) / gap_sum if gap_sum > 0.0 else LARGEST, LARGEST)
            lowest = loss_sums[0]
            for k in range(1, n_arms):
                lowest = min(lowest, loss_sums[k])
            weight, error = 0.0, 0.0
            for k in range(n_arms):
                p[k] = math.exp(-(rate * (loss_sums[k] - lowest)))
            for start in range(0, n_arms, 64):
                part = 0.0
                for k in range(start, min(start + 64, n_arms)):
                    part += p[k]
                corrected = part - error
                raised = weight + corrected
                error = (raised - weight) - corrected
                weight = raised
            for k in range(n_arms):
                p[k] = max(p[k] / weight, FLOOR)


@inline  # type: ignore[untyped-decorator]
def banker_omd(uniforms: Any, losses: Any, costs: Any, best: Any, vectors: Any, regret: Any, arms: Any) -> None:
    n_rounds, n_arms = losses.shape
    n = float(n_arms)
    n_log_horizon = n_arms * math.log(n_rounds)
    loss_sums, p = vectors[0], vectors[1]
    for trial in range(uniforms.shape[0]):
        for k in range(n_arms):
            loss_sums[k] = 0.0
            p[k] = 1.0 / n
        unit, bound, square_sum, total = 0.5, 0.5, 0.0, 0.0
        sigma = max(math.sqrt((3.0 * unit * unit + 0.25) / math.log(4.0) / n_log_horizon), 2.0 * bound)
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

            loss = losses[t, arm]
            if abs(loss * unit) >= 1.0:
                fitted = math.ldexp(1.0, min(-math.frexp(loss)[1], 1021))
                shrink = fitted / unit
                unit = fitted
                for k in range(n_arms):
                    loss_sums[k] *= shrink
                bound *= shrink
                square_sum = square_sum * shrink * shrink
                sigma *= shrink
            scaled = loss * unit
            if not (abs(scaled) > bound or scaled < -0.5 * sigma):
                loss_sums[arm] += scaled / max(p[arm], SMALLEST_PROPENSITY)
                square_sum += scaled * scaled
            bound = max(bound, 2.0 * abs(scaled))
            squares_of_all = bound * bound + square_sum
            share = (3.0 * unit * unit + squares_of_all) / math.log(3.0 + squares_of_all / (bound * bound))
            sigma = max(math.sqrt(share / n_log_horizon), 2.0 * bound)

            rate = min(1.0 / sigma, LARGEST)
            lowest = loss_sums[0]
            squared, products = 0.0, 0.0
            for k in range(n_arms):
                if loss_sums[k] < lowest:
                    lowest = loss_sums[k]
                square = p[k] * p[k]
                squared += square
                products += square * loss_sums[k]
            guess = (1.0 - rate * (products - lowest * squared)) / max(squared, FLOOR)
            for k in range(n_arms):
                p[k] = rate * (loss_sums[k] - lowest)
            shift = max(1.0, min(guess, n))
            for _ in range(100):
                sums, error, squares, cubes = 0.0, 0.0, 0.0, 0.0
                for start in range(0, n_arms, 64):
                    stop = min(start + 64, n_arms)
                    quads = start + (stop - start) // 4 * 4
                    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
                    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
                    for k in range(start, quads, 4):
                        p0 = 1.0 / (p[k] + shift)
                        p1 = 1.0 / (p[k + 1] + shift)
                        p2 = 1.0 / (p[k + 2] + shift)
                        p3 = 1.0 / (p[k + 3] + shift)
                        s0 = p0 * p0
                        s1 = p1 * p1
                        s2 = p2 * p2
                        s3 = p3 * p3
                        a0 += p0
                        a1 += p1
                        a2 += p2
                        a3 += p3
                        b0 += s0
                        b1 += s1
                        b2 += s2
                        b3 += s3
                        c0 += s0 * p0
                        c1 += s1 * p1
                        c2 += s2 * p2
                        c3 += s3 * p3
                    for k in range(quads, stop):
                        p0 = 1.0 / (p[k] + shift)
                        s0 = p0 * p0
                        a0 += p0
                        b0 += s0
                        c0 += s0 * p0
                    corrected = ((a0 + a1) + (a2 + a3)) - error
                    raised_sum = sums + corrected
                    error = (raised_sum - sums) - corrected
                    sums = raised_sum
                    squares += (b0 + b1) + (b2 + b3)
                    cubes += (c0 + c1) + (c2 + c3)
                step = sums * (sums - 1.0) / squares
                if abs(step) < 0.25 * shift:
                    step += (cubes / squares - squares / sums) * step * step
                shift = max(1.0, shift + step)
                if abs(step) <= 1e-5 * shift:
                    break
            for k in range(n_arms):
                p[k] = max(1.0 / (p[k] + shift), FLOOR)
