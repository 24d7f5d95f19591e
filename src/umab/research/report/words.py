"""Numbers and outcomes in words, for pages and commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from umab._support.display import as_table, regret_named
from umab._support.display import counted as counted  # reports look for it here
from umab.algorithms.names import policy_as_written as policy_of
from umab.research.experiments.contest import MEAN_WANTED, WORST_WANTED, Standings
from umab.research.experiments.runner import Outcome, Run, Summary
from umab.research.experiments.sweep import Grid
from umab.results.regret import Costs, without_rounding
from umab.results.tracking import BestSequence, tracking_regret
from umab.tables.losses import Losses

_FEW = 10
"""With fewer rounds per arm than this, a comparison says little."""

_PLAIN = 12
"""Numbers below 10 to this power are written without an exponent, so that a column of them can be compared."""

_FAVOURABLE = 4
"""How many tables to leave out to see whether a good mean comes from a few tables."""

_CHANGES = 10
"""How many changes of a sequence of arms are named."""


def measured(mean: float, se: float) -> str:
    """Return a mean with its standard error, which has two digits: 12.30 ± 0.45.

    Examples
    --------
    >>> from umab.research.report.words import measured
    >>> measured(1381.4512, 8.5751), measured(-2.5e-7, 1.2e-9), measured(3.0, float("nan"))
    ('1381.5 ± 8.6', '(-2.500 ± 0.012)e-07', '3')
    """
    if not math.isfinite(mean):
        return "too large for a double" if math.isinf(mean) else "not a number"
    se = without_rounding(mean, se)
    if se == 0.0 or not math.isfinite(se):
        return _six_digits(mean) + (" ± 0" if se == 0.0 else "")
    power = math.floor(math.log10(max(abs(mean), se)))
    if -3 <= power < _PLAIN:
        places = _places(se)
        return f"{mean:.{places}f} ± {se:.{places}f}"
    scaled, error = (float(Decimal(value).scaleb(-power)) for value in (mean, se))
    places = _places(error)
    return f"({scaled:.{places}f} ± {error:.{places}f})e{power:+03d}"


def _six_digits(number: float) -> str:
    """Return a number with six digits, without an exponent if it needs none."""
    power = math.floor(math.log10(abs(number) or 1.0))
    if not -3 <= power < _PLAIN:
        return f"{number:.6g}"
    text = f"{number:.{max(0, 5 - power)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def spread(summary: Summary) -> str:
    """Return a standard deviation; 0 if it is only rounding."""
    if math.isnan(summary.sd):
        return "–"
    return f"{without_rounding(summary.mean, summary.sd):.4g}"


def _places(error: float) -> int:
    """Return the number of decimals that shows two digits of a standard error."""
    return max(0, 1 - math.floor(math.log10(float(f"{error:.1e}"))))


def listed(items: Sequence[str]) -> str:
    """Return items as a list in a sentence: a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def facts(losses: Losses) -> str:
    """Describe losses: how many there are and how many are away, their range and signs, and which arm is best."""
    rewards = are_rewards(losses)
    table = 0.0 - losses.present if rewards else losses.present
    kind = "rewards (higher is better)" if rewards else "losses (lower is better)"
    share = [
        (word, float(np.mean(which)))
        for word, which in (("negative", table < 0), ("zero", table == 0), ("positive", table > 0))
    ]
    best = _best_if_away(losses) if losses.n_away else _best(losses)
    signs = [f"all {word}" if part == 1.0 else f"{_percent(part)} {word}" for word, part in share if part > 0.0]
    return (
        f"{counted(losses.n_rounds, 'round')} of {counted(losses.n_arms, 'arm')}; {kind} from {table.min():.6g} to "
        f"{table.max():.6g}, {listed(signs)}. {_gaps(losses)}{best}"
    )


def are_rewards(losses: Losses) -> bool:
    """Whether the losses were given as rewards, in which people then want to read about them."""
    return bool(losses.provenance.get("reward"))


def as_given(losses: Losses, loss: float) -> float:
    """Return a loss with the sign that it was given with: as a reward, if it was one."""
    return 0.0 - loss if are_rewards(losses) else loss


