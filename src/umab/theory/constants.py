"""The constants and factors of the proofs, which bounds and statements share."""

from __future__ import annotations

import numpy as np

from umab.algorithms.guard import LEAST_SHARE, SURE
from umab.algorithms.umab_s import CHARGE, LIMIT, UMABS
from umab.algorithms.umab_w import MOST_BURSTS
from umab.theory.path import Number, Precise

KAPPA: np.longdouble = 4 * np.log(np.longdouble(2)) - 2
"""(a − log(1 + a))/a² at a = −½, its largest value for a ≥ −½: how many η_t w²_t a step of UMAB-S may cost."""

SHARE = np.longdouble(4) / 3
"""p_{t,k} is at most this many times p'_{t,k} in UMAB-S."""

REST = np.longdouble(6) / 5
"""1 − p_{t,k} is at most this many times 1 − p'_{t,k} in UMAB-S and UMAB-W."""

SHARE_WITH_BURSTS = np.longdouble(2)
"""p_{t,k} is at most this many times p'_{t,k} in UMAB-W."""

GAP: np.longdouble = np.expm1(np.longdouble(1)) - 1
"""e − 2, which is (eᶻ − 1 − z)/z² at z = 1, its largest value for z ≤ 1: how many η_t⟨w_t, ℓ̂_t²⟩ a step may cost."""

FLOOR_SHARE = np.longdouble(2)
"""w_{t,k} is at most this many times p'_{t,k} in UMAB-Sh."""


def growth(policy: UMABS, n_arms: int) -> np.longdouble:
    """Return 1 + 2κcn: how many w²_t a step that is not a jump may add to A²_t."""
    return 1 + 2 * np.longdouble(policy.rate) * n_arms * KAPPA


def jumps(policy: UMABS, n_arms: int, rarest: Number, share: np.longdouble = SHARE) -> Number:
    """Return 2·share·cn + 1/ρ_T: how many times L⁻ all jumps may add to A, where `rarest` is 1/ρ_T."""
    return 2 * share * np.longdouble(policy.rate) * n_arms + rarest


def clipping(share: np.longdouble = SHARE) -> np.longdouble:
    """Return share/(gK): how many times L⁻ is clipped from the losses seen at most, each times 1 − p'_{t,k}."""
    return share / (LIMIT * CHARGE)


def most_starts(n_arms: int, t: Precise | int) -> Precise:
    """Return √(t/n) + 2: UMAB-W has started fewer times than that by round t, the first start included."""
    return np.asarray(np.sqrt(t / np.longdouble(n_arms)) + 2)


def most_bursts(n_arms: int, t: Precise | int) -> Precise:
    """Return 8√(nt) + 1: fewer than that of the first t rounds of UMAB-W have bursts."""
    return np.asarray(MOST_BURSTS * np.sqrt(np.longdouble(n_arms) * t) + 1)


BALANCE = np.longdouble(SURE) ** 2 + 1
"""B²_t is at most this many times V_t in a policy with a guard."""


def least_floor(n_arms: int, t: Precise | int, share: Precise | float = LEAST_SHARE) -> Precise:
    """Return 1/F_t, and with another share γ_t the ρ_t below which the shadow of a guard lets no arm fall."""
    n = np.longdouble(n_arms)
    return np.asarray(1 / (n * n + 2 * np.sqrt((n - 1) * (1 + share * np.asarray(t, dtype=np.longdouble)))))


def jumps_of_shadow(policy: UMABS, n_arms: int, t: Precise | int) -> Precise:
    """Return ((8/3)cn + F_t)/γ°: how many times L⁻ all jumps may add to A of the shadow of a guard."""
    return np.asarray(jumps(policy, n_arms, 1 / least_floor(n_arms, t)) / LEAST_SHARE)


def clipping_of_shadow(n_arms: int, t: Precise | int) -> Precise:
    """Return (8/(3gK))F_t/γ°: how many times L⁻ the shadow clips at most, each loss times (1 − π)/ρ."""
    return np.asarray(2 * clipping() / (least_floor(n_arms, t) * LEAST_SHARE))


def growth_of_sharing(complexity: Precise, weighted: Precise, square: Precise) -> Precise:
    """Return 4(e − 2)V/(S̄λ) + 4y²/(S̄λ)²: by how much a² of UMAB-Sh may grow in a round that is not a jump.

    S̄λ is `complexity`, V is `weighted`, the square of the loss ÷ p' or its expectation, and y² is `square`.
    """
    return np.asarray(2 * FLOOR_SHARE * GAP * weighted / complexity + (FLOOR_SHARE / complexity) ** 2 * square)


def jump_of_sharing(complexity: Precise, size: Precise) -> Precise:
    """Return (1 + 1/(S̄λ)) · `size`: how large a of UMAB-Sh may be after a jump; `size` is a loss ÷ ρ."""
    return np.asarray((1 + 1 / complexity) * size)


def price_of_switches(n_arms: int, horizon: int, switches: int) -> np.longdouble:
    """Return (S + 1)ln(nT) + ln(T + 1): how many times a a sequence with S switches may be better than the mix."""
    price: np.longdouble = (switches + 1) * np.log(np.longdouble(n_arms) * horizon) + np.log1p(np.longdouble(horizon))
    return price
