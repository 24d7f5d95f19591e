"""The algorithms once more, straight from their definition, in 40 digits: no units, no tricks, no speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

from umab.testing import Array

mpf: Any = mpmath.mpf


def log_barrier(loss_sums: Sequence[Any], rate: Any) -> list[Any]:
    """Return argmin ⟨L, p⟩ + (1/η) Σ log(1/p_k)."""
    lowest = min(loss_sums)
    return normalising([rate * (loss - lowest) for loss in loss_sums])


def normalising(x: Sequence[Any]) -> list[Any]:
    """Return 1/(x_k + μ) with the μ that makes them sum to 1, for x with minimum 0; Newton until nothing changes."""
    shift = max(mpf(1), len(x) - mpmath.fsum(x) / len(x))
    for _ in range(1000):
        p = [1 / (each + shift) for each in x]
        total = mpmath.fsum(p)
        step = total * (total - 1) / mpmath.fsum(each * each for each in p)
        shift += step
        if abs(step) < shift * mpf(10) ** (10 - mpmath.mp.dps):
            return [1 / (each + shift) for each in x]
    raise AssertionError("no convergence")


def umab_nn(arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of UMAB-NN (Algorithm 1), one row a round."""
    with mpmath.workdps(40):
        sums, squares = [mpf(0)] * n, mpf(0)
        p = [mpf(1) / n] * n
        rows = [p]
        for arm, loss in zip(arms, losses, strict=True):
            sums[arm] += mpf(loss) / p[arm]
            squares += mpf(loss) ** 2
            p = log_barrier(sums, 2 * mpmath.sqrt(n / squares)) if squares else p
            rows.append(p)
        return np.array(rows, dtype=float)


def umab_g(
    arms: Sequence[int],
    losses: Sequence[float],
    n: int,
    *,
    rate: float,
    exploration: str,
    initial_scale: float = 1.0,
    horizon: int = 0,
) -> Array:
    """Return the distributions of UMAB-G (Algorithms 2 and 3, the adaptive rate of the appendix)."""
    with mpmath.workdps(40):
        sums, squares, cost, clip = [mpf(0)] * n, mpf(0), mpf(0), -mpf(initial_scale)
        sizes = [mpf(0)] * n
        p, c = [mpf(1) / n] * n, [0] * n
        rows = [p]
        for t, (arm, loss) in enumerate(zip(arms, losses, strict=True), start=1):
            clipped = max(2 * clip, mpf(loss))
            estimate = clipped / p[arm]
            sums[arm] += estimate
            sizes[arm] += abs(mpf(loss) / p[arm])
            clip = min(clip, clipped)
            squares += clipped**2
            cost += abs(estimate * c[arm])
            p = log_barrier(sums, rate * mpmath.sqrt(n / (n * clip**2 + squares)))
            rho = {
                "adaptive": 1 / (2 * n**2 + mpmath.sqrt(2 * cost)),
                "fixed": 1 / (2 * n**2 + mpmath.sqrt(mpf(n) * horizon)),
                "anytime": 1 / (2 * n**2 + mpmath.sqrt(mpf(n) * (t + 1))),
                "none": mpf(0),
                "maintext": 1
                / (2 * n**2 + 2 * mpmath.sqrt(mpmath.fsum(s * abs(o) for s, o in zip(sizes, c, strict=True)))),
            }[exploration]
            c = [1 if each < rho else 0 for each in p]
            c[p.index(max(p))] = -sum(c)
            p = [each + rho * offset for each, offset in zip(p, c, strict=True)]
            rows.append(p)
        return np.array(rows, dtype=float)


def normalised(weights: Sequence[Any]) -> list[Any]:
    total = mpmath.fsum(weights)
    return [weight / total for weight in weights]


def mixed(p: Sequence[Any], share: Any) -> list[Any]:
    return [(1 - share) * each + share / len(p) for each in p]


