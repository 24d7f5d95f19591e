"""Which policy would have done best on a loss table: the comparison behind `umab compare` and `umab.compare`."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, Unpack

from umab._support import checks, display
from umab._support.extras import extra
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy, can_be_named
from umab.algorithms.registry import recommended
from umab.engine.work import Device
from umab.results.plotting import Chart
from umab.results.result import Result
from umab.results.tracking import best_sequence
from umab.tables.losses import Losses, refuse_away
from umab.tables.missing import Missing
from umab.tables.reading import ENDINGS

# Modules of research need scipy, which an extra brings, so functions import them: `help(umab)` must not need it.
if TYPE_CHECKING:
    import pandas
    import polars

    from umab.research.experiments.runner import Outcome, Run

_NO_NAME = "this table"
"""What a table without a file is called."""


class TableOptions(TypedDict, total=False):
    """How to read the table, as `umab.Losses.of` takes it."""

    arms: Iterable[str]
    reward: bool | str
    drop: list[str] | tuple[str, ...]
    suspicious: Literal["refuse", "allow"]
    missing: Missing
    decimal: Literal[".", ","]
    round: str | None
    arm: str | None
    loss: str | None
    eligible: object


class FinalRegret(NamedTuple):
    """The final expected regret of a policy, the pseudo-regret, over all trials."""

    policy: str
    """The name of the policy."""
    mean: float
    """The mean over the trials."""
    se: float
    """The standard error of the mean."""
    standing: str
    """best, tie (it cannot be distinguished from the best), sees all arms (it is not ranked), or nothing."""


@dataclass(eq=False)
class Comparison:
    """What `umab.compare` found; print it to see what the command `umab compare` prints, and a notebook shows it.

    Attributes
    ----------
    losses
        The loss table.
    results
        The result of each policy, by its name, with expected regret: ``umab.plot(comparison.results)`` draws them.
    best
        The name of the policy with the smallest mean regret.
    regret
        The final expected regret (pseudo-regret) of each policy, by its name, the smallest mean first: policy, mean,
        standard error and standing. `to_pandas` and `to_polars` make a frame of it.
    summary
        The answer in one sentence: what the recommended policy would have cost beside the best single arm.
    answer
        Which policy would have done best, by how much, and how certain that is.
    code
        The line of Python to begin with.
    page
        The path of the page that was written last; None if there is none.
    """

    page: Path | None
    _run: Run
    _name: str
    _command: str
    _switches: int | None

    @property
    def _outcome(self) -> Outcome:
        return self._run.outcomes[0]

    @property
    def losses(self) -> Losses:
        """The loss table."""
        return self._outcome.losses

    @property
    def results(self) -> dict[str, Result]:
        """The result of each policy, by its name."""
        return {name: curve.result for name, curve in self._outcome.curves.items()}

    @property
    def best(self) -> str:
        """The name of the policy with the smallest mean regret."""
        return self._outcome.best

    @functools.cached_property
    def regret(self) -> dict[str, FinalRegret]:
        """The final expected regret of each policy, the smallest mean first."""
        from umab.research.report import words

        outcome = self._outcome
        expected = {name: outcome.curves[name].expected for name in outcome.by_regret}
        return {
            name: FinalRegret(name, each.mean, each.se, words.standing(outcome, name))
            for name, each in expected.items()
        }

    @functools.cached_property
    def summary(self) -> str:
        """The answer in one sentence."""
        from umab.research.report.in_short import in_short

        return in_short(self._outcome)

    @functools.cached_property
    def answer(self) -> str:
        """Which policy would have done best, by how much, and how certain that is."""
        from umab.research.report import words

        return words.answer(self._outcome)

    @functools.cached_property
    def code(self) -> str:
        """The line of code to begin with: the recommended policy, unless another one did better for certain."""
        from umab.research.report import words

        losses, outcome = self.losses, self._outcome
        level = [name for name, where in outcome.standings.items() if where.best or where.tied]
        if any(outcome.curves[name].policy == recommended() for name in level):
            shown = "umab.recommended()"
            why = "no policy has a smaller expected regret here, as far as these trials can tell"
        else:
            best = outcome.curves[outcome.best].policy.for_horizon(losses.n_rounds)
            # A policy that is not registered has no name to give to umab, so the code shows the object itself.
            shown = f'"{best.name}"' if can_be_named(best) else repr(best)
            why = "the policy with the smallest expected regret here"
            if losses.n_arms > 10:
                shown = f"umab.policy({shown})"
        arms = f", arms={list(losses.arms)}{', maximize=True' if words.are_rewards(losses) else ''}"
        return f"# {why}\n{f'learner = umab.Learner({shown}{arms})' if losses.n_arms <= 10 else shown}"

    def __repr__(self) -> str:
        """Return what the command `umab compare` prints."""
        from umab.research.report import words

        which = _WHICH_IF_AWAY if self.losses.n_away else _WHICH
        which += "" if self._switches is None else f"\n\n{_sequence(self.losses, self._switches)}"
        regrets = words.regrets(self._run, self._switches)
        page = "" if self.page is None else f"\n\n{self.page}"
        return f"{self.summary}\n\n{words.facts(self.losses)}\n\n{regrets}\n{which}\n\n{self.answer}{page}"

    def _repr_html_(self) -> str:
        from umab.research.report import words

        details, columns = [self.answer, words.facts(self.losses)], {}
        if (allowed := self._switches) is not None:
            details.append(_sequence(self.losses, allowed))
            columns[f"against {words.switches(allowed)}"] = words.tracking(self._outcome, allowed)
        rows = {
            name: {
                "final expected regret": words.measured(each.mean, each.se),
                **{head: column[name] for head, column in columns.items()},
                "": each.standing,
            }
            for name, each in self.regret.items()
        }
        return display.comparison_html(self.summary, rows, details, self.code)

    def plot(self) -> Chart:
        """Return the chart of the page: mean expected regrets over the rounds; needs the extra ``[report]``."""
        from umab.research.report.charts import regret_chart

        return Chart(regret_chart(self._outcome, interactive=False))

    def to_pandas(self) -> pandas.DataFrame:
        """Return `regret` as a pandas frame: policy, mean, se, standing."""
        with extra("notebook", "to_pandas"):
            import pandas
        return pandas.DataFrame(self._columns())

    def to_polars(self) -> polars.DataFrame:
        """Return `regret` as a polars frame: policy, mean, se, standing."""
        with extra("data", "to_polars"):
            import polars
        return polars.DataFrame(self._columns())

    def _columns(self) -> dict[str, list[object]]:
        rows = self.regret.values()
        return {name: [getattr(each, name) for each in rows] for name in FinalRegret._fields}

    def write(self, folder: str | os.PathLike[str], *, certify: bool = False, progress: bool | None = None) -> Path:
        """Write the page that `umab compare` writes, with figures and raw results; needs the extra ``[report]``.

        Parameters
        ----------
        folder
            Where to write it; it is made if necessary. A report in it is replaced; a folder with anything else is
            refused.
        certify
            Also check the paper's statements along five runs of each policy, as `umab.theory.certify` does.
        progress
            As for `umab.simulate`.

        Returns
        -------
        The path of the page.
        """
        _need_report()
        from umab.research.report import run_page
        from umab.research.report.shell import Head

        title = f"Which policy would have done best on {self._name}?"
        head = Head(title=title, lede=f"{self.summary} {self.answer}", command=self._command, code=self.code)
        certificates = run_page.certificates_of(self._run) if certify else None
        self.page = run_page.write(self._run, folder, head, certificates=certificates, progress=progress)
        return self.page


def compare(
    data: object,
    *,
    policies: Policy | str | Iterable[Policy | str] | None = None,
    n_trials: int = 500,
    seed: int = 0,
    switches: int | None = None,
    report: str | os.PathLike[str] | None = None,
    certify: bool = False,
    device: Device = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
    **table: Unpack[TableOptions],
) -> Comparison:
    """Say which policy would have done best on a loss table, as the command `umab compare` does.

    Each policy runs many times on the table, all with the same random numbers, and is ranked by its expected regret
    (pseudo-regret). Needs the extra ``[data]``, and ``[report]`` to write a page.

    Parameters
    ----------
    data
        Rounds × arms: a pandas or polars frame, an array, `Losses`, or the path of a CSV or Parquet file.
    policies
        Policies or their names. None for all that need no range and accept the losses.
    n_trials, seed
        The number of trials of each policy, and the seed of their draws, as for `umab.simulate`.
    switches
        Also print the regret against the best sequence of arms that changes at most so many times, and where it
        changes (see `Result.tracking_regret`).
    report
        The folder to write the page to, with figures and raw results. None for no page; `Comparison.write` writes it
        later.
    certify
        Whether the page also shows whether the paper's statements hold along five runs of each policy.
    device, n_threads, progress
        As for `umab.simulate`.
    **table
        How to read the table, as for `Losses.of`: ``reward=True`` if higher is better, ``drop=["date"]``,
        ``missing="away"`` and so on.

    Examples
    --------
    >>> import numpy as np, umab
    >>> losses = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(500, 3))
    >>> found = umab.compare(losses, policies=["recommended", "uniform"], n_trials=20, arms=["a", "b", "c"])
    >>> found.best, round(found.regret["uniform"].mean)
    ('recommended', 702)
    >>> print(found.code)
    # no policy has a smaller expected regret here, as far as these trials can tell
    learner = umab.Learner(umab.recommended(), arms=['a', 'b', 'c'])
    """
    if report is None:
        with extra("data", "umab.compare"):
            import scipy.special  # noqa: F401
    else:
        _need_report()
    if certify and report is None:
        raise ValueError("certify=True needs a page to show certificates on, but got report=None; pass report='FOLDER'")
    chosen: list[Policy | str] | None = None
    if policies is not None:
        chosen = [policies] if isinstance(policies, (str, Policy)) else list(policies)
        for each in chosen:
            as_policy(each)  # a name that says where a class is would be imported: pass the class
    losses = Losses.of(data, **table)
    if switches is not None:
        checks.whole("switches", switches, least=0)
        refuse_away(losses, f"{switches=}")
    path = Path(data) if isinstance(data, (str, os.PathLike)) else None
    from umab.research.report.folder import prepared

    with contextlib.nullcontext() if report is None else prepared(Path(report)):  # refuse a folder before hours of work
        found = compared(
            losses,
            _NO_NAME if path is None else path.name,
            _call(repr(str(path)) if path else "table", chosen, n_trials, seed, switches, certify, table),
            policies=chosen,
            n_trials=n_trials,
            seed=seed,
            switches=switches,
            device=device,
            n_threads=n_threads,
            progress=progress,
        )
        if report is not None:
            found.write(report, certify=certify, progress=progress)
    return found


def compared(
    losses: Losses,
    name: str,
    command: str,
    *,
    policies: Iterable[Policy | str] | None,
    n_trials: int | None,
    seed: int | None,
    switches: int | None,
    device: Device,
    n_threads: int | None,
    progress: bool | None = None,
) -> Comparison:
    """Compare policies on losses; `name` is that of the file, and `command` is what makes the page again."""
    from umab.research.experiments.experiment import comparison
    from umab.research.experiments.runner import run_on

    experiment = comparison(stem(name), losses, policies)
    wanted = [(experiment, experiment.settings[0], losses)]
    run = run_on(wanted, n_trials=n_trials, seed=seed, device=device, n_threads=n_threads, progress=progress)
    return Comparison(None, run, name, command, switches)


def stem(name: str) -> str:
    """Return the name of a file without its ending, which may have two parts."""
    return next((name.removesuffix(each) for each in ENDINGS if name.endswith(each)), Path(name).stem)


def _need_report() -> None:
    """Name the extra that brings all that a page needs."""
    with extra("report", "a report"):
        import jinja2  # noqa: F401
        import scipy.special  # noqa: F401
        import vl_convert  # noqa: F401


def _call(
    data: str,
    policies: list[Policy | str] | None,
    n_trials: int,
    seed: int,
    switches: int | None,
    certify: bool,
    table: TableOptions,
) -> str:
    """Return the call that makes a page again, for the page itself."""
    given = {
        "policies": policies,
        "n_trials": n_trials if n_trials != 500 else None,
        "seed": seed or None,
        "switches": switches,
        "certify": certify or None,
        **table,
    }
    options = [f"{name}={checks.shown(value)}" for name, value in given.items() if value is not None]
    return f"umab.compare({', '.join([data, *options, 'report=...'])})"


def _sequence(losses: Losses, switches: int) -> str:
    """Say which sequence of arms the policies were compared with."""
    from umab.research.report import words

    return (
        f"The best sequence of arms with at most {words.switches(switches)}, where rounds count from 1, is: "
        f"{words.sequence(losses, best_sequence(losses, switches))}.\n"
        "The regret against it is larger by what it saves over the best single arm, the same amount for every policy."
    )


_WHICH = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate does. With expected=False,
simulate counts the arms that were drawn: sampled regret, which has the same mean and usually a larger error."""

_WHICH_IF_AWAY = """\
Expected regret counts what the draw of each round costs on average, as umab.simulate does. It is the largest over the
arms, each counted over the rounds in which it was there. With expected=False, simulate counts the arms that were drawn:
sampled regret, which has the same mean against each single arm."""
