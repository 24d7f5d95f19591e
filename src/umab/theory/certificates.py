"""Certificates: whether the statements of the proofs hold along runs, and by what margin."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from umab._support.extras import extra
from umab._support.progress import Progress
from umab.algorithms.advised import Advised
from umab.algorithms.base import Policy
from umab.algorithms.names import as_policy
from umab.algorithms.umab_e import UMABE
from umab.engine.advised import advice_for
from umab.engine.delays import Delays
from umab.engine.simulate import simulate
from umab.errors import NoBoundError
from umab.results.regret import mean_and_sd
from umab.tables.advice import Advice
from umab.tables.losses import Losses, refuse_away
from umab.theory.advice import follow_advised, learning
from umab.theory.bounds import bound
from umab.theory.bounds_advised import Measured, bound_along, bound_with_advice
from umab.theory.bounds_late import TEXTS, Limits, averages, covers_delays, late_limits, limits_of
from umab.theory.late import delays_of, follow_late
from umab.theory.late_barrier import follow_arrivals
from umab.theory.path import Floats, Precise
from umab.theory.statements import (
    OF_GUARDED,
    OF_SCB_D,
    OF_UMAB_E,
    OF_UMAB_S,
    OF_UMAB_S_LATE,
    OF_UMAB_SH,
    OF_UMAB_W,
    STATEMENTS,
    AdvisedSteps,
    ArrivalSteps,
    Form,
    LateSteps,
    Sides,
    Statement,
    Steps,
)
from umab.theory.theorems import LATE, PROVED_IN, THEOREM_D, theorem_of
from umab.theory.trajectory import follow, refusal

EVERY = (*STATEMENTS, *OF_UMAB_S, *OF_UMAB_W, *OF_GUARDED, *OF_UMAB_SH)
"""The statements of the paper, and those about UMAB-S, UMAB-W, policies with a guard and UMAB-Sh. Those about UMAB-E,
which needs advice, are in `OF_UMAB_E`, and those about SCB-D, which may have delays, in `OF_SCB_D`."""

TOLERANCE = 1e-12
"""A statement is violated if left − right is more than this share of the numbers that were added to get there. Each
has a relative rounding error of about 1e-19, so this leaves room for a million of them. The path itself is the
algorithm's along these arms up to rounding, which may grow from round to round; the statements are about any path, and
hold or fail along the one that was computed."""

SURE = 0.999
"""How certain a statement about an expectation must be: the level of a one-sided t-interval of a mean over the runs."""

_ENTRIES = 2_000_000  # runs × rounds × arms that are processed at a time

Verdict = Literal["holds", "violated", "undecided", "nothing to check"]


class Certified(NamedTuple):
    """What was found for a statement."""

    id: str
    where: str
    text: str
    form: Form
    verdict: Verdict
    ratio: float
    """The largest left/right that was seen; nan if no right side was above 0."""
    run: int
    """The run in which it was seen; -1 for a statement about the mean of the runs."""
    round: int
    """The round in which it was seen, counted from 1; 0 for a statement about the whole run."""


def certify(
    policy: Policy | str,
    losses: object,
    *,
    advice: object = None,
    delays: object = None,
    n_trials: int = 20,
    seed: int = 0,
    progress: bool | None = None,
) -> list[Certified]:
    """Check every statement of the proofs about a policy along runs on a loss table.

    The arms are drawn by `umab.simulate`. Along them, all quantities of the proofs are computed again from their
    definitions, in extended precision (`umab.theory.trajectory`), and each statement is checked in every round.

    Parameters
    ----------
    policy
        A `UMABNN`, `UMABG`, `UMABGA`, `UMABW`, policy with a guard, `UMABS`, `UMABSh` or `SCBD`, the last three also
        centred, or its name.
        With constants other than the paper's, the same statements are checked, although the paper does not make them;
        this shows which of them a larger rate breaks. The statements about UMAB-S cover any rate, but none of the
        options for study. The statements about UMAB-W cover all its options. With advice, a `UMABE` of either form.
    losses
        What `umab.Losses.of` takes.
    advice
        What experts advise, as for `umab.simulate`, if the policy is one over experts. Its theorem is about the regret
        against every single expert, over the rounds in which the expert gave advice; the row is about the expert
        against whom the mean regret is largest. It is checked twice: against the largest bound that the table allows,
        whatever is drawn, and with means over these runs in place of the expectations in the bound.
    delays
        By how many rounds losses are late, as for `umab.simulate`. The statements about SCB-D cover that, and those of
        Theorem L about UMAB-S, bare or centred, which are checked if delays are given. Delays that depend on the arm
        are covered for UMAB-S and losses that are never negative.
    n_trials
        How many runs.
    seed
        The seed of the runs.
    progress
        As for `umab.simulate`.

    Returns
    -------
    list of Certified
        A row for each statement; see `Certified` and `TOLERANCE`.
    """
    which = as_policy(policy, "umab.theory.certify(umab.recommended(), losses)")
    table = Losses.of(losses)
    refuse_away(table, "a certificate")
    if advice is not None or isinstance(which, Advised):
        given = None if advice is None else Advice.of(advice, *table.table.shape)
        advised = advice_for(which, given, table)
        assert given is not None and isinstance(advised, Advised)  # advice_for has refused all else
        return _certify_advised(advised, table, given, n_trials, seed, progress)
    if why := refusal(which):
        raise TypeError(why)
    _need_scipy()
    if theorem_of(which) == THEOREM_D:
        return _certify_late(which, table, delays, n_trials, seed, progress)
    if delays is not None and covers_delays(which):
        return _certify_arrivals(which, table, delays, n_trials, seed, progress)
    if delays is not None:
        raise ValueError(
            "delays are only for policies whose proof covers them, umab-s, centred(umab-s) and scb-d, but got "
            f"{which.name}"
        )
    ready = which.for_horizon(table.n_rounds)
    result = simulate(which, table, n_trials=n_trials, seed=seed, expected=True, keep="arms", progress=False)
    about = [statement for statement in EVERY if statement.is_about(ready)]
    rows: dict[Statement, Certified] = {}
    with Progress(n_trials, "certifying", progress, unit="trials") as bar:
        for runs in _chunks(n_trials, table.n_rounds * table.n_arms):
            coins = None if ready.coin is None else result.coins[runs]
            path = follow(ready, table.table, result.arms[runs], coins)
            _check_all(about, Steps(path), runs.start, rows)
            bar.advance(runs.stop - runs.start)
    return [*_on_the_mean(ready, table, result.final_regret), *rows.values()]


def _certify_advised(
    policy: Advised, losses: Losses, advice: Advice, n_trials: int, seed: int, progress: bool | None
) -> list[Certified]:
    """Do the same for a policy over experts."""
    ready = learning(policy)
    _need_scipy()
    result = simulate(ready, losses, advice=advice.table, n_trials=n_trials, seed=seed, keep="arms", progress=False)
    rows: dict[Statement, Certified] = {}
    regrets, measured = [], []
    with Progress(n_trials, "certifying", progress, unit="trials") as bar:
        for runs in _chunks(n_trials, advice.awake.size * losses.n_arms):
            path = follow_advised(ready, losses, result.arms[runs], advice.table)
            _check_all(OF_UMAB_E[path.form], AdvisedSteps(path), runs.start, rows)
            regrets.append(path.regrets.astype(float))
            measured.append(Measured.along(path))
            bar.advance(runs.stop - runs.start)
    return [*_on_every_mean(ready, losses, advice, np.concatenate(regrets), bound_along(measured)), *rows.values()]


def _certify_late(
    policy: Policy, losses: Losses, delays: object, n_trials: int, seed: int, progress: bool | None
) -> list[Certified]:
    """Do the same for SCB-D, with late feedback."""
    late = delays_of(delays, losses.n_rounds, n_trials, seed)
    result = simulate(
        policy,
        losses,
        delays=0 if delays is None else delays,
        n_trials=n_trials,
        seed=seed,
        expected=True,
        keep="arms",
        progress=False,
    )
    rows: dict[Statement, Certified] = {}
    found = []
    with Progress(n_trials, "certifying", progress, unit="trials") as bar:
        for runs in _chunks(n_trials, losses.n_rounds * losses.n_arms):
            steps = LateSteps(follow_late(policy, losses.table, result.arms[runs], late[runs]))
            _check_all(OF_SCB_D, steps, runs.start, rows)
            found.append(averages(steps))
            bar.advance(runs.stop - runs.start)
    limits = limits_of(policy, losses, late)
    measured = Limits(result.final_regret, *(np.concatenate(each) for each in zip(*found, strict=True)))
    where = PROVED_IN[theorem_of(policy)]
    means = [
        _judge_mean(name, where, f"{text} at most {limit:.6g}", "as proved", each, limit)
        for (name, text), each, limit in zip(TEXTS.items(), measured, limits, strict=True)
    ]
    return [*means, *rows.values()]


def _certify_arrivals(
    policy: Policy, losses: Losses, delays: object, n_trials: int, seed: int, progress: bool | None
) -> list[Certified]:
    """Do the same for UMAB-S, with late feedback."""
    late = Delays.of(delays, losses.n_rounds, losses.n_arms).of_trials(seed, range(n_trials), losses.n_rounds)
    limits = late_limits(policy, losses, late)
    result = simulate(
        policy, losses, delays=delays, n_trials=n_trials, seed=seed, expected=True, keep="arms", progress=False
    )
    # The delays of the arms that were drawn.
    drawn = np.take_along_axis(late, np.minimum(result.arms, late.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    rows: dict[Statement, Certified] = {}
    paid = []
    with Progress(n_trials, "certifying", progress, unit="trials") as bar:
        for runs in _chunks(n_trials, losses.n_rounds * losses.n_arms):
            steps = ArrivalSteps(follow_arrivals(policy, losses.table, result.arms[runs], drawn[runs]))
            _check_all(OF_UMAB_S_LATE, steps, runs.start, rows)
            paid.append(steps.of.paid_in_all.astype(float))
            bar.advance(runs.stop - runs.start)
    measured = (result.final_regret, np.concatenate(paid))
    means = [
        _judge_mean(name, LATE, text, "as proved", each, limit)
        for (name, (text, limit)), each in zip(limits.items(), measured, strict=True)
    ]
    return [*means, *rows.values()]


def _need_scipy() -> None:
    """Refuse before the work rather than after it."""
    with extra("data", "a certificate"):
        import scipy.special  # noqa: F401


def _check_all(about: Sequence[Statement], steps: object, first_run: int, rows: dict[Statement, Certified]) -> None:
    """Check statements along some runs, and keep the worse row of each."""
    for statement in about:
        row = check(statement, statement.says(steps), first_run=first_run)
        rows[statement] = _worse(rows[statement], row) if statement in rows else row


def certifiable(policy: Policy) -> bool:
    """Whether the statements are about a policy of this kind, without advice."""
    return not refusal(policy)


def check(statement: Statement, sides: Sides, *, first_run: int = 0) -> Certified:
    """Return what the two sides of a statement say, and where it is closest to failing."""
    violated, ratios = judged(sides)
    by_round = sides.left.ndim > 1
    if np.isnan(sides.left).all():
        return Certified(*statement[:4], "nothing to check", math.nan, -1, 0)
    place = int(np.where(np.isnan(ratios), -np.inf, ratios).argmax())
    run, round = divmod(place, ratios.shape[1])
    verdict: Verdict = "violated" if violated.any() else "holds"
    return Certified(*statement[:4], verdict, float(ratios.flat[place]), first_run + run, round + 1 if by_round else 0)


def judged(sides: Sides) -> tuple[npt.NDArray[np.bool_], Precise]:
    """Return where left ≤ right is violated, and left/right: both runs × rounds.

    Where the right side is not above rounding, left/right is inf if the statement is violated, and nan if not.
    """
    left, right, size = (side.reshape(len(side), -1) for side in sides)
    rounding = TOLERANCE * size
    violated = left - right > rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        return violated, np.where(right > rounding, left / right, np.where(violated, np.inf, np.nan))


def _worse(first: Certified, second: Certified) -> Certified:
    """Return the row with the worse verdict or, if they agree, with the larger ratio."""
    order: list[Verdict] = ["nothing to check", "holds", "undecided", "violated"]
    key = [(order.index(row.verdict), -math.inf if math.isnan(row.ratio) else row.ratio) for row in (first, second)]
    return first if key[0] >= key[1] else second


def _chunks(n_trials: int, entries: int) -> Iterator[slice]:
    """Yield runs that are processed together, if each has so many entries."""
    size = max(1, _ENTRIES // entries)
    for first in range(0, n_trials, size):
        yield slice(first, min(first + size, n_trials))


def _on_the_mean(policy: Policy, losses: Losses, regrets: Floats) -> Iterator[Certified]:
    """Yield what the mean regret says about the theorem, as printed and as repaired, or about ours as proved."""
    printed, repaired = None, None
    try:
        promised = bound(policy, losses)
        printed, repaired, why = promised.printed, promised.repaired, promised.source
    except NoBoundError as error:
        why = str(error)
    forms: tuple[tuple[Form, float | None], ...]
    name = theorem_of(policy)
    if name in PROVED_IN:
        where, forms = PROVED_IN[name], (("as proved", repaired),)
    else:
        where, forms = "main text", (("as printed", printed), ("as repaired", repaired))
    for form, limit in forms:
        if limit is None:
            yield Certified(name, where, why, form, "nothing to check", math.nan, -1, 0)
            continue
        yield _judge_mean(name, where, f"the expected regret is at most {limit:.6g}", form, regrets, limit)


def _judge_mean(name: str, where: str, text: str, form: Form, regrets: Floats, limit: float) -> Certified:
    """Return what the mean of the regrets of runs says about a bound on its expectation."""
    from scipy.special import stdtrit

    mean, sd = mean_and_sd(regrets)
    margin = float(stdtrit(max(len(regrets) - 1, 1), SURE)) * sd / math.sqrt(len(regrets))
    verdict: Verdict = "undecided"
    if mean + margin <= limit:
        verdict = "holds"
    elif mean - margin > limit:
        verdict = "violated"
    return Certified(name, where, text, form, verdict, mean / limit if limit else math.nan, -1, 0)


def _on_every_mean(policy: UMABE, losses: Losses, advice: Advice, regrets: Floats, along: float) -> Iterator[Certified]:
    """Yield what the mean regrets against the experts, runs × N, say about the theorem: the worst of them."""
    sure, where = bound_with_advice(policy, losses, advice.table).repaired, PROVED_IN[theorem_of(policy)]
    assert sure is not None
    limits = (
        (theorem_of(policy), f"the expected regret against every expert is at most {sure:.6g}", sure),
        (
            f"{theorem_of(policy)}, runs",
            f"with means over the runs in place of expectations: at most {along:.6g}",
            along,
        ),
    )
    for name, text, limit in limits:
        rows = (_judge_mean(name, where, text, "as proved", each, limit) for each in regrets.T)
        yield functools.reduce(_worse, rows)


def as_json(every: Mapping[str, Sequence[Certified]]) -> bytes:
    """Return the certificates of policies as JSON; a ratio that is not finite is null."""
    rows = {
        name: [{**row._asdict(), "ratio": row.ratio if math.isfinite(row.ratio) else None} for row in rows]
        for name, rows in every.items()
    }
    content = {"tolerance": TOLERANCE, "certificates": rows}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode()


def as_rows(rows: Sequence[Certified]) -> list[tuple[str, ...]]:
    """Return the table of certificates as text, header first."""
    head = ("statement", "form", "where", "verdict", "worst ratio", "run", "round", "says")
    shown = [
        (
            row.id,
            row.form,
            row.where,
            row.verdict,
            "–" if math.isnan(row.ratio) else f"{row.ratio:.4g}",
            "" if row.run < 0 else str(row.run),
            "" if row.round == 0 else str(row.round),
            row.text,
        )
        for row in rows
    ]
    return [head, *shown]
