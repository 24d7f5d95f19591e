"""Bounds on expected regret, evaluated on a loss table.

For UMAB-NN and UMAB-G the paper's proofs give constants, and for UMAB-S the proof in `docs/recommended.md` does. The
other policies have rates only, as in the paper's Table 1, without constants and logarithms. A bound `as printed`
follows the paper's text to the letter. A bound `as repaired` holds where the text slips; `docs/errata.md` says where,
and `umab certify` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.algorithms.registry import registered
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import CHARGE, LIMIT, UMABS
from umab.engine.simulate import simulate, takes
from umab.tables.losses import Losses, refuse_away
from umab.theory.norms import Norms, Sizes
from umab.theory.trajectory import core_of, least_probability, refusal

KAPPA = 4 * np.log(np.longdouble(2)) - 2
"""(a − log(1 + a))/a² at a = −½, its largest value for a ≥ −½: how many η_t w²_t a step of UMAB-S may cost."""

SHARE = np.longdouble(4) / 3
"""p_{t,k} is at most this many times p'_{t,k} in UMAB-S."""

REST = np.longdouble(6) / 5
"""1 − p_{t,k} is at most this many times 1 − p'_{t,k} in UMAB-S."""

CLIPPED = SHARE / (LIMIT * CHARGE)
"""What UMAB-S clips from the losses it sees, each times 1 − p'_{t,k}, is at most this many times L⁻."""


class Bound(NamedTuple):
    """What is promised for a policy on a loss table."""

    policy: str
    rate: float | None
    """The order of the regret, without constants and logarithms; None if none is published."""
    formula: str
    """That order, as a formula."""
    printed: float | None
    """The bound with the constants of the paper's proof; None if there are none."""
    repaired: float | None
    """The bound with constants for which the proof is right; None if there are none. For UMAB-S, as proved."""
    terms: Mapping[str, float]
    """The repaired bound, term by term."""
    source: str
    """Where it comes from, and what it does not cover."""


def bound(policy: Policy | str, losses: Any) -> Bound:
    """Return the bound on the expected regret of a policy on a loss table.

    Parameters
    ----------
    policy
        A policy or its name.
    losses
        What `umab.Losses.of` takes.

    Examples
    --------
    >>> from umab.theory.bounds import bound
    >>> round(bound("umab-nn", [[1.0, 0.0]] * 100).repaired, 2)
    88.01
    """
    which = as_policy(policy)
    table = Losses.of(losses)
    refuse_away(table, "a bound")
    if which.theorem:
        return _OF_THEOREMS[which.theorem](which, table)
    if which.rate_in_norms in _RATES:
        rate = _RATES[which.rate_in_norms](Norms.of(table))
        source = "a published rate in the norms of Table 1; umab has no constants for it"
        return _in_doubles(which.name, rate, which.rate_in_norms, None, None, {}, source)
    return Bound(which.name, None, "", None, None, {}, "umab has no bound in the norms of Table 1 for it")


def _in_doubles(
    policy: str, rate: Any, formula: str, printed: Any, repaired: Any, terms: Mapping[str, Any], source: str
) -> Bound:
    """Return a bound that was computed in long doubles; a number that is too large for a double becomes inf."""
    with np.errstate(over="ignore"):
        return Bound(
            policy,
            float(rate),
            formula,
            None if printed is None else float(printed),
            None if repaired is None else float(repaired),
            {name: float(term) for name, term in terms.items()},
            source,
        )


def _of_umab_nn(policy: Any, losses: Losses) -> Bound:
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
    formula, source = policy.rate_in_norms, policy.theorem
    return _in_doubles(policy.name, root, formula, printed, sum(terms.values()), terms, source)


def _of_umab_g(policy: Any, losses: Losses) -> Bound:
    """Theorem 2, with the constants of its proof in the appendix.

    The repaired one counts |C_{T+1}| ≤ max(|C_1|, ℓ⁻∞) where the text has a multiple of ℓ∞ only, and 2ℓ∞ for the gap
    between the comparator and the best arm. It needs a rate of at most 1/4, as Lemma 3 does.
    """
    norms = Norms.of(losses)
    n, horizon = norms.n_arms, norms.n_rounds
    adaptive = policy.exploration == "adaptive"
    if policy.exploration not in ("adaptive", "fixed") or policy.rate > 0.25:
        why = "its rate is above 1/4" if policy.rate > 0.25 else f"its exploration is {policy.exploration!r}"
        return Bound(policy.name, None, "", None, None, {}, f"Theorem 2 does not cover it: {why}")
    scale = policy.initial_scale
    root, root_of_sizes = np.sqrt(n * norms.sum_of_squares), np.sqrt(n * norms.sum_of_sizes)
    if adaptive:
        rate = norms.largest * root_of_sizes + root
        exploring = (
            2 * n * n * norms.largest + 2 * np.sqrt(1 + 4 * n * norms.sum_of_sizes) + 2 * norms.largest * root_of_sizes
        )
        least_chance = 2 * n * n + 3 * root_of_sizes
    else:
        rounds = policy.horizon or horizon
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
        "regulariser": root_with_scale * np.log(np.longdouble(horizon)) / policy.rate,
        "stability": stability,
        "exploration": exploring,
        "clipping": norms.most_negative * least_chance * clips,
        "comparator": 2 * norms.largest,
    }
    usual = scale == 1.0 and policy.rate == 0.25
    source = "Theorem 2" if usual else "Theorem 2, repaired for other constants"
    formula, as_printed = policy.rate_in_norms, printed if usual else None
    return _in_doubles(policy.name, rate, formula, as_printed, sum(terms.values()), terms, source)