def _gaps(losses: Losses) -> str:
    """Say what became of missing losses; nothing if there were none, or if their arms were away."""
    about = losses.provenance
    if not about.get("n_missing"):
        return ""
    what = "missing reward" if about["reward"] else "missing loss"
    if n_rounds := about["n_left_out"]:
        return f"{counted(n_rounds, 'round')} with a {what} {'is' if n_rounds == 1 else 'are'} left out. "
    n_missing = about["n_missing"]
    what = what if n_missing == 1 else "missing rewards" if about["reward"] else "missing losses"
    return f"{n_missing} {what} {'counts' if n_missing == 1 else 'count'} as {about['missing']:g}. "


def _best(losses: Losses) -> str:
    """Say which arm is best."""
    costs = Costs.of(losses).table.sum(axis=0)  # so that an offset costs no digits, and nothing overflows
    best = [losses.arms[at] for at in np.flatnonzero(costs == costs.min())]
    which = f"The best arm is {best[0]}" if len(best) == 1 else f"The best arms are {listed(best)}, with the same sum"
    return f"{which} ({as_given(losses, _loss_a_round(losses, 0.0)):.6g} per round)."


def _best_if_away(losses: Losses) -> str:
    """Say in how many cells arms are away, and which arm has the smallest mean while it is there."""
    away = np.isnan(losses.table)
    n_there = losses.n_rounds - away.sum(axis=0)
    means = np.where(away, 0.0, losses.table / np.maximum(n_there, 1)).sum(axis=0)
    means[n_there == 0] = np.inf
    best = [losses.arms[at] for at in np.flatnonzero(means == means.min())]
    one = len(best) == 1
    return (
        f"In {losses.n_away} of {losses.table.size} cells the arm is away. Over the rounds in which "
        f"{'it is' if one else 'they are'} there, {listed(best)} {'has' if one else 'have'} the "
        f"{'largest mean reward' if are_rewards(losses) else 'smallest mean loss'} "
        f"({as_given(losses, float(means.min())):.6g} per round)."
    )


def _percent(share: float) -> str:
    """Return a share in percent, never rounded to 0% or 100%."""
    if share < 0.001:
        return "under 0.1%"
    return "over 99.9%" if share > 0.999 else f"{share:.1%}"


def answer(outcome: Outcome) -> str:
    """Say in a paragraph which policy would have done best, by how much, and how certain that is."""
    curves, best = outcome.curves, outcome.best
    result = curves[best].result
    tied = [name for name, standing in outcome.standings.items() if standing.tied]
    trials = f"on average over {counted(result.n_trials, 'trial')}"
    these = "On these rewards" if are_rewards(outcome.losses) else "On these losses"
    if best == "uniform" or "uniform" in tied:
        others = [name for name in (best, *tied) if name != "uniform"]
        found = (
            f"{these}, and with this number of trials, no policy can be distinguished from choosing at random"
            if others
            else "Only choosing at random was run"
            if len(outcome.standings) == 1
            else f"{these} choosing at random would have done best, and every policy that learns did worse"
        )
        parts = [f"{found}: {counted(outcome.losses.n_rounds, 'round')}, {trials}"]
        if others:
            parts.append(f"The smallest expected regret (pseudo-regret) belongs to {listed(others)}")
    else:
        regret = (
            measured(result.mean[-1], result.se[-1])
            if math.isfinite(result.mean[-1])
            else "that is too large for a double"
        )
        alone = f"Only {best} was run" if len(outcome.standings) == 1 else f"{these} {best} would have done best"
        rounds = counted(outcome.losses.n_rounds, "round")
        parts = [f"{alone}: an expected regret (pseudo-regret) of {regret} over {rounds}, {trials}"]
        if result.mean[-1] < 0.0:
            while_there = " in the rounds in which that arm was there" if outcome.losses.n_away else ""
            parts[0] += f" (below 0: it did better than every single arm{while_there})"
        if tied:
            parts.append(f"{listed(tied)} cannot be distinguished from it with this number of trials")
    if outcome.losses.n_away:  # what the choices have cost does not follow from this regret
        parts.append("The regret is the largest over the arms, each counted over the rounds in which it was there")
    else:
        costs = [("the best single arm", 0.0), (best, float(result.mean[-1]))]
        if "uniform" in curves and best != "uniform":
            costs.append(("choosing at random", float(curves["uniform"].result.mean[-1])))
        losses = outcome.losses
        a_round = [f"{who} {as_given(losses, _loss_a_round(losses, regret)):.5g}" for who, regret in costs]
        parts.append(f"The mean {'reward' if are_rewards(losses) else 'loss'} per round is: {', '.join(a_round)}")
    if outcome.losses.n_rounds < _FEW * outcome.losses.n_arms:
        parts.append(f"With fewer than {_FEW} rounds per arm, this says little about later rounds")
    worst = max(outcome.standings or curves, key=lambda name: curves[name].result.mean[-1])
    if worst not in (best, *tied):
        last = curves[worst].result
        # Policies that see all losses are in the table too, and not ranked.
        among = "" if len(outcome.standings) in (0, len(curves)) else " of those that see one arm per round"
        parts.append(f"{worst} has the largest expected regret{among}, {measured(last.mean[-1], last.se[-1])}")
    needs = [name for name in (best, *tied) if curves[name].policy.needs_horizon]
    if needs:
        parts.append(f"{listed(needs)} had to be told the number of rounds in advance")
    return ". ".join(parts) + "."


