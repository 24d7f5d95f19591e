"""UMAB-G and UMAB-G-A, for losses of unknown size and any sign."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from umab._support import checks
from umab._support.checks import LARGEST
from umab.algorithms.base import Policy
from umab.algorithms.limits import POSITIVE_SUMS, RATE, ROUND, SUMS, UNIT, Limits, too_much_rounding
from umab.maths import simplex
from umab.maths.numerics import FLOOR, add_square, fit_unit, importance_weighted, rescale, unit_of
from umab.maths.simplex import Vector, explore, log_barrier

Exploration = Literal["fixed", "anytime", "none"]
AdaptiveExploration = Literal["adaptive", "maintext"]

_ADAPTIVE, _FIXED, _ANYTIME, _NONE, _MAINTEXT = 0.0, 1.0, 2.0, 3.0, 4.0
_CODES = {"adaptive": _ADAPTIVE, "fixed": _FIXED, "anytime": _ANYTIME, "none": _NONE, "maintext": _MAINTEXT}


class State(NamedTuple):
    """Sums are kept in units of a power of two, see `umab.numerics.fit_unit`; `clip` is in units of the losses."""

    probabilities: Vector  # p'_t, with the extra exploration
    offsets: Vector  # c_t, where the extra exploration adds and where it takes away
    loss_sums: Vector  # Σ ℓ̂'_s, what FTRL minimizes
    estimate_sizes: Vector  # Σ |ℓ̂_s|, in the exploration rate of the main text
    clip: float  # C_t; a loss below 2C_t is clipped
    square_sum: float  # Σ ℓ'²_{s,k_s}, in the learning rate
    square_sum_error: float  # what rounding has added to square_sum
    exploration_cost: float  # Σ |⟨ℓ̂'_s, c_s⟩|, in the adaptive exploration rate
    unit: float  # multiplier from losses to the unit of the sums
    learning_rate: float  # η_t, per unit
    exploration_rate: float  # ρ_t
    round: float  # t


class Parameters(NamedTuple):
    """The parameters of both policies, as numbers."""

    rate: float  # the 1/4 of the learning rate
    exploration: float  # which exploration rate, by its code
    horizon: float  # T, in the fixed exploration rate


@dataclass(frozen=True, kw_only=True)
class ExtraExploration(Policy[State, Parameters]):
    """What UMAB-G and UMAB-G-A share: all but the rates of the extra exploration that they can have."""

    exploration: str
    rate: float = 0.25
    initial_scale: float = 1.0

    explorations: ClassVar[tuple[str, ...]]
    """The rates of exploration that the class can have."""
    elsewhere: ClassVar[str]
    """The class that has the others."""

    def __post_init__(self) -> None:
        """Check the parameters."""
        if checks.one_of("exploration", self.exploration, tuple(_CODES)) not in self.explorations:
            rule = f"exploration must be one of {', '.join(map(repr, self.explorations))} for {type(self).__name__}"
            raise ValueError(f"{rule}, but got exploration={self.exploration!r}; {self.elsewhere} has it")
        self._set(
            rate=checks.positive("rate", self.rate),
            initial_scale=checks.positive("initial_scale", self.initial_scale),
        )

    @property
    def guarantee(self) -> str:
        """Theorem 2, without the terms that do not grow with time."""
        return {
            "fixed": "√(n Σ‖ℓ_t‖²∞) + ℓ⁻∞ √(nT)",
            "adaptive": "√(n Σ‖ℓ_t‖²∞) + (1 + ℓ∞) √(n Σ‖ℓ_t‖∞)",
        }.get(self.exploration, "")

    @property
    def for_study(self) -> bool:
        """Whether it does not explore, or explores for ever."""
        return self.exploration in ("none", "maintext")

    def init(self, n_arms: int) -> State:
        """Return the uniform distribution, with nothing summed yet."""
        return State(
            probabilities=simplex.uniform(n_arms),
            offsets=[0.0] * n_arms,
            loss_sums=[0.0] * n_arms,
            estimate_sizes=[0.0] * n_arms,
            clip=-self.initial_scale,
            square_sum=0.0,
            square_sum_error=0.0,
            exploration_cost=0.0,
            unit=unit_of(self.initial_scale),
            learning_rate=min(self.rate / (self.initial_scale * unit_of(self.initial_scale)), LARGEST),
            exploration_rate=0.5 / n_arms**2 if self.exploration != "none" else 0.0,
            round=1.0,
        )

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters, with a code for the exploration."""
        return Parameters(rate=self.rate, exploration=_CODES[self.exploration], horizon=0.0)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Of the fields of `State`."""
        return {
            "offsets": Limits(-(2.0**53), 1.0),
            "loss_sums": SUMS,
            "estimate_sizes": POSITIVE_SUMS,
            "clip": Limits(-LARGEST, -(2.0**-1074)),
            "square_sum": POSITIVE_SUMS,
            "square_sum_error": SUMS,
            "exploration_cost": POSITIVE_SUMS,
            "unit": UNIT,
            "learning_rate": RATE,
            "exploration_rate": Limits(0.0, 0.5),
            "round": ROUND,
        }

    def fault(self, state: State, tickets: Sequence[object]) -> str | None:
        """Find a threshold beyond the unit, or nothing of the losses that the unit is for."""
        scaled = state.clip * state.unit
        if not (abs(scaled) < 1.0 and scaled * scaled + state.square_sum >= 2.0**-120):
            return f"clip must be above −1/unit, but got clip={state.clip!r} and unit={state.unit!r}"
        return too_much_rounding(state.square_sum, state.square_sum_error)

    def rates(self, state: State) -> dict[str, float]:
        """Return η and ρ, but not the ρ of the main text, which may grow."""
        rates = {"η": state.learning_rate * state.unit, "ρ": state.exploration_rate}
        return rates if self.exploration != "maintext" else {"η": rates["η"]}

    def solved(self, state: State) -> Vector:
        """Return p_t, which is p'_t without the extra exploration."""
        pairs = zip(state.probabilities, state.offsets, strict=True)
        return [max(p - state.exploration_rate * offset, FLOOR) for p, offset in pairs]

    @staticmethod
    def update(parameters: Parameters, state: State, arm: int, loss: float, probability: float) -> State:
        """Learn from one loss and solve for the next distribution."""
        n_arms = len(state.probabilities)
        n = float(n_arms)
        # The threshold stays in the units of the losses: in units of the sums it could vanish next to one huge loss,
        # and a threshold of 0 would clip every negative loss to 0 for ever.
        clipped = max(2.0 * state.clip, loss)
        clip = min(state.clip, clipped)
        unit, shrink = fit_unit(state.unit, clipped)
        rescale(state.loss_sums, shrink)
        scaled = clipped * unit
        square_sum, square_sum_error = add_square(state.square_sum, state.square_sum_error, shrink, scaled)
        estimate = importance_weighted(scaled, probability)
        state.loss_sums[arm] += estimate
        scaled_clip = clip * unit
        learning_rate = min(parameters.rate * math.sqrt(n / (n * scaled_clip * scaled_clip + square_sum)), LARGEST)
        likeliest = log_barrier(state.loss_sums, learning_rate, state.probabilities)

        t = state.round + 1.0
        exploration_cost = state.exploration_cost * shrink
        if parameters.exploration == _ADAPTIVE:
            exploration_cost += abs(estimate * state.offsets[arm])
            exploration = math.sqrt(2.0 * exploration_cost) / math.sqrt(unit)
        elif parameters.exploration == _FIXED:
            exploration = math.sqrt(n * parameters.horizon)
        elif parameters.exploration == _MAINTEXT:
            rescale(state.estimate_sizes, shrink)
            # A loss that is not clipped may have any size: it is limited so that sums of estimates cannot overflow.
            state.estimate_sizes[arm] += importance_weighted(min(abs(loss * unit), 2.0**90), probability)
            total = 0.0
            for k in range(n_arms):
                total += state.estimate_sizes[k] * abs(state.offsets[k])
            exploration = 2.0 * math.sqrt(total) / math.sqrt(unit)
        else:
            exploration = math.sqrt(n * t)
        exploration_rate = 0.0
        if parameters.exploration != _NONE:
            exploration_rate = 1.0 / (2.0 * n * n + exploration)
            explore(state.probabilities, likeliest, exploration_rate, state.offsets)
        return State(
            probabilities=state.probabilities,
            offsets=state.offsets,
            loss_sums=state.loss_sums,
            estimate_sizes=state.estimate_sizes,
            clip=clip,
            square_sum=square_sum,
            square_sum_error=square_sum_error,
            exploration_cost=exploration_cost,
            unit=unit,
            learning_rate=learning_rate,
            exploration_rate=exploration_rate,
            round=t,
        )


