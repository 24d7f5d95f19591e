"""What tables of the suite are made of: their entries, their random streams, and laws that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from umab.tables.losses import Losses, Table

Half: TypeAlias = Literal["development", "validation"]
World: TypeAlias = Literal["stationary", "changing"]
Rng: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Entry:
    """A table of the suite before it is made."""

    name: str
    half: Half
    about: str
    """What happens in it, in a few words."""
    losses: Callable[[bool | None, int], Losses]
    """The table, for the `real` and the `seed` of `suite`."""
    world: World = "stationary"
    """Whether the law of the rows changes with time.

    It is ``"stationary"`` if it does not, up to a scale and an offset that all arms share: so where the scale grows,
    and where all stores have the same seasons. Stocks are ``"changing"``, because each moves with its own price; and
    so are learners that converge at different rates, and losses that are made against a run.
    """


def stream(name: str, seed: int) -> Rng:
    """Return the random stream of the table of this name; another seed gives another one."""
    return np.random.default_rng(np.random.SeedSequence([2026, *name.encode()], spawn_key=(seed,) if seed else ()))


def drawn_losses(name: str, about: str, table: Table, seed: int) -> Losses:
    """Return a table that was drawn as losses that say what they are."""
    return Losses.of(
        table,
        arms=[f"arm {k + 1}" for k in range(table.shape[1])],
        source=f"{about}; {name} of the suite",
        provenance={"dataset": "suite", "stand_in": False, "parameters": {"name": name, "seed": seed}},
    )


def normal(rng: Rng, n_rounds: int, means: list[float] | Table, sd: float = 1.0) -> Table:
    """Return normal losses; the means are those of all rounds, or of each."""
    centre = np.asarray(means, dtype=np.float64)
    return centre + sd * rng.standard_normal((n_rounds, centre.shape[-1]))


def by_turns(n_rounds: int, starts: list[int], means: list[list[float]] | Table) -> Table:
    """Return the means of each round, which are given for each turn."""
    return np.array(means)[np.searchsorted(starts, np.arange(n_rounds), side="right") - 1]


def walks(rng: Rng, n_rounds: int, n_arms: int, step: float) -> Table:
    """Return means that walk at random, in normal steps."""
    return np.cumsum(step * rng.standard_normal((n_rounds, n_arms)), axis=0)


def waves(n_rounds: int, n_arms: int, n_periods: float) -> Table:
    """Return means that go up and down between -1 and 1, one arm after the other."""
    phase = np.arange(n_arms) / n_arms
    table: Table = np.sin(2.0 * np.pi * (n_periods * np.arange(n_rounds)[:, None] / n_rounds - phase))
    return table