def switches(number: int) -> str:
    """Return a number of switches: 1 switch, 2 switches."""
    return f"{number} switch" if number == 1 else f"{number} switches"


def tracking(outcome: Outcome, allowed: int) -> dict[str, str]:
    """Return each policy's expected regret against the best sequence with at most so many switches, with its error."""
    final = np.stack([curve.result.final_regret for curve in outcome.curves.values()])
    against = (Summary.of(each) for each in tracking_regret(final, outcome.losses, allowed))
    return {name: measured(each.mean, each.se) for name, each in zip(outcome.curves, against, strict=True)}


def sequence(losses: Losses, found: BestSequence) -> str:
    """Say which arms a sequence consists of, and in which rounds, counted from 1, it changes."""
    starts, arms = found.starts.tolist(), [losses.arms[at] for at in found.arms]
    later = [f"{arm} from round {start + 1}" for start, arm in zip(starts[1:], arms[1:], strict=True)]
    more = [f"and {counted(len(later) - _CHANGES, 'more change')}"] if len(later) > _CHANGES else []
    return ", ".join([arms[0], *later[:_CHANGES], *more])


def _loss_a_round(losses: Losses, regret: float) -> float:
    """Return the mean loss per round of a policy with this regret."""
    return float((losses.table / losses.n_rounds).sum(axis=0).min()) + regret / losses.n_rounds


def standing(outcome: Outcome, name: str) -> str:
    """Return where a policy stands, in a word or two; nothing if it is behind the best."""
    where = outcome.standings.get(name)
    if where is None:
        return "sees all arms"
    return "best" if where.best else "tie" if where.tied else ""


def regrets(run: Run, allowed: int | None = None) -> str:
    """Return the final regrets, as one table for each experiment and setting.

    With `allowed`, there is also a column for the regret against the best sequence with at most so many switches.
    """
    parts: list[str] = []
    for outcome in run.outcomes:
        stand_in = ", stand-in data" if outcome.stand_in else ""
        name = outcome.setting.name if len(outcome.experiment.settings) > 1 else ""
        title = f"{outcome.experiment.id}{f' ({name})' if name else ''}{stand_in}"
        more = {} if allowed is None else {f"against {switches(allowed)}": tracking(outcome, allowed)}
        kind = "final expected regret" if parts else f"final {regret_named('expected')}"
        rows = [(title, kind, *more, "")]
        for name in outcome.by_regret:
            summary = outcome.curves[name].expected
            regret = measured(summary.mean, summary.se)
            against = (column[name] for column in more.values())
            rows.append((f"  {name}", regret, *against, standing(outcome, name)))
        parts.append(as_table(rows))
    return "\n\n".join(parts)


