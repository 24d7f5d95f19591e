"""Bounds for late feedback: Theorems D and L, for SCB-D and UMAB-S, with expectations in them; Tsallis-INF-D."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from umab.algorithms.banker_late import BankerSFTINF
from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.registry import record_of
from umab.algorithms.tsallis_inf_d import TsallisINFD
from umab.algorithms.umab_s import UMABS
from umab.engine.delays import Delays, Rounds
from umab.errors import NoBoundError
from umab.tables.losses import Losses
from umab.theory.late import bound_on_clipping, size_of, terms_of_bound, total_delay
from umab.theory.late_barrier import LateSizes, late_bound
from umab.theory.norms import Sizes
from umab.theory.path import Floats, Number
from umab.theory.statements.theorem_d import LateSteps
from umab.theory.terms import Bound, in_doubles
from umab.theory.theorems import LATE, PROVED_IN, THEOREM_D, theorem_of


def bound_with_delays(policy: Policy, losses: Losses, delays: object) -> Bound | None:
    """Return the bound of Theorem D or L or of Tsallis-INF-D; for another policy there is none.

    None says that no loss is late and that the policy is UMAB-S, whose bound is then the one without delays. A delay
    counts up to the last round at most. For centred losses, the regret of one round is added: the one whose loss
    arrives first, which teaches nothing.
    """
    if theorem_of(policy) != THEOREM_D and not isinstance(policy, TsallisINFD) and not covers_delays(policy):
        rule = "umab-s, scb-d, both also centred, and tsallis-inf-d have a bound for late feedback"
        if isinstance(policy, BankerSFTINF):
            rule = f"the bound of {record_of(policy).reference} for late feedback is published without constants"
        raise NoBoundError(f"{rule}, but got delays for {policy.name}")
    given = Delays.of(0 if delays is None else delays, losses.n_rounds, losses.n_arms).given
    if given is None:
        raise ValueError(
            "delays must be a number or one for each round, for a bound, but got a function; draw them first"
        )
    longest, by_arm = _without_arms(given, policy, losses)
    (total,) = total_delay(longest[None])
    if isinstance(policy, TsallisINFD):
        return _of_tsallis_inf_d(policy, losses, total)
    if theorem_of(policy) != THEOREM_D:
        return _of_umab_s(policy, losses, longest, by_arm) if total > 0 else None
    n, horizon, size = losses.n_arms, losses.n_rounds, size_of(policy, losses)
    terms = {name: size * each for name, each in _terms(n, horizon, total).items()}
    if isinstance(policy, Centred):
        terms["first arrival"] = Sizes.of(losses).spread
    rate = size * (np.sqrt(np.longdouble(n * horizon)) + np.sqrt(total * np.log(np.longdouble(n))))
    source = f"{theorem_of(policy)} of {PROVED_IN[theorem_of(policy)]}, for D = {int(total)}"
    return in_doubles(policy.name, rate, policy.guarantee, None, sum(terms.values()), terms, source)


def _without_arms(delays: Rounds, policy: Policy, losses: Losses) -> tuple[Rounds, bool]:
    """Return the longest delay of each round, of rounds × 1 or × arms, and whether delays depend on the arm.

    They do if they differ between arms in any round. If no bound covers that, it is refused.
    """
    by_arm = bool((delays != delays[:, :1]).any())
    if by_arm and not (isinstance(policy, UMABS) and losses.table.min() >= 0.0):
        raise NoBoundError(
            "delays must not depend on the arm, unless the policy is umab-s and no loss is negative, but got "
            f"policy={policy.name} and a smallest loss of {losses.table.min():g}"
        )
    return delays.max(axis=1), by_arm


def covers_delays(policy: Policy) -> bool:
    """Whether Theorem L is about a policy: UMAB-S, bare or centred by the mean, without options for study."""
    inside = policy.policy if type(policy) is Centred else policy
    return isinstance(inside, UMABS) and not inside.for_study


def _of_umab_s(policy: Policy, losses: Losses, delays: Rounds, by_arm: bool) -> Bound:
    """Theorem L of docs/late.md."""
    terms, _, (total, *_) = late_bound(policy, losses, delays, by_arm=by_arm)
    n, below = np.longdouble(losses.n_arms), LateSizes.of(policy, losses, delays).most_negative
    rate = size_of(policy, losses) * np.sqrt(n * (losses.n_rounds + total)) + below * n * np.sqrt(total)
    formula = "ℓ∞ √(n(T + D))" + (" + ℓ⁻∞ n √D" if below > 0 else "")
    source = f"Theorem L of {LATE}, for D = {int(total)}" + (", and delays that depend on the arm" if by_arm else "")
    return in_doubles(policy.name, rate, formula, None, sum(terms.values()), terms, source)


def late_limits(policy: Policy, losses: Losses, delays: Rounds) -> dict[str, tuple[str, float]]:
    """Return what Theorem L says about expectations, and their bounds for the delays of each run, averaged.

    Delays are runs × rounds × 1, or × arms.
    """
    kinds, times = np.unique(delays, axis=0, return_counts=True)
    every = (_without_arms(each, policy, losses) for each in kinds)
    found = [late_bound(policy, losses, longest, by_arm=by_arm) for longest, by_arm in every]
    regret, paid = (
        float(np.average([float(each) for each in values], weights=times))
        for values in ([sum(each.terms.values()) for each in found], [each.paid for each in found])
    )
    step = "L11, mean" if "jumps" in found[0].terms else "L9 and L12, mean"  # parts (a) and (b)
    return {
        "Theorem L": (f"the expected regret is at most {regret:.6g}", regret),
        step: (f"E A_end is at most {paid:.6g}", paid),
    }


def _of_tsallis_inf_d(policy: TsallisINFD, losses: Losses, total: np.longdouble) -> Bound:
    """Return the published bound."""
    size = np.longdouble(policy.high) - np.longdouble(policy.low)
    root = size * np.sqrt(np.longdouble(losses.n_arms * losses.n_rounds))
    late = size * np.sqrt(total * np.log(np.longdouble(losses.n_arms)))
    printed = 4 * root + np.sqrt(np.longdouble(8)) * late
    source = f"{record_of(policy).reference}, as published, for D = {int(total)}; umab has not checked its proof"
    return in_doubles(policy.name, root + late, policy.guarantee, printed, None, {}, source)


def _terms(n_arms: int, n_rounds: int, total: Number) -> dict[str, Number]:
    """Return the terms of the theorem, which is about two arms or more; one arm has no regret."""
    terms = terms_of_bound(n_arms, n_rounds, total)
    return terms if n_arms > 1 else {name: 0 * each for name, each in terms.items()}


_ROUNDING = 1e-15
"""A sum of steps may be wrong by this share of the numbers that were added to get there."""


V = TypeVar("V", float, Floats)


class Limits(NamedTuple, Generic[V]):
    """Numbers of runs whose expectations the proof bounds; or these bounds, for the delays of the runs on average."""

    regret: V
    steps: V
    late_steps: V
    clipping: V


TEXTS = {
    "Theorem D": "the expected regret is",
    "D2, mean": "E ΣA_t is",
    "D3, mean": "E ΣB_t is",
    "D4, mean": "E Σ‖ℓ_t − clip(ℓ_t)‖∞ is",
}
"""The names of the bounds in `Limits`, and what they say."""


def averages(steps: LateSteps) -> tuple[Floats, Floats, Floats]:
    """Return ΣA_t, ΣB_t and Σ‖ℓ_t − clip(ℓ_t)‖∞ of each run; what may be rounding is 0."""
    rounding = _ROUNDING * steps.size.sum(axis=1)
    gained, late = (each.sum(axis=1) for each in (steps.step, steps.late_step))
    gained, late = (np.where(np.abs(each) > rounding, each, np.longdouble(0)) for each in (gained, late))
    return gained.astype(float), late.astype(float), steps.of.too_large.sum(axis=1).astype(float)


def limits_of(policy: Policy, losses: Losses, delays: Rounds) -> Limits[float]:
    """Return what the expectations are at most, for the delays of each run, averaged over the runs."""
    n, horizon, size, total = losses.n_arms, losses.n_rounds, size_of(policy, losses), total_delay(delays)
    terms = terms_of_bound(n, horizon, total)
    first = Sizes.of(losses).spread if isinstance(policy, Centred) else 0
    every = (
        size * sum(_terms(n, horizon, total).values()) + first,
        size * terms["steps"],
        size * terms["late steps"],
        size * bound_on_clipping(n, horizon, total),
    )
    return Limits(*(float(np.mean(each)) for each in every))