@dataclass(frozen=True, kw_only=True)
class UMABG(ExtraExploration):
    """UMAB-G, for losses of any size and sign; its exploration is fixed by the horizon.

    `UMABGA` needs no horizon. The published constants are cautious: with few rounds it stays near uniform, and
    ``rate=4``, with which the paper's figures were made, learns faster. Losses much smaller than `initial_scale` are
    learned slowly; if losses are never negative, use `UMABNN`.

    It follows the regularized leader with a log-barrier on clipped losses, and adds extra exploration:

        p_t = argmin_p Σ_{s<t} ⟨ℓ̂'_s, p⟩ + (1/η_t) Σ_k log(1/p_k),    p'_t = p_t + ρ_t c_t.

    The arm k is drawn from p'_t, in which every arm below ρ_t gets ρ_t more at the cost of the likeliest one. The loss
    is clipped from below, ℓ'_t = max(2C_t, ℓ_t), and estimated by ℓ̂'_{t,k} = ℓ'_t / p'_{t,k}, 0 for the other arms;

        C_{t+1} = min(C_t, ℓ'_t),    η_{t+1} = rate · √(n / (n C²_{t+1} + Σ_{s≤t} ℓ'²_s)).

    Parameters
    ----------
    exploration
        The rate ρ_{t+1}: ``"fixed"``, 1/(2n² + √(nT)); ``"anytime"``, the same with t + 1 in place of T, which needs
        no horizon; for study, ``"none"``, 0.
    rate
        The constant of the learning rate; 1/4 in the paper's text.
    initial_scale
        |C₁|, in the units of the losses; 1 in the paper.
    horizon
        T, the number of rounds, which the fixed exploration needs. `umab.simulate` fills it in.

    Guarantee
    ---------
    Expected regret, up to logarithms and against an oblivious adversary, with ℓ∞ the size of the largest loss and ℓ⁻∞
    that of the most negative one: (1 + ℓ∞)n² + sqrt(n Σ‖ℓ_t‖²∞) + ℓ⁻∞ sqrt(nT). The 1 is there because C₁ = −1 has the
    dimension of a loss, so losses much smaller than `initial_scale` are learned slowly: UMAB-G is not scale-free. There
    is no published bound for anytime exploration, or without exploration.

    With late feedback the estimate uses the probability at the time of the draw. No bound is published for that case.

    References
    ----------
    Chen and Zhang, Improved Algorithms for Adversarial Bandits with Unbounded Losses, Algorithm 2, Theorem 2.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABG(horizon=1000), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.update(1, loss=-1.0)
    >>> learner.probabilities().round(4)
    array([0.2888, 0.3935, 0.3177])
    """

    exploration: Exploration = "fixed"
    horizon: int | None = None

    explorations: ClassVar[tuple[str, ...]] = get_args(Exploration)
    elsewhere: ClassVar[str] = "UMABGA"

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        self._set(horizon=checks.optional_horizon(self.horizon))

    @property
    def needs_horizon(self) -> bool:
        """Whether the exploration is fixed and the horizon still missing."""
        return self.exploration == "fixed" and self.horizon is None

    @property
    def horizon_advice(self) -> str:
        """Name the policy that needs none."""
        return "pass the number of rounds, as in UMABG(horizon=1000), or use UMABGA() (umab-g-a), which needs none"

    def parameters_for(self, n_arms: int) -> Parameters:
        """Return the parameters, with the horizon."""
        return super().parameters_for(n_arms)._replace(horizon=float(self.horizon or 0))


