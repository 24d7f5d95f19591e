"""Running experiments: every policy on the same trials, then the verdicts."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from umab._support import checks
from umab._support.progress import Progress
from umab.algorithms.base import Policy
from umab.algorithms.registry import recommended
from umab.algorithms.uniform import Uniform
from umab.engine.simulate import check_range, simulate
from umab.engine.work import Device, Keep
from umab.research.experiments.claims import Claim, Evidence, Regrets, Verdict, judge, together
from umab.research.experiments.experiment import Experiment, Setting
from umab.results.among import costs_of
from umab.results.regret import mean_and_sd
from umab.results.result import Result
from umab.tables.losses import Losses

_DRAWS_KEPT = 4 * 10**8
"""Up to how many rounds, over all trials of all policies, the arms drawn are kept, at one byte each or more."""


class Summary(NamedTuple):
    """The mean of final regrets, with its error."""

    mean: float
    sd: float
    se: float
    n_trials: int

    @classmethod
    def of(cls, final: Regrets) -> Summary:
        """Return the summary of the final regrets of all trials."""
        mean, sd = mean_and_sd(final)
        return cls(mean, sd, sd / math.sqrt(len(final)), len(final))


class Curve(NamedTuple):
    """One policy in one setting of an experiment."""

    policy: Policy
    result: Result
    """With expected regret."""
    sampled: Summary | None
    """The final sampled regret; None if there were too many arms to keep."""

    @property
    def expected(self) -> Summary:
        """The final expected regret."""
        result = self.result
        return Summary(float(result.mean[-1]), float(result.sd[-1]), float(result.se[-1]), result.n_trials)

    @property
    def ranked(self) -> bool:
        """Whether the policy is ranked: one that sees the losses of all arms is not."""
        return not self.policy.full_information


class Standing(NamedTuple):
    """Where a policy stands among those that are ranked."""

    best: bool
    """Whether it has the smallest mean of all."""
    tied: bool
    """Whether it cannot be distinguished from the best one."""


class Judged(NamedTuple):
    """A claim with the evidence on it."""

    claim: Claim
    evidence: Evidence

    @property
    def verdict(self) -> Verdict:
        """Whether it holds."""
        return self.evidence.verdict


@dataclass(frozen=True)
class Outcome:
    """The outcome of one setting of an experiment."""

    experiment: Experiment
    setting: Setting
    losses: Losses
    curves: Mapping[str, Curve]
    judged: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims of the setting together."""
        return together([each.verdict for each in self.judged])

    @functools.cached_property
    def standings(self) -> dict[str, Standing]:
        """The standing of each ranked policy, by name.

        A policy is tied if its paired difference from the best cannot be distinguished from 0, by the rule that judges
        claims.
        """
        ranked = {name: curve.result for name, curve in self.curves.items() if curve.ranked}
        if not ranked:
            return {}
        best = min(ranked, key=lambda name: ranked[name].mean[-1])
        others = [name for name in ranked if name != best]
        evidence = judge([(ranked[name].final_regret, ranked[best].final_regret) for name in others])
        tied = {
            name: each.identical or each.verdict == "undecided" for name, each in zip(others, evidence, strict=True)
        }
        return {name: Standing(best=name == best, tied=tied.get(name, False)) for name in ranked}

    @property
    def stand_in(self) -> bool:
        """Whether the losses stand in for a public table that is not available."""
        return bool(self.losses.provenance.get("stand_in"))

    @property
    def identical(self) -> list[list[str]]:
        """The names of policies with the same regret in every trial, in groups of two or more."""
        groups: dict[bytes, list[str]] = {}
        for name, curve in self.curves.items():
            groups.setdefault(curve.result.final_regret.tobytes(), []).append(name)
        return [group for group in groups.values() if len(group) > 1]

    @property
    def by_regret(self) -> list[str]:
        """The names of all policies, the smallest mean first."""
        return sorted(self.curves, key=lambda name: self.curves[name].expected.mean)

    @property
    def drawn(self) -> list[str]:
        """The names of the policies that figures draw, unless others are switched on.

        These are the policies of the setting, or the best of them and choosing at random; and the recommended policy.
        """
        own = [name for name in self.by_regret if name in self.setting.policies][: self.setting.n_drawn]
        return [
            name
            for name, curve in self.curves.items()
            if name in own or isinstance(curve.policy, Uniform) or curve.policy == recommended()
        ]

    @property
    def best(self) -> str:
        """The name of the policy with the smallest mean, among those that are ranked, if there are any."""
        return next(name for name in self.by_regret if name in (self.standings or self.curves))