def tally(verdicts: Sequence[str]) -> str:
    """Say how many statements hold, how many do not, and how many are undecided."""
    if not verdicts:
        return "nothing was claimed about these policies"
    singular = {"holds": "holds", "does not hold": "does not", "undecided": "is undecided"}
    plural = {"holds": "hold", "does not hold": "do not", "undecided": "are undecided"}
    counts = {each: list(verdicts).count(each) for each in singular}
    said = [f"{count} {(singular if count == 1 else plural)[each]}" for each, count in counts.items() if count]
    return f"of {counted(len(verdicts), 'statement')}, {listed(said)}"


def sameness(outcome: Outcome) -> str:
    """Say which policies had the same regret in every trial; nothing if there are none."""
    return " ".join(f"{listed(group)} had the same regret in every trial." for group in outcome.identical)


def parting(outcomes: Sequence[Outcome]) -> str:
    """Say whether the settings of an experiment agree on the claim, and on which policy is lowest."""
    verdicts = {outcome.setting.name: outcome.verdict for outcome in outcomes if outcome.judged}
    best = {outcome.setting.name: outcome.best for outcome in outcomes}
    said = []
    if len(verdicts) > 1:
        if len(set(verdicts.values())) == 1:
            common = _of_claim(next(iter(verdicts.values())))
            said.append(f"The settings agree on the claim: it {common} in {listed(list(verdicts))}.")
        else:
            each = [f"in {name} it {_of_claim(verdict)}" for name, verdict in verdicts.items()]
            said.append(f"The settings disagree on the claim: {listed(each)}.")
    if len(best) > 1:
        if len(set(best.values())) == 1:
            said.append(f"The lowest mean belongs to {next(iter(best.values()))} in all settings.")
        else:
            each = [f"to {policy} in {name}" for name, policy in best.items()]
            said.append(f"The lowest mean belongs {listed(each)}.")
    return " ".join(said)


def _of_claim(verdict: str) -> str:
    return "is undecided" if verdict == "undecided" else verdict


def contest_verdict(standings: Standings, name: str) -> str:
    """Say whether a policy meets the targets for a recommended one, and how certain that is."""
    if standings.best_competitor is None:
        return ""
    ratio, (worst, table) = standings.ratio(name), standings.worst(name)
    limits = (ratio, MEAN_WANTED), (worst, WORST_WANTED)
    if all(each.value + 2.0 * each.se <= limit for each, limit in limits):
        outcome = "Both targets are met"
    elif any(each.value - 2.0 * each.se > limit for each, limit in limits):
        outcome = "At least one target is missed"
    else:
        outcome = f"{counted(standings.n_trials, 'trial')} are too few to tell whether both targets are met"
    said = (
        f"The mean score of {name} is {measured(*ratio)} times the mean score of the best single competitor, "
        f"{standings.best_competitor} (target: at most {MEAN_WANTED:g}). Its worst table is {table}, where it has "
        f"{measured(*worst)} times the score of the best competitor there (target: at most {WORST_WANTED:g} on every "
        f"table). {outcome}."
    )
    if len(standings.scored) > 2 * _FAVOURABLE:
        rest = measured(*standings.ratio(name, without=_FAVOURABLE))
        said += f" Without the {_FAVOURABLE} tables on which it gains most, its mean is {rest} times the competitor's."
    return said


def sweep_progress(grid: Grid, n_done: int) -> str:
    """Say how much of a sweep is done."""
    return f"{n_done} of {counted(len(grid.cells), 'cell')} {'is' if n_done == 1 else 'are'} done"


_NOT_ACCEPTED = "they do not accept all losses there"


def sweep_refusals(grid: Grid) -> list[str]:
    """Say which policies are left out on which tables, with one sentence for policies that share their tables."""
    away = {table.label for table in grid.tables if table.n_away}
    tables: dict[tuple[str, str], list[str]] = {}
    for policy, label in grid.refused:
        sees_all = label in away and policy_of(policy).full_information
        why = "they need the losses of all arms, and some are away there" if sees_all else _NOT_ACCEPTED
        tables.setdefault((policy, why), []).append(label)
    policies: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (policy, why), labels in tables.items():
        policies.setdefault((why, tuple(labels)), []).append(policy)
    return [
        f"Not run on {listed(labels)}, because {why}: {listed(names)}." for (why, labels), names in policies.items()
    ]
