"""UMAB-W along given arms, in extended precision: the instances of UMAB-S in a run, and the arms that get attention.

When a fresh instance starts, when the old one is put back and which arms have bursts is taken from the policy itself.
The proof holds for any such decisions that are made before the draw and keep two limits, and the statements check these
limits. Everything else is computed again from its definition.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_w import UMABW
from umab.algorithms.watch import MOST_ATTENTION
from umab.theory.barrier import centred, learned, least_probability, log_barrier
from umab.theory.path import Precise, Trajectory, keep, raised, room


class Instance(NamedTuple):
    """One UMAB-S of a run of UMAB-W."""

    run: int
    rounds: npt.NDArray[np.intp]
    """The rounds of the run in which it plays, counted from 0."""
    path: Trajectory
    """What it does in them."""


@dataclass(frozen=True, eq=False)
class WatchedTrajectory(Trajectory):
    """Runs of UMAB-W. In every round, p_t, η_t, ρ_t and the sums are those of the instance that plays."""

    instance: npt.NDArray[np.intp]
    """The number of the instance that plays, in the order of their starts; runs × (T + 1)."""
    aroused: npt.NDArray[np.bool_]
    """Which arms have bursts; runs × (T + 1) × n."""
    last_sums: Precise
    """Σ ℓ̂_s of each instance at the end; runs × instances × n."""
    last_inverse_rate: Precise
    """1/η of each instance at the end; runs × instances."""

    @property
    def bursts(self) -> npt.NDArray[np.bool_]:
        """Whether there is a burst, runs × T."""
        return np.asarray(self.aroused[:, :-1].any(axis=2))

    @property
    def floors(self) -> Precise:
        """f_t, below which no arm falls; runs × T × n."""
        return _floors(self.exploration[:, :-1, None], self.aroused[:, :-1])

    @functools.cached_property
    def instances(self) -> tuple[Instance, ...]:
        """The instances of all runs that play in a round."""
        found = []
        for run, playing in enumerate(self.instance[:, :-1]):
            for number in np.unique(playing):
                rounds = np.flatnonzero(playing == number)
                found.append(Instance(run, rounds, self._of_instance(run, int(number), rounds)))
        return tuple(found)

    def _of_instance(self, run: int, number: int, rounds: npt.NDArray[np.intp]) -> Trajectory:
        """Return what an instance does in its rounds, and what follows the last of them."""
        sums, inverse_rate = self.last_sums[run, number], self.last_inverse_rate[run, number]
        p = log_barrier(sums[None], inverse_rate[None])[0]
        rho = least_probability(self.n_arms, len(rounds) + 1)
        drawn_from = raised(p[None], rho)[0]

        def with_last(values: Precise, last: Precise) -> Precise:
            return np.concatenate([values[run, rounds], last[None]])[None]

        return Trajectory(
            policy=UMABS(),
            losses=self.losses[run, rounds][None],
            arms=self.arms[run, rounds][None],
            p=with_last(self.p, p),
            drawn_from=with_last(self.drawn_from, drawn_from),
            offsets=with_last(self.offsets, (drawn_from - p) / rho),
            inverse_rate=with_last(self.inverse_rate, inverse_rate),
            exploration=with_last(self.exploration, rho),
            clip=with_last(self.clip, self.clip[run, -1]),
            sums=with_last(self.sums, sums),
            clipped=self.clipped[run, rounds][None],
            stability=self.stability[run, rounds][None],
            charge=self.charge[run, rounds][None],
        )


def follow_watching(policy: UMABW, table: Precise, arms: npt.NDArray[np.intp]) -> WatchedTrajectory:
    """Return what UMAB-W does on these losses when it draws these arms."""
    n_runs, n_rounds, n_arms = table.shape
    instance, aroused = _decisions(policy, table, arms)
    losses = centred(table, arms, local=policy.centre == "level")
    run, kept = np.arange(n_runs), room(table)
    n_instances = int(instance.max()) + 1
    sums = np.zeros((n_runs, n_instances, n_arms), dtype=np.longdouble)
    paid = np.zeros((n_runs, n_instances), dtype=np.longdouble)
    clock = np.ones((n_runs, n_instances))
    times = np.longdouble(UMABS().rate) * n_arms
    for t in range(n_rounds + 1):
        playing = run, instance[:, t]
        inverse_rate = paid[playing] / times
        p = log_barrier(sums[playing], inverse_rate)
        rho = least_probability(n_arms, clock[playing])
        drawn_from = raised(p, _floors(rho[:, None], aroused[:, t]))
        keep(kept, t, p=p, drawn_from=drawn_from, offsets=(drawn_from - p) / rho[:, None])
        keep(kept, t, sums=sums[playing], inverse_rate=inverse_rate, exploration=rho)
        if t == n_rounds:
            break
        arm = arms[:, t]
        step = learned(p, drawn_from, sums[playing], inverse_rate, arm, losses[run, t, arm], times)
        keep(kept, t, clipped=step.clipped, stability=step.cost, charge=step.charge)
        sums[playing] = step.sums
        paid[playing] += step.cost + step.charge
        clock[playing] += 1
    return WatchedTrajectory(
        policy=policy,
        losses=losses,
        arms=arms,
        instance=instance,
        aroused=aroused,
        last_sums=sums,
        last_inverse_rate=paid / times,
        **kept,
    )


def _floors(rho: Precise, aroused: npt.NDArray[np.bool_]) -> Precise:
    """Return ρ for every arm, and max(ρ, (1/3)/max(m, 2)) for the m arms that have bursts; the last axis is arms."""
    n_aroused = np.maximum(aroused.sum(axis=-1, keepdims=True), 2)
    return np.where(aroused, np.maximum(rho, np.longdouble(MOST_ATTENTION) / n_aroused), rho)


def _decisions(
    policy: UMABW, table: Precise, arms: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return which instance plays, runs × (T + 1), and which arms have bursts, runs × (T + 1) × n."""
    n_runs, n_rounds, n_arms = table.shape
    instance = np.zeros((n_runs, n_rounds + 1), dtype=np.intp)
    aroused = np.zeros((n_runs, n_rounds + 1, n_arms), dtype=np.bool_)
    parameters = policy.parameters_for(n_arms)
    for run in range(n_runs):
        state, playing, waiting, n_instances = policy.init(n_arms), 0, 0, 1
        for t, arm in enumerate(arms[run].tolist()):
            before = state
            loss = float(table[run, t, arm])
            state = policy.update(parameters, state, arm, loss, state.probabilities[arm])
            if state.n_changes > before.n_changes:
                playing, waiting, n_instances = n_instances, playing, n_instances + 1
            elif state.former < before.former and policy.changes(state)[-1].kept is False:
                playing = waiting
            instance[run, t + 1] = playing
            if state.n_bursts > before.n_bursts:
                aroused[run, t + 1] = [is_active for _, _, is_active in state.attention]
    return instance, aroused