@dataclass(frozen=True)
class Run:
    """The outcomes of experiments that were run together, setting by setting."""

    outcomes: tuple[Outcome, ...]

    @property
    def experiments(self) -> dict[str, list[Outcome]]:
        """The outcomes by the id of their experiment."""
        grouped: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            grouped.setdefault(outcome.experiment.id, []).append(outcome)
        return grouped

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on all statements."""
        return [judged.verdict for outcome in self.outcomes for judged in outcome.judged]

    def n_judged(self, setting: str) -> int:
        """Return how many statements were judged together in the settings of this name."""
        return sum(len(outcome.judged) for outcome in self.outcomes if outcome.setting.name == setting)

    @property
    def settings(self) -> list[str]:
        """The names of the settings, in the order in which they first appear."""
        return list(dict.fromkeys(outcome.setting.name for outcome in self.outcomes))


def run(
    experiments: Iterable[Experiment],
    *,
    n_trials: int | None = None,
    seed: int | None = None,
    real: bool | None = None,
    data_seed: int | None = None,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Run:
    """Run all settings of experiments and judge their claims.

    Parameters
    ----------
    experiments
        Experiments with different ids.
    n_trials, seed
        To replace the numbers in the experiments.
    real
        Which data: True for real tables only, False for stand-ins, None for the real tables if they are available.
    data_seed
        To replace the seed of data sets that are drawn at random.
    device
        As for `umab.simulate`.
    n_threads, progress
        As for `umab.simulate`. No bit of the outcome depends on them.
    """
    wanted = [(each, setting, setting.losses(real, data_seed)) for each in experiments for setting in each.settings]
    if not wanted:
        raise ValueError("there must be at least one experiment to run, but got none")
    return run_on(wanted, n_trials=n_trials, seed=seed, device=device, n_threads=n_threads, progress=progress)


def run_on(
    wanted: Sequence[tuple[Experiment, Setting, Losses]],
    *,
    n_trials: int | None = None,
    seed: int | None = None,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Run:
    """Run settings of experiments on given losses, and judge their claims."""
    if n_trials is not None:
        checks.whole("n_trials", n_trials, least=1)
    if seed is not None:
        checks.whole("seed", seed, least=0)
    chosen = [setting.curves(losses) for _, setting, losses in wanted]
    for (_, _, losses), each in zip(wanted, chosen, strict=True):
        for policy in each.values():
            check_range(policy, losses)  # before anything runs
    done: dict[object, Curve] = {}  # settings often share losses, and then most policies
    drawn: list[dict[str, Curve]] = []
    plan = [
        (experiment.n_trials if n_trials is None else n_trials, experiment.seed if seed is None else seed)
        for experiment, _, _ in wanted
    ]
    draws = sum(
        trials * len(each) * losses.n_rounds
        for (trials, _), each, (_, _, losses) in zip(plan, chosen, wanted, strict=True)
    )
    keep: Keep = "arms" if draws <= _DRAWS_KEPT else "summary"
    with Progress(draws, "running", progress, unit="rounds") as bar:
        for (_, _, losses), (trials, start), curves in zip(wanted, plan, chosen, strict=True):
            costs = costs_of(losses)
            drawn.append({})
            for name, policy in curves.items():
                key = (policy.for_horizon(losses.n_rounds), losses.digest, losses.arms, losses.source, trials, start)
                if key in done:
                    bar.skip(trials * losses.n_rounds)
                else:
                    result = simulate(
                        policy,
                        losses,
                        n_trials=trials,
                        seed=start,
                        expected=True,
                        keep=keep,
                        device=device,
                        n_threads=n_threads,
                        progress=bar,
                    )
                    sampled = Summary.of(costs.final_regret(result.arms)) if keep == "arms" else None
                    done[key] = Curve(policy, result, sampled)
                drawn[-1][name] = done[key]._replace(policy=policy)
    judged = _judge_all([setting for _, setting, _ in wanted], drawn)
    outcomes = tuple(
        Outcome(experiment, setting, losses, curves, verdicts)
        for (experiment, setting, losses), curves, verdicts in zip(wanted, drawn, judged, strict=True)
    )
    return Run(outcomes)


def _judge_all(settings: Sequence[Setting], curves: Sequence[Mapping[str, Curve]]) -> list[tuple[Judged, ...]]:
    """Return the verdicts, setting by setting; all claims in settings of the same name are judged together."""
    verdicts: list[list[Judged]] = [[] for _ in settings]
    for name in dict.fromkeys(setting.name for setting in settings):
        claims = [
            (at, claim) for at, setting in enumerate(settings) if setting.name == name for claim in setting.claims
        ]
        finals = [
            (curves[at][claim.smaller].result.final_regret, curves[at][claim.larger].result.final_regret)
            for at, claim in claims
        ]
        for (at, claim), evidence in zip(claims, judge(finals), strict=True):
            verdicts[at].append(Judged(claim, evidence))
    return [tuple(each) for each in verdicts]