def growth(policy: UMABS, n_arms: int) -> Any:
    """Return 1 + 2κcn: how many w²_t a step that is not a jump may add to A²_t."""
    return 1 + 2 * np.longdouble(policy.rate) * n_arms * KAPPA


def jumps(policy: UMABS, n_arms: int, rarest: Any) -> Any:
    """Return (8/3)cn + 1/ρ_T: how many times L⁻ all jumps may add to A, where `rarest` is 1/ρ_T."""
    return 2 * SHARE * np.longdouble(policy.rate) * n_arms + rarest


def _of_umab_s(policy: Policy, losses: Losses) -> Bound:
    """Theorem R of docs/recommended.md, with ‖ℓ_t‖∞ in place of the loss seen.

    For centred losses, `Sizes.centred` covers the rounds from 2 on. In round 1 the distribution is uniform and nothing
    is learned, because the number that is subtracted is the loss itself; its regret is at most the spread.
    """
    if why := refusal(policy):
        return Bound(policy.name, None, "", None, None, {}, f"Theorem R does not cover it: {why}")
    core: UMABS = core_of(policy)
    is_centred = policy is not core
    sizes = Sizes.centred(losses) if is_centred else Sizes.of(losses)
    n, horizon = losses.n_arms, losses.n_rounds
    floors = least_probability(n, np.arange(1, horizon + 1))
    rarest = 1 / floors[-1]
    times = 1 + np.log(np.longdouble(horizon)) / np.longdouble(core.rate)
    terms = {
        "steps": times * SHARE * np.sqrt(growth(core, n) * sizes.sum_of_squares),
        "jumps": times * jumps(core, n, rarest) * sizes.most_negative,
        "clipping": REST * CLIPPED * rarest * sizes.most_negative,
        "exploration": (n - 1) * sizes.spread * floors[1:].sum(),
        "comparator": sizes.spread,
    }
    if is_centred:
        terms["first round"] = sizes.spread
    rate = sizes.largest * np.sqrt(np.longdouble(n * horizon)) + np.sqrt(n * sizes.sum_of_squares)
    formula = "L √(nT) + √(n Σ‖ℓ_t − b_t‖²∞)" if is_centred else "ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²∞)"
    return _in_doubles(policy.name, rate, formula, None, sum(terms.values()), terms, "Theorem R of docs/recommended.md")


_OF_THEOREMS: dict[str, Callable[[Any, Losses], Bound]] = {
    UMABNN.theorem: _of_umab_nn,
    UMABG.theorem: _of_umab_g,
    UMABS.theorem: _of_umab_s,
}


def _second_norms(norms: Norms) -> Any:
    return np.sqrt(norms.n_arms * norms.sum_of_2_norms)


def _worst_case(norms: Norms) -> Any:
    return norms.largest * np.sqrt(norms.n_arms * norms.n_rounds)


_RATES: dict[str, Callable[[Norms], Any]] = {
    "ℓ∞ √(nT)": _worst_case,
    "ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²₂)": lambda norms: _worst_case(norms) + _second_norms(norms),
    "ℓ∞ √(n Σ‖ℓ_t‖₁) + √(n Σ‖ℓ_t‖²₂)": lambda norms: (
        norms.largest * np.sqrt(norms.n_arms * norms.sum_of_1_norms) + _second_norms(norms)
    ),
}
"""The rates that policies name as their `rate_in_norms`."""


class Promised(NamedTuple):
    """A row of Table 1 on a loss table: what is promised, and what was measured."""

    bound: Bound
    mean: float
    se: float


def table1(losses: Any, *, n_trials: int = 100, seed: int = 0) -> list[Promised]:
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
    rows = [each for each in registered().values() if each.rate_in_norms and takes(each, table)]
    rows.sort(key=lambda each: (bool(each.theorem), each.name))  # the paper's own last, as in its Table 1
    results = simulate(rows, table, n_trials=n_trials, seed=seed, expected=True, keep="summary")
    return [
        Promised(bound(each, table), float(result.mean[-1]), float(result.se[-1]))
        for each, result in zip(rows, results, strict=True)
    ]