@dataclass(frozen=True, kw_only=True)
class UMABGA(ExtraExploration):
    """UMAB-G-A, for losses of any size and sign; its exploration adapts to what it costs.

    It is `UMABG` with another exploration rate, which needs no horizon.

    Parameters
    ----------
    exploration
        The rate ρ_{t+1}: ``"adaptive"``, 1/(2n² + √(2 Σ_{s≤t} |⟨ℓ̂'_s, c_s⟩|)), as in the paper's appendix. For study
        there is ``"maintext"``, 1/(2n² + 2√(Σ_{s≤t} |⟨ℓ̂_s, c_t⟩|)) with estimates that are not clipped, as the paper's
        main text prints it. Where no arm is explored, c_t is 0 and so is the sum, so that it explores for ever.
    rate
        The constant of the learning rate; 1/4 in the paper's text.
    initial_scale
        |C₁|, in the units of the losses; 1 in the paper.

    Guarantee
    ---------
    Expected regret, up to logarithms and against an oblivious adversary, with ℓ∞ the size of the largest loss:
    (1 + ℓ∞)n² + sqrt(n Σ‖ℓ_t‖²∞) + (1 + ℓ∞) sqrt(n Σ‖ℓ_t‖∞). It is not scale-free, as `UMABG`.

    With late feedback the estimate uses the probability at the time of the draw; the exploration rate uses the offset c
    at the time of the update. No bound is published for that case.

    References
    ----------
    Chen and Zhang, Improved Algorithms for Adversarial Bandits with Unbounded Losses, Algorithm 3, Theorem 2.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.UMABGA(), arms=3)
    >>> learner.update(0, loss=0.5)
    >>> learner.update(1, loss=-1.0)
    >>> learner.probabilities().round(4)
    array([0.2888, 0.3935, 0.3177])
    """

    exploration: AdaptiveExploration = "adaptive"

    explorations: ClassVar[tuple[str, ...]] = get_args(AdaptiveExploration)
    elsewhere: ClassVar[str] = "UMABG"