def exp3(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round, from weights that are multiplied."""
    with mpmath.workdps(40):
        n = table.shape[1]
        gamma = policy.gamma
        if gamma is None:
            gamma = min(mpf(1), mpmath.sqrt(n * mpmath.log(n) / ((mpmath.e - 1) * policy.horizon)))
        weights, p, rows = [mpf(1)] * n, [mpf(1) / n] * n, []
        for arm, row in zip(arms, table, strict=True):
            gain = (policy.high - mpf(row[arm])) / (policy.high - policy.low)
            weights[arm] *= mpmath.exp(gamma * gain / p[arm] / n)
            p = mixed(normalised(weights), gamma)
            rows.append(p)
        return np.array(rows, dtype=float)


def exp3_p(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round, with the initial weights of the paper."""
    with mpmath.workdps(40):
        n, horizon = table.shape[1], policy.horizon
        gamma = min(mpf(3) / 5, 2 * mpmath.sqrt(mpf(3) / 5 * n * mpmath.log(n) / horizon))
        alpha = 2 * mpmath.sqrt(mpmath.log(n * horizon / mpf(policy.delta)))
        weights = [mpmath.exp(alpha * gamma / 3 * mpmath.sqrt(mpf(horizon) / n))] * n
        p, rows = [mpf(1) / n] * n, []
        for arm, row in zip(arms, table, strict=True):
            gain = (policy.high - mpf(row[arm])) / (policy.high - policy.low)
            for k in range(n):
                estimate = gain / p[k] if k == arm else 0
                weights[k] *= mpmath.exp(gamma / (3 * n) * (estimate + alpha / (p[k] * mpmath.sqrt(n * horizon))))
            p = mixed(normalised(weights), gamma)
            rows.append(p)
        return np.array(rows, dtype=float)


def exp3_s(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round, from weights that grow without limit."""
    with mpmath.workdps(40):
        n, horizon = table.shape[1], policy.horizon
        alpha = mpf(1) / horizon
        hardness = policy.segments * mpmath.log(n * horizon) + mpmath.e
        gamma = min(mpf(1), mpmath.sqrt(n * hardness / ((mpmath.e - 1) * horizon)))
        weights, p, rows = [mpf(1)] * n, [mpf(1) / n] * n, []
        for arm, row in zip(arms, table, strict=True):
            gain = (policy.high - mpf(row[arm])) / (policy.high - policy.low)
            estimates = [gain / p[k] if k == arm else mpf(0) for k in range(n)]
            shared = mpmath.e * alpha / n * sum(weights)
            weights = [w * mpmath.exp(gamma * x / n) + shared for w, x in zip(weights, estimates, strict=True)]
            p = mixed(normalised(weights), gamma)
            rows.append(p)
        return np.array(rows, dtype=float)


def exp3_ix(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round."""
    with mpmath.workdps(40):
        n = table.shape[1]
        sums, p, rows = [mpf(0)] * n, [mpf(1) / n] * n, []
        for t, (arm, row) in enumerate(zip(arms, table, strict=True), start=1):
            gamma = mpmath.sqrt(mpmath.log(n) / (n * t)) / 2
            sums[arm] += (mpf(row[arm]) - policy.low) / (policy.high - policy.low) / (p[arm] + gamma)
            rate = mpmath.sqrt(mpmath.log(n) / (n * (t + 1)))
            p = normalised([mpmath.exp(-rate * each) for each in sums])
            rows.append(p)
        return np.array(rows, dtype=float)


def tsallis(loss_sums: Sequence[Any], rate: Any) -> list[Any]:
    """Return argmin ⟨L, p⟩ − (2/η) Σ √p_k, by bisection."""
    lowest = min(loss_sums)
    x = [rate * (loss - lowest) for loss in loss_sums]
    low, high = mpf(1), mpmath.sqrt(len(x)) + mpf(10) ** -30
    for _ in range(4 * mpmath.mp.dps):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.fsum(1 / (each + middle) ** 2 for each in x) > 1 else (low, middle)
    return [1 / (each + low) ** 2 for each in x]


def tsallis_inf(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round."""
    with mpmath.workdps(40):
        n = table.shape[1]
        sums, p, rows = [mpf(0)] * n, [mpf(1) / n] * n, []
        for t, (arm, row) in enumerate(zip(arms, table, strict=True), start=1):
            sums[arm] += (mpf(row[arm]) - policy.low) / (policy.high - policy.low) / p[arm]
            p = tsallis(sums, 1 / mpmath.sqrt(t + 1))
            rows.append(p)
        return np.array(rows, dtype=float)


def ada_hedge(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round; losses are such that no two sums of them are equal."""
    with mpmath.workdps(40):
        n = table.shape[1]
        sums, gaps, w, rows = [mpf(0)] * n, mpf(0), [mpf(1) / n] * n, []
        for row in table:
            losses = [mpf(each) for each in row]
            mean = mpmath.fsum(a * b for a, b in zip(w, losses, strict=True))
            if gaps:
                rate = mpmath.log(n) / gaps
                mix = -mpmath.log(mpmath.fsum(a * mpmath.exp(-rate * b) for a, b in zip(w, losses, strict=True))) / rate
            else:
                mix = min(losses)
            gaps += mean - mix
            sums = [a + b for a, b in zip(sums, losses, strict=True)]
            w = normalised([mpmath.exp(-mpmath.log(n) / gaps * (each - min(sums))) for each in sums])
            rows.append(w)
        return np.array(rows, dtype=float)


def solo_ftrl(policy: Any, arms: Sequence[int], table: Array) -> Array:
    """Return the distributions after each round."""
    with mpmath.workdps(40):
        n = table.shape[1]
        sums, squares, rows = [mpf(0)] * n, mpf(0), []
        for row in table:
            sums = [a + mpf(b) for a, b in zip(sums, row, strict=True)]
            squares += max(abs(mpf(each)) for each in row) ** 2
            rows.append(normalised([mpmath.exp(-(each - min(sums)) / mpmath.sqrt(squares)) for each in sums]))
        return np.array(rows, dtype=float)


def stability(p: Sequence[Any], arm: int, v: Any, rate: Any) -> Any:
    """Return sup_q v(p_k − q_k) − Breg(q‖p)/η, from the q at which it is reached."""
    inverse = [1 / each + (rate * v if k == arm else 0) for k, each in enumerate(p)]
    lowest = min(inverse)
    q = normalising([each - lowest for each in inverse])
    ratios = [a / b for a, b in zip(q, p, strict=True)]
    return v * (p[arm] - q[arm]) - mpmath.fsum(ratio - 1 - mpmath.log(ratio) for ratio in ratios) / rate


def sf_mab(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of SF-MAB, one row a round."""
    with mpmath.workdps(60):
        sums, m, g, rate, gamma = [mpf(0)] * n, mpf(0), mpf(0), mpf(n), mpf(1) / 2
        p = [mpf(1) / n] * n
        rows = [mixed(p, gamma)]
        for t, (arm, loss) in enumerate(zip(arms, losses, strict=True), start=1):
            v = mpf(loss) / rows[-1][arm]
            g += gamma * abs(v)
            m += stability(p, arm, v, rate)
            sums[arm] += v
            gamma = min(mpf(1) / 2, mpmath.sqrt(mpf(n) / t)) if policy.exploration == "anytime" else n / (2 * n + g)
            rate = n / (1 + m)
            p = log_barrier(sums, rate)
            rows.append(mixed(p, gamma))
        return np.array(rows, dtype=float)


def umab_s(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of UMAB-S: p', which no arm is below the floor in."""
    with mpmath.workdps(40):
        run = UMABS(n, mpf(policy.rate))
        drawn = run.p
        rows = [drawn]
        for arm, loss in zip(arms, losses, strict=True):
            run.learn(arm, mpf(loss), drawn[arm])
            drawn = raised(run.p, [run.floor()] * n)
            rows.append(drawn)
        return np.array(rows, dtype=float)


def umab_s_late(
    rate: Any, arms: Sequence[int], losses: Sequence[float], delays: Sequence[int], n: int, centre: bool
) -> Array:
    """Return the distributions of UMAB-S at each draw, if losses arrive late; centred by what arrived before."""
    with mpmath.workdps(40):
        run, drawn_from = UMABS(n, mpf(rate)), [mpf(1) / n] * n
        rows: list[Any] = []
        due: list[Any] = []
        seen: list[Any] = []
        for t, (arm, loss, delay) in enumerate(zip(arms, losses, delays, strict=True)):
            rows.append(drawn_from)
            due.append((t + delay, t, arm, mpf(loss), drawn_from[arm], run.p[arm]))
            for each in sorted(each for each in due if each[0] == t):
                _, _, its_arm, its_loss, probability, at_draw = each
                mean = mpmath.fsum(seen) / len(seen) if seen else its_loss
                seen.append(its_loss)
                run.learn(its_arm, its_loss - (mean if centre else 0), probability, at_draw)
                drawn_from = raised(run.p, [run.floor()] * n)
        return np.array(rows, dtype=float)


class UMABS:
    """A run of UMAB-S, without the floor below its probabilities."""

    def __init__(self, n: int, rate: Any) -> None:
        self.sums, self.paid, self.c, self.t = [mpf(0)] * n, mpf(0), rate, 1
        self.p = [mpf(1) / n] * n

    def floor(self) -> Any:
        n = len(self.p)
        return 1 / (mpf(n) ** 2 + 2 * mpmath.sqrt((n - 1) * self.t))

    def learn(self, arm: int, loss: Any, probability: Any, at_draw: Any = None) -> None:
        """Learn a loss; `at_draw` is what p[arm] was at the draw, if other losses have been learned since."""
        n, p, estimate, charge = len(self.p), self.p, loss / probability, mpf(0)
        if self.paid == 0:
            cost = abs(estimate) * (p[arm] if loss > 0 else 1 - p[arm])
        else:
            rate = self.c * n / self.paid
            clipped = max(estimate, -2 / (rate * min(p[arm], at_draw or p[arm])))
            cost = stability(p, arm, clipped, rate)
            charge = self.c * n * (1 - probability) * (clipped - estimate) * probability / 8
            estimate = clipped
        drift = 0 if at_draw is None else estimate * (at_draw - p[arm])
        cost = cost + drift / 8 if drift > 0 else max(mpf(0), cost + drift)
        self.sums[arm] += estimate
        self.paid += cost + charge
        self.p = log_barrier(self.sums, self.c * n / self.paid) if self.paid else p
        self.t += 1


def raised(p: Sequence[Any], floors: Sequence[Any]) -> list[Any]:
    """Return p with no arm below its floor, at the cost of the others in proportion to what they have above theirs."""
    lacking = mpmath.fsum(max(0, floor - each) for each, floor in zip(p, floors, strict=True))
    above = mpmath.fsum(max(0, each - floor) for each, floor in zip(p, floors, strict=True))
    left = 1 - lacking / above if above else mpf(1)
    return [floor + max(0, each - floor) * left for each, floor in zip(p, floors, strict=True)]


def centred(losses: Sequence[float]) -> list[Any]:
    """Return losses less the mean of those before; the first less itself."""
    return [mpf(loss) - mpmath.fsum(losses[:t] or [loss]) / max(t, 1) for t, loss in enumerate(losses)]


def ahb(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of AHB, one row a round; the first n arms must be 0, 1, …, in this order."""
    with mpmath.workdps(60):
        rows: list[Any] = [[mpf(int(k == t)) for k in range(n)] for t in range(n)]
        centre = -mpmath.fsum(mpf(loss) for loss in losses[:n]) / n
        q, gaps, sums = [mpf(1) / n] * n, mpf(0), [mpf(0)] * n
        for t in range(n + 1, len(losses) + 2):
            p = mixed(q, min(mpf(1) / 2, mpmath.sqrt(mpf(5) / 2 * n * mpmath.log(n) / t)))
            rows.append(p)
            if t == len(losses) + 1:
                return np.array(rows, dtype=float)
            arm, payoff = arms[t - 1], -mpf(losses[t - 1])
            y = [centre + (payoff - centre) / p[arm] if k == arm else centre for k in range(n)]
            mean = mpmath.fsum(a * b for a, b in zip(q, y, strict=True))
            if gaps:
                rate = mpmath.log(n) / gaps
                gap = (
                    mpmath.log(mpmath.fsum(a * mpmath.exp(rate * (b - mean)) for a, b in zip(q, y, strict=True))) / rate
                )
            else:
                gap = max(y) - mean
            gaps += gap
            sums = [a + b for a, b in zip(sums, y, strict=True)]
            if gaps:
                q = normalised([mpmath.exp(mpmath.log(n) / gaps * (each - max(sums))) for each in sums])
        raise AssertionError("not reached")


def banker_omd(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of Banker-OMD, one row a round."""
    with mpmath.workdps(40):
        bound, squares, sums, rows = mpf(1), mpf(0), [mpf(0)] * n, []
        for t in range(len(losses) + 1):
            d = bound**2 + squares
            spread = mpmath.sqrt((3 + d) / mpmath.log(3 + d / bound**2))
            sigma = max(spread / mpmath.sqrt(n * mpmath.log(max(policy.horizon, 2))), 2 * bound)
            p = log_barrier(sums, 1 / sigma)
            rows.append(p)
            if t < len(losses):
                arm, loss = arms[t], mpf(losses[t])
                if not (abs(loss) > bound or loss < -sigma / 2):
                    sums[arm] += loss / p[arm]
                    squares += loss**2
                elif policy.skipped == "lost":
                    sums = [mpf(0)] * n
                bound = max(bound, 2 * abs(loss))
        return np.array(rows, dtype=float)


def scb(policy: Any, arms: Sequence[int], losses: Sequence[float], n: int) -> Array:
    """Return the distributions of SCB, or of SCB-IX, one row a round."""
    implicit = type(policy).__name__ == "SCBIX"
    with mpmath.workdps(40):
        scale, sums, rows = mpf(0), [mpf(0)] * n, []
        width = n * mpmath.log(n)
        for t in range(1, len(losses) + 2):
            beta = mpmath.sqrt(width / (width + t)) if implicit else n / (2 * n + mpmath.sqrt(n * mpf(t)))
            p, bias = [mpf(1) / n] * n, mpf(0)
            if scale and implicit:
                rate = mpmath.sqrt(mpmath.log(n) / (n * mpf(t))) / scale
                p, bias = normalised([mpmath.exp(-rate * (each - min(sums))) for each in sums]), rate * scale / 2
            elif scale:
                p = tsallis(sums, 1 / (2 * scale * mpmath.sqrt(t)) / 2)
            q = mixed(p, beta)
            rows.append(q)
            if t <= len(losses):
                arm, loss = arms[t - 1], mpf(losses[t - 1])
                sums[arm] += (max(-scale, min(scale, loss)) + scale) / (q[arm] + bias)
                scale = 2 * abs(loss) if abs(loss) > scale else scale
        return np.array(rows, dtype=float)


def hybrid(loss_sums: Sequence[Any], root_weight: Any, entropy_weight: Any) -> list[Any]:
    """Return argmin ⟨L, x⟩ − 2A Σ √x_k + B Σ x_k ln x_k: L_k − A/√x_k + B ln x_k is the same for every arm.

    The number is found by Newton's method inside an interval that is halved where a step leaves it.
    """
    gaps = [each - min(loss_sums) for each in loss_sums]
    low = root_weight
    high = root_weight * mpmath.sqrt(len(gaps)) + entropy_weight * mpmath.log(len(gaps))
    level, small = (low + high) / 2, mpf(10) ** (8 - mpmath.mp.dps)
    for _ in range(1000):
        logs = [_log_of_share(root_weight, entropy_weight, gap + level) for gap in gaps]
        shares = [mpmath.exp(each) for each in logs]
        total = mpmath.fsum(shares)
        low, high = (level, high) if total > 1 else (low, level)
        bends = [x / (root_weight / mpmath.sqrt(x) / 2 + entropy_weight) for x in shares]
        after = level + (total - 1) / mpmath.fsum(bends)
        after = after if low <= after <= high else (low + high) / 2
        if abs(after - level) <= small * high:
            return shares
        level = after
    raise AssertionError("no convergence")


def _log_of_share(root_weight: Any, entropy_weight: Any, target: Any) -> Any:
    """Return u = ln x with A/√x − B ln x = target, by Newton's method; the left side is convex in u."""
    u = -2 * mpmath.log(target / root_weight) if root_weight else -target / entropy_weight
    if root_weight and entropy_weight:
        u = max(u, -target / entropy_weight)  # both are left of the root
    for _ in range(1000):
        root = root_weight * mpmath.exp(-u / 2)
        step = (root - entropy_weight * u - target) / (root / 2 + entropy_weight)
        u += step
        if abs(step) < mpf(10) ** (8 - mpmath.mp.dps) * (1 + abs(u)):
            return u
    raise AssertionError("no convergence")


def tsallis_inf_d(policy: Any, arms: Sequence[int], losses: Sequence[float], delays: Sequence[int], n: int) -> Array:
    """Return the distributions of Tsallis-INF-D, one row a round and one more."""
    with mpmath.workdps(30):
        sums, waited, rows = [mpf(0)] * n, 0, []
        waiting: list[tuple[int, int, Any]] = []  # when it arrives, its round, p
        for t in range(1, len(arms) + 2):
            waited += len(waiting)
            h = mpmath.sqrt(2 * waited / mpmath.log(n)) if n > 1 else mpf(0)
            p = hybrid(sums, mpmath.sqrt(t), h)
            rows.append(p)
            if t > len(arms):
                break
            waiting.append((t + delays[t - 1], t - 1, p[arms[t - 1]]))
            for _, s, chance in [each for each in waiting if each[0] == t]:
                sums[arms[s]] += (mpf(losses[s]) - policy.low) / (mpf(policy.high) - policy.low) / chance
            waiting = [each for each in waiting if each[0] > t]
        return np.array(rows, dtype=float)


def scb_d(
    arms: Sequence[int], losses: Sequence[float], delays: Sequence[int], n: int, *, centred: bool = False
) -> Array:
    """Return the distributions of SCB-D, one row a round and one more; a loss arrives so many rounds after its draw.

    If centred, from a loss that arrives the mean of those that arrived before is subtracted, from the first one itself.
    """
    with mpmath.workdps(30):
        sums, scale, waited, rows = [mpf(0)] * n, mpf(0), 0, []
        waiting: list[tuple[int, int, Any, Any]] = []  # when it arrives, its round, q, C
        arrived: list[Any] = []
        for t in range(1, len(arms) + 2):
            waited += len(waiting)
            x = [mpf(1) / n] * n
            if scale and n > 1:
                h = mpmath.sqrt(2 * waited / mpmath.log(n))
                x = hybrid(sums, 2 * scale * mpmath.sqrt(t), 2 * scale * h)
            q = mixed(x, n / (2 * n + mpmath.sqrt(mpf(n) * t)))
            rows.append(q)
            if t > len(arms):
                return np.array(rows, dtype=float)
            waiting.append((t + delays[t - 1], t - 1, q[arms[t - 1]], scale))
            for _, s, chance, limit in [each for each in waiting if each[0] == t]:
                loss = mpf(losses[s])
                if centred:
                    arrived.append(loss)
                    loss -= mpmath.fsum(arrived[:-1] or [loss]) / max(1, len(arrived) - 1)
                sums[arms[s]] += (max(-limit, min(limit, loss)) + limit) / chance
                scale = max(scale, abs(loss))
            waiting = [each for each in waiting if each[0] > t]
        raise AssertionError("not reached")
