"""Bounds on expected regret, evaluated on a loss table.

For UMAB-NN and UMAB-G the paper's proofs give constants, and for UMAB-S, UMAB-W, policies with a guard and
UMAB-Sh the proofs in `docs/recommended.md`, `docs/changing.md`, `docs/guard.md` and `docs/algorithms/umab-sh.md` do;
`umab.theory.bounds_advised` has UMAB-E,
and `umab.theory.bounds_late` has SCB-D, Tsallis-INF-D, and UMAB-S with late feedback (`docs/late.md`).
The other policies have rates only, as in the paper's Table 1, without constants and logarithms. A bound `as printed`
follows the paper's text to the letter. A bound `as repaired` holds where the text slips; `docs/errata.md` says where,
and `umab certify` shows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.guard import LEAST_SHARE, Guarded
from umab.algorithms.local import LocallyCentred
from umab.algorithms.names import as_policy
from umab.algorithms.registry import record_of, records
from umab.algorithms.tsallis_inf_d import TsallisINFD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_g import UMABG, ExtraExploration
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.watch import MOST_ATTENTION
from umab.engine.advised import advice_for
from umab.engine.simulate import check_range, simulate
from umab.errors import NoBoundError
from umab.tables.advice import Advice
from umab.tables.losses import Losses, refuse_away
from umab.theory.barrier import least_probability
from umab.theory.bounds_advised import bound_with_advice
from umab.theory.bounds_late import bound_with_delays
from umab.theory.constants import (
    BALANCE,
    REST,
    SHARE,
    SHARE_WITH_BURSTS,
    clipping,
    clipping_of_shadow,
    growth,
    growth_of_sharing,
    jump_of_sharing,
    jumps,
    jumps_of_shadow,
    least_floor,
    most_bursts,
    most_starts,
    price_of_switches,
)
from umab.theory.norms import Norms, Sizes, Squares
from umab.theory.sharing import least_probability_of_sharing, scaled_complexity
from umab.theory.terms import Bound as Bound
from umab.theory.terms import in_doubles
from umab.theory.theorems import (
    PROVED_IN,
    THEOREM_1,
    THEOREM_2,
    THEOREM_D,
    THEOREM_G,
    THEOREM_R,
    THEOREM_SH,
    THEOREM_W,
    core_of,
    theorem_of,
)
from umab.theory.trajectory import refusal


def bound(
    policy: Policy | str, losses: object, *, switches: int = 0, advice: object = None, delays: object = None
) -> Bound:
    """Return the bound on the expected regret of a policy on a loss table.

    Parameters
    ----------
    policy
        A policy or its name.
    losses
        What `umab.Losses.of` takes.
    switches
        How often the arms that the policy is compared with may change: the regret is against the best sequence of arms
        that changes so often at most. With 0, that is the best single arm. Only UMAB-Sh has bounds for more.
    advice
        What experts advise, for a policy over experts, as for `umab.simulate`; the bound is against the best of them.
    delays
        By how many rounds losses are late: one number, or one for each round, for UMAB-S, SCB-D and Tsallis-INF-D. For
        UMAB-S and losses that are never negative, also one for each round and arm; if these differ between the arms of
        a round, the bound has a larger constant.

    Raises
    ------
    umab.errors.NoBoundError
        If no bound applies; the message names the condition.

    Examples
    --------
    >>> from umab.theory.bounds import bound
    >>> round(bound("umab-nn", [[1.0, 0.0]] * 100).repaired, 2)
    88.01
    >>> bound("umab-g-a:rate=4", [[1.0, 0.0]] * 100)
    Traceback (most recent call last):
        ...
    umab.errors.NoBoundError: Theorem 2 does not cover umab-g-a:rate=4: its rate must be at most 1/4, but got rate=4
    """
    which = as_policy(policy, "umab.theory.bound(umab.recommended(), losses)")
    table = Losses.of(losses)
    refuse_away(table, "a bound")
    checks.whole("switches", switches, least=0)
    advised = advice_for(which, None if advice is None else Advice.of(advice, *table.table.shape), table)
    if switches == 0 and isinstance(advised, UMABE):
        return bound_with_advice(advised, table, advice)
    if theorem_of(which) == THEOREM_SH:
        return _of_umab_sh(which, table, switches)
    if switches > 0:
        rule = "only umab-sh and centred(umab-sh) have a bound against arms that change"
        raise NoBoundError(f"{rule}, but got switches={switches} for {which.name}")
    try:
        check_range(which, table)
    except ValueError as error:
        raise NoBoundError(f"there is no bound for losses that the policy refuses: {error}") from None
    if delays is not None or theorem_of(which) == THEOREM_D or isinstance(which, TsallisINFD):
        late = bound_with_delays(which, table, delays)
        if late is not None:
            return late
    if theorem_of(which) in _OF_THEOREMS:
        return _OF_THEOREMS[theorem_of(which)](which, table)
    formula = record_of(which).rate_in_norms
    if formula in _RATES:
        rate = _RATES[formula](Norms.of(table))
        source = "a published rate in the norms of Table 1; umab has no constants for it"
        return in_doubles(which.name, rate, formula, None, None, {}, source)
    rule = "a bound needs a policy with a theorem in umab.theory, or with a rate in the norms of Table 1"
    raise NoBoundError(f"{rule}, but got {which.name}; umab.recommended() has one")


def bounds_of(policies: Mapping[str, Policy], losses: Losses) -> dict[str, Bound]:
    """Return the bounds of those policies to which one applies, by the same names."""
    found = {}
    for name, policy in policies.items():
        with contextlib.suppress(NoBoundError):
            found[name] = bound(policy, losses)
    return found


def _of_umab_nn(policy: Policy, losses: Losses) -> Bound:
    """Theorem 1.

    ½√(nS) log T bounds the regularizer of the comparator, since Ψ(p†) ≤ n log T for the Ψ that is 0 at the uniform
    distribution; 3.5√n(√S + ℓ∞) bounds the stability; ℓ∞ is the gap between the comparator and the best arm.
    """
    norms = Norms.of(losses)
    n, horizon = norms.n_arms, norms.n_rounds
    root = np.sqrt(n * norms.sum_of_squares)
    printed = (
        4.0 * root * np.log(np.longdouble(n * horizon))
        + 3.5 * np.sqrt(np.longdouble(n)) * norms.largest
        + norms.largest
    )
    terms = {
        "regulariser": 0.5 * root * np.log(np.longdouble(horizon)),
        "stability": 3.5 * (root + np.sqrt(np.longdouble(n)) * norms.largest),
        "comparator": norms.largest,
    }
    formula, source = record_of(policy).rate_in_norms, theorem_of(policy)
    return in_doubles(policy.name, root, formula, printed, sum(terms.values()), terms, source)


def _of_umab_g(policy: Policy, losses: Losses) -> Bound:
    """Theorem 2, with the constants of its proof in the appendix.

    The repaired one counts |C_{T+1}| ≤ max(|C_1|, ℓ⁻∞) where the text has a multiple of ℓ∞ only, and 2ℓ∞ for the gap
    between the comparator and the best arm. It needs a rate of at most 1/4, as Lemma 3 does.
    """
    core, norms = core_of(policy, ExtraExploration), Norms.of(losses)
    n, horizon = norms.n_arms, norms.n_rounds
    adaptive = core.exploration == "adaptive"
    if core.exploration not in ("adaptive", "fixed"):
        rule = f"its exploration must be 'fixed' or 'adaptive', but got exploration={core.exploration!r}"
        raise NoBoundError(f"{theorem_of(policy)} does not cover {policy.name}: {rule}")
    if core.rate > 0.25:
        rule = f"its rate must be at most 1/4, but got rate={core.rate:g}"
        raise NoBoundError(f"{theorem_of(policy)} does not cover {policy.name}: {rule}")
    scale = core.initial_scale
    root, root_of_sizes = np.sqrt(n * norms.sum_of_squares), np.sqrt(n * norms.sum_of_sizes)
    if adaptive:
        rate = (1 + norms.largest) * root_of_sizes + root
        exploring = (
            2 * n * n * norms.largest + 2 * np.sqrt(1 + 4 * n * norms.sum_of_sizes) + 2 * norms.largest * root_of_sizes
        )
        least_chance = 2 * n * n + 3 * root_of_sizes
    else:
        rounds = (core.horizon if isinstance(core, UMABG) else None) or horizon
        rate = norms.most_negative * np.sqrt(np.longdouble(n * horizon)) + root
        # Σ‖ℓ_t‖∞ ≤ √(T Σ‖ℓ_t‖²∞), and ρ ≤ 1/√(n·horizon), whose horizon need not be the table's.
        exploring = 2 * root * np.sqrt(max(1.0, horizon / rounds))
        least_chance = 2 * n * n + np.sqrt(np.longdouble(n * rounds))
    printed_clips = np.log2(1 + norms.largest)
    clips = np.log2(np.maximum(1, norms.most_negative / np.longdouble(scale)))
    root_with_scale = np.hypot(n * np.maximum(np.longdouble(scale), norms.most_negative), root)
    stability = 63 * np.sqrt(np.longdouble(n)) * (np.sqrt(norms.sum_of_squares) + norms.largest)
    printed = (
        67 * np.hypot(np.sqrt(2) * n * norms.largest, root) * np.log(np.longdouble(n * horizon))
        + 63 * np.sqrt(np.longdouble(n)) * norms.largest
        + exploring
        + norms.most_negative * least_chance * printed_clips
        + norms.largest
    )
    terms = {
        "regulariser": root_with_scale * np.log(np.longdouble(horizon)) / core.rate,
        "stability": stability,
        "exploration": exploring,
        "clipping": norms.most_negative * least_chance * clips,
        "comparator": 2 * norms.largest,
    }
    usual = scale == 1.0 and core.rate == 0.25
    source = "Theorem 2" if usual else "Theorem 2, repaired for other constants"
    formula, as_printed = record_of(policy).rate_in_norms, printed if usual else None
    return in_doubles(policy.name, rate, formula, as_printed, sum(terms.values()), terms, source)


def _of_umab_s(policy: Policy, losses: Losses) -> Bound:
    """Theorem R of docs/recommended.md, or Theorem W of docs/changing.md, with ‖ℓ_t‖∞ in place of the loss seen.

    For centred losses, `_sizes` covers the rounds from 2 on. In round 1 the distribution is uniform and nothing is
    learned, because the number that is subtracted is the loss itself; its regret is at most the spread. Theorem W is
    evaluated for the largest number of starts, N, with rounds that are shared evenly among them. That is the worst
    case, as 1/ρ_s and Σρ_s are concave in the number of rounds.
    """
    if why := refusal(policy):
        raise NoBoundError(f"{theorem_of(policy)} does not cover it: {why}")
    n, horizon = losses.n_arms, losses.n_rounds
    watches, is_centred, sizes = isinstance(policy, UMABW), _centres(policy), _sizes(policy, losses)
    core = UMABS() if watches else core_of(policy, UMABS)
    share = SHARE_WITH_BURSTS if watches else SHARE
    starts = min(horizon, int(np.ceil(most_starts(n, horizon))) - 1) if watches else 1
    each = np.asarray(horizon / np.longdouble(starts))
    floors = least_probability(n, np.arange(1, int(np.ceil(each)) + 1))
    rarest = 1 / least_probability(n, each)
    times = 1 + np.log(np.longdouble(horizon)) / np.longdouble(core.rate)
    terms = {
        "steps": times * share * np.sqrt(starts * growth(core, n) * sizes.sum_of_squares),
        "jumps": times * starts * jumps(core, n, rarest, share) * sizes.most_negative,
        "clipping": REST * clipping(share) * starts * rarest * sizes.most_negative,
        "exploration": (n - 1) * sizes.spread * starts * floors[1:].sum(),
        "comparator": sizes.spread,
    }
    if is_centred:
        terms["first round"] = sizes.spread
    rate = sizes.largest * np.sqrt(np.longdouble(n * horizon)) + np.sqrt(n * sizes.sum_of_squares)
    formula = "L √(nT) + √(n Σ‖ℓ_t − b_t‖²∞)" if is_centred else "ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²∞)"
    source = f"{theorem_of(policy)} of {PROVED_IN[theorem_of(policy)]}"
    if watches:
        terms["bursts"] = MOST_ATTENTION * sizes.spread * most_bursts(n, horizon)
        rate, formula = np.sqrt(np.longdouble(starts)) * rate, f"√N ({formula})"
        source = f"{source}, for N = {starts} starts"
    return in_doubles(policy.name, rate, formula, None, sum(terms.values()), terms, source)


def _of_guarded(policy: Policy, losses: Losses) -> Bound:
    """Theorem G of docs/guard.md, with ‖ℓ_t − b_t‖∞ in place of the loss seen; `_sizes` covers the rounds from 2 on."""
    if why := refusal(policy):
        raise NoBoundError(f"{theorem_of(policy)} does not cover it: {why}")
    n, horizon, sizes, shadow = losses.n_arms, losses.n_rounds, _sizes(policy, losses), UMABS()
    inverse = 1 / np.longdouble(LEAST_SHARE)
    times = 1 + np.log(np.longdouble(horizon)) / np.longdouble(shadow.rate)
    terms = {
        "steps": times * SHARE * np.sqrt(growth(shadow, n) * sizes.sum_of_squares * inverse),
        "jumps": times * jumps_of_shadow(shadow, n, horizon) * sizes.most_negative,
        "clipping": REST * clipping_of_shadow(n, horizon) * sizes.most_negative,
        "balance": np.sqrt(BALANCE * sizes.sum_of_squares * inverse),
        "exploration": (n - 1) * sizes.spread * least_floor(n, np.arange(2, horizon + 1)).sum(),
        "comparator": sizes.spread,
        "first round": sizes.spread,
    }
    rate = sizes.largest * np.sqrt(np.longdouble(n * horizon)) + np.sqrt(n * sizes.sum_of_squares)
    formula = "L √(nT) + √(n Σ‖ℓ_t − b_t‖²∞)"
    source = f"{theorem_of(policy)} of {PROVED_IN[theorem_of(policy)]}"
    return in_doubles(policy.name, rate, formula, None, sum(terms.values()), terms, source)


def _centres(policy: Policy) -> bool:
    """Whether a policy learns from ℓ_t − b_t."""
    return isinstance(policy, Centred | UMABW | Guarded)


def _centres_locally(policy: Policy) -> bool:
    """Whether b_t may be a moving mean."""
    return policy.centre == "level" if isinstance(policy, UMABW) else isinstance(policy, LocallyCentred)


def _sizes(policy: Policy, losses: Losses) -> Sizes:
    """Return the sizes of the losses from which a policy learns."""
    return Sizes.centred(losses, local=_centres_locally(policy)) if _centres(policy) else Sizes.of(losses)


def _of_umab_sh(policy: Policy, losses: Losses, switches: int) -> Bound:
    """Theorem Sh of docs/algorithms/umab-sh.md, with ‖ℓ_t‖²∞ in place of the square of the loss seen.

    Centred losses are as in `_of_umab_s`.
    """
    core = core_of(policy, UMABSh)
    is_centred, sizes = _centres(policy), _sizes(policy, losses)
    squares = Squares.centred(losses, local=_centres_locally(policy)) if is_centred else Squares.of(losses)
    n, horizon = losses.n_arms, losses.n_rounds
    rounds = np.arange(1, horizon + 1)
    floors = least_probability_of_sharing(core, n, rounds)
    complexity = scaled_complexity(core, n, rounds + 1)
    jump = jump_of_sharing(complexity[0], sizes.most_negative / floors[-1])
    steps = np.sqrt(growth_of_sharing(complexity, squares.total, squares.largest).sum())
    inverse_rate = np.hypot(jump, steps)
    terms = {
        "gaps": complexity[-1] * inverse_rate,
        "sequence": price_of_switches(n, horizon, switches) * inverse_rate,
        "exploration": (n - 1) * sizes.spread * floors[1:].sum(),
    }
    if is_centred:
        terms["first round"] = sizes.spread
    times = (switches + core.switches) / np.sqrt(np.longdouble(core.switches))
    rate = times * sizes.largest * np.sqrt(np.longdouble(n * horizon))
    source = f"{theorem_of(policy)} of {PROVED_IN[theorem_of(policy)]}, for S = {switches}"
    return in_doubles(policy.name, rate, policy.guarantee, None, sum(terms.values()), terms, source)


_OF_THEOREMS: dict[str, Callable[[Policy, Losses], Bound]] = {
    THEOREM_1: _of_umab_nn,
    THEOREM_2: _of_umab_g,
    THEOREM_R: _of_umab_s,
    THEOREM_W: _of_umab_s,
    THEOREM_G: _of_guarded,
}


def _second_norms(norms: Norms) -> np.longdouble:
    root: np.longdouble = np.sqrt(norms.n_arms * norms.sum_of_2_norms)
    return root


def _worst_case(norms: Norms) -> np.longdouble:
    rate: np.longdouble = norms.largest * np.sqrt(norms.n_arms * norms.n_rounds)
    return rate


_RATES: dict[str, Callable[[Norms], np.longdouble]] = {
    "ℓ∞ √(nT)": _worst_case,
    "ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²₂)": lambda norms: _worst_case(norms) + _second_norms(norms),
    "ℓ∞ √(n Σ‖ℓ_t‖₁) + √(n Σ‖ℓ_t‖²₂)": lambda norms: (
        norms.largest * np.sqrt(norms.n_arms * norms.sum_of_1_norms) + _second_norms(norms)
    ),
}
"""The rates that records of policies name as their `rate_in_norms`."""


class Promised(NamedTuple):
    """A row of Table 1 on a loss table: what is promised, and what was measured."""

    bound: Bound
    mean: float
    se: float


def table1(losses: object, *, n_trials: int = 100, seed: int = 0) -> list[Promised]:
    """Return the paper's Table 1 evaluated on a loss table, with the measured expected regret beside it.

    Its rows are the policies that need no range and have a rate in its norms; the paper's table lacks UMAB-NN and SCB.

    Parameters
    ----------
    losses
        What `umab.Losses.of` takes. Policies that do not accept them are skipped.
    n_trials
        How many trials to measure.
    seed
        The seed of the trials.
    """
    table = Losses.of(losses)
    refuse_away(table, "Table 1")
    policies = {name: each.policy for name, each in records().items() if each.rate_in_norms}
    bounds = bounds_of(policies, table)
    rows = sorted(bounds, key=lambda name: (bool(theorem_of(policies[name])), name))  # the paper's own last, as there
    results = simulate(
        [policies[name] for name in rows], table, n_trials=n_trials, seed=seed, expected=True, keep="summary"
    )
    return [
        Promised(bounds[name], float(result.mean[-1]), float(result.se[-1]))
        for name, result in zip(rows, results, strict=True)
    ]
