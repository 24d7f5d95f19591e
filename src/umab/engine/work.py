"""What the trials of a simulation share, whatever runs them, and how results are made of what they leave."""

from __future__ import annotations

import platform
import threading
from concurrent.futures import CancelledError
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support.progress import Progress
from umab._version import __version__
from umab.algorithms.base import Policy
from umab.engine.compiled import compiler_version
from umab.engine.delays import Delays
from umab.engine.loops import Kind, Table
from umab.results.among import CostsAmong
from umab.results.regret import Costs
from umab.results.result import Result
from umab.tables.advice import Advice
from umab.tables.losses import Losses

Curve = npt.NDArray[np.float64]
Keep = Literal["all", "arms", "summary"]
Device = Literal["cpu", "gpu"]


class Work(NamedTuple):
    """What all policies in a simulation share."""

    losses: Losses
    advice: Advice | None
    delays: Delays | None
    costs: Costs | CostsAmong
    n_trials: int
    seed: int
    expected: bool
    keep: Keep
    bar: Progress
    stop: threading.Event

    @property
    def kind(self) -> Kind:
        """What kind of loop plays the trials."""
        if self.advice is not None:
            return "arms" if self.advice.is_sure else "rows"
        if isinstance(self.costs, CostsAmong):
            return "among"
        return "plain" if self.delays is None else "late"

    def go_on(self) -> None:
        """Raise a CancelledError if no more rounds should be played."""
        if self.stop.is_set() or self.bar.stopped.is_set():
            raise CancelledError

    def table(self) -> Table:
        """Return what the loop plays on."""
        return Table.of(
            self.losses.table,
            self.costs.table,
            self.costs.against if isinstance(self.costs, CostsAmong) else self.costs.best,
            there=self.costs.eligible if isinstance(self.costs, CostsAmong) else None,
            advice=None if self.advice is None else self.advice.table,
            expected=self.expected,
        )


class Rows(NamedTuple):
    """Arrays for what is kept of the trials; each block of trials fills its own rows."""

    final: Curve
    regret: Curve | None
    arms: npt.NDArray[Any] | None
    coins: npt.NDArray[np.int8] | None = None

    @classmethod
    def of(cls, work: Work, policy: Policy) -> Rows:
        """Return the arrays for a policy, to be filled in."""
        n_trials, n_rounds, n_arms = work.n_trials, work.losses.n_rounds, work.losses.n_arms
        shape, kind = (n_trials, n_rounds), np.min_scalar_type(n_arms - 1)
        return cls(
            final=np.empty(n_trials),
            # The sampled regret follows from the arms; the expected regret does not.
            regret=np.empty(shape) if work.expected and work.keep == "all" else None,
            arms=np.empty(shape, dtype=kind) if work.keep != "summary" else None,
            coins=np.empty(shape, dtype=np.int8) if work.keep != "summary" and policy.coin is not None else None,
        )


def merge(mean: Curve, squares: Curve, other: Curve, others: Curve, done: int, new: int) -> None:
    """Merge means of `new` trials, and sums of squared deviations, into those of `done` (Chan, Golub, LeVeque 1979)."""
    gap = other - mean
    mean += gap * (new / (done + new))
    squares += others + gap * gap * (done * new / (done + new))


def result_of(policy: Policy, work: Work, rows: Rows, mean: Curve, squares: Curve, device: str = "") -> Result:
    """Return the result of a policy.

    `mean` and `squares` are the mean of each round and the sum of squared deviations from it, which are overwritten, as
    the rows are; `device` describes it, if it is no processor.
    """
    n_trials, n_rounds = work.n_trials, work.losses.n_rounds
    squares /= n_trials - 1 if n_trials > 1 else np.nan
    sd = np.sqrt(squares, out=squares)
    for curve in (mean, sd, rows.final, rows.regret):
        if curve is not None:
            work.costs.in_losses(curve)
    provenance = {
        "policy": policy.name,
        "parameters": policy.for_horizon(n_rounds).parameters(),
        "n_trials": n_trials,
        "seed": work.seed,
        "expected": work.expected,
        "delays": "none" if work.delays is None else work.delays.description,
        "losses": {
            "n_rounds": n_rounds,
            "arms": list(work.losses.arms),
            "source": work.losses.source,
            "sha256": work.losses.digest,
            "provenance": dict(work.losses.provenance),
            **({"n_away": work.losses.n_away} if work.losses.n_away else {}),
        },
        "versions": versions(),
        **({"advice": {"experts": work.advice.n_experts, "sha256": work.advice.digest}} if work.advice else {}),
        **({"device": device} if device else {}),
    }
    losses = work.losses if rows.arms is not None else None
    advice = work.advice if rows.arms is not None else None
    return Result(policy.name, mean, sd, rows.final, provenance, losses, rows.arms, rows.regret, advice, rows.coins)


def versions() -> dict[str, str]:
    """Return the versions on which the bits of a result may depend."""
    return {
        "umab": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": compiler_version(),
    }
