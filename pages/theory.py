"""The pages `docs/theory.md` and `docs/errata.md`, with their numbers and their figure.

`python -m pages.theory docs` writes them; all numbers come from runs.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import umab
from umab import datasets
from umab._support.files import write_atomically
from umab.algorithms.names import policy as policy_of
from umab.engine.interpreted import play
from umab.research.report import shell
from umab.research.report.charts import scaling_chart
from umab.results.plotting import Chart
from umab.theory.bounds import bound
from umab.theory.norms import Norms
from umab.theory.scaling import Scaling, scaling
from umab.theory.search import exact_regret, turns
from umab.theory.statements import STATEMENTS, Statement
from umab.theory.trajectory import follow
from umab.theory.worst_cases import WorstCase, kept

PAGES = ("theory.md", "errata.md")
TURN = "late-turn.svg"
"""The figure that shows how Banker-OMD misses a late turn."""


class Row(NamedTuple):
    """A row of the table of statements."""

    id: str
    where: str
    text: str
    form: str
    verdict: str
    ratio: str
    case: str


def statement_rows() -> list[Row]:
    """Return all statements, each with the worst case that was found for the policies of the paper."""
    cases: dict[Statement, list[WorstCase]] = {}
    for case in kept():
        if case.policy != "umab-g-maintext":
            cases.setdefault(case.statement, []).append(case)
    rows = []
    for statement in STATEMENTS:
        worst = max(cases[statement], key=lambda case: _comparable(case.certified.ratio))
        found = worst.certified
        says = found.verdict if found.verdict == "violated" else "no violation found"
        shown = "–" if math.isnan(found.ratio) else f"{found.ratio:.3g}"
        rows.append(Row(*statement[:4], says, shown, f"{worst.policy}: {worst.losses}"))
    return rows


def theorem_statements(theorems: Sequence[TheoremRow], broken: TheoremRow) -> list[Row]:
    """Return the theorems as rows of the table of statements, each with the worst ratio of regret to bound.

    `broken` is a case where Theorem 2 without adaptive exploration fails as printed.
    """
    rows = []
    for id, policy in (("Theorem 1", "umab-nn"), ("Theorem 2, (7)", "umab-g"), ("Theorem 2, (8)", "umab-g-a")):
        for form in ("as printed", "as repaired"):
            measured = [row for row in (*theorems, broken) if row.policy == policy]
            worst = max(measured, key=lambda row: row.ratio(form))
            verdict = "violated" if worst.ratio(form) > 1.0 else "no violation found"
            text = "the expected regret is at most the bound, with the constants of the proof"
            rows.append(
                Row(id, "main text", text, form, verdict, f"{worst.ratio(form):.3g}", f"{policy}: {worst.table}")
            )
    return rows


DEFINITIONS = (
    ("(1)", "the regret", "`umab.results.regret`; tests compare it with its definition"),
    ("(2), Algorithms 1 to 3", "the updates", "worked examples and 40-digit references in the tests, to 1e-10"),
    ("(3)", "the local norm", "Lemma 2"),
    ("(6)", "‖ℓ̂_t‖² in the local norm is ℓ²ξ²/p²", "an identity; Lemma 2 is computed with it"),
    ("(9)", "the losses of Figures 2a and 2b", "`umab.datasets.bad_losses`, `umab reproduce`"),
    (
        "Table 1",
        "the orders of all regrets",
        "`umab.theory.table1`, and the reports of `umab compare` and `umab reproduce`",
    ),
)
"""What has a number in the paper but claims nothing by itself, and where it is checked."""


def _comparable(ratio: float) -> float:
    return -math.inf if math.isnan(ratio) else ratio


class TheoremRow(NamedTuple):
    """The bound of a theorem on a table, and the measured regret."""

    policy: str
    table: str
    regret: float
    printed: float | None
    repaired: float | None

    def ratio(self, form: str) -> float:
        """Return regret over bound."""
        limit = self.printed if form == "as printed" else self.repaired
        return self.regret / limit if limit else math.nan


def theorem_rows() -> Iterator[TheoremRow]:
    """Yield the bounds of the theorems on some tables with the regret, measured or, on a small table, exact."""
    rng = np.random.default_rng(0)
    tables = {
        "losses of Figure 2a": datasets.bad_losses(),
        "normal losses of Figure 2c": datasets.stochastic("printed"),
        "training errors of Figure 1c": datasets.selection("printed"),
        "exponential, 1000 × 3": umab.Losses.of(rng.exponential([1.0, 2.0, 4.0], size=(1000, 3))),
        "Cauchy, 1000 × 5": umab.Losses.of(rng.standard_cauchy(size=(1000, 5))),
    }
    for name in ("umab-nn", "umab-g", "umab-g-a"):
        for table, losses in tables.items():
            if not policy_of(name).refusal(float(losses.table.min()), ""):
                promised = bound(name, losses)
                result = umab.simulate(name, losses, n_trials=200, expected=True, keep="summary", progress=False)
                yield TheoremRow(name, table, float(result.mean[-1]), promised.printed, promised.repaired)
        small = [[1.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
        exact = exact_regret(policy_of(name), small)
        yield TheoremRow(name, "6 × 2, all 64 sequences of arms", exact.regret, exact.printed, exact.repaired)


def case_of(policy: str, id: str, form: str = "as printed") -> WorstCase:
    """Return the stored worst case of a statement about a policy."""
    return next(case for case in kept() if (case.policy, case.statement.id, case.statement.form) == (policy, id, form))


def explored(name: str, losses: umab.Losses) -> float:
    """Return the share of rounds in which some arm is explored, over ten runs."""
    policy = policy_of(name).for_horizon(losses.n_rounds)
    arms = umab.simulate(policy, losses, n_trials=10, progress=False).arms
    return float((follow(policy, losses.table, arms).offsets != 0).any(axis=2).mean())


def exploration_cost(name: str, losses: Any) -> float:
    """Return the expected cost of exploration, Σ_t ρ_t ⟨ℓ_t, c_t⟩, averaged over three runs."""
    path = follow(policy_of(name), losses, umab.simulate(name, losses, n_trials=3, progress=False).arms)
    cost = (path.losses * path.offsets[:, :-1]).sum(axis=2) * path.exploration[:, :-1]
    return float(cost.sum(axis=1).mean())


def final(name: str, losses: Any, n_trials: int = 200) -> float:
    """Return the mean final expected regret of a policy."""
    result = umab.simulate(name, losses, n_trials=n_trials, expected=True, keep="summary", progress=False)
    return float(result.mean[-1])


def kept_bytes(n_rounds: int) -> int:
    """Return the size of the file of a learner with ten arms, after `n_rounds` rounds, to the nearest hundred bytes.

    The file holds all that a learner keeps. Its numbers are text, so its size varies by a few digits.
    """
    learner = umab.Learner(umab.UMABGA(), arms=10, seed=0)
    for _ in range(n_rounds):
        learner.update(learner.select(), 1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.json"
        learner.save(path)
        return round(path.stat().st_size, -2)


def paid_in(skipped: str, losses: Sequence[float]) -> float:
    """Return Σb_t of Banker-OMD with two arms: all that it invests from outside its bank, if nothing is late."""
    policy = umab.BankerOMD(horizon=2, skipped=skipped)  # type: ignore[arg-type]
    start = policy.init(2)
    weight, bound_, savings, total = start.weight / start.unit, start.bound / start.unit, 0.0, 0.0
    for loss, played in zip(losses, play(policy, [[each, each] for each in losses]), strict=True):
        total += max(0.0, weight - savings)
        savings = 0.0 if skipped == "lost" and abs(loss) > bound_ else max(weight, savings)
        weight, bound_ = played.state.weight / played.state.unit, played.state.bound / played.state.unit
    return total


def of_hazan_and_kale(losses: Any) -> tuple[float, float]:
    """Return √(Σ‖ℓ_t‖²₂), as in Table 1, and n²√Q_T, the first term of Hazan and Kale's Corollary 5 without its log."""
    about_mean = losses - losses.mean(axis=0)
    return math.sqrt((losses**2).sum()), losses.shape[1] ** 2 * math.sqrt((about_mean**2).sum())


def of_table_1(losses: Any) -> tuple[float, float]:
    """Return what Table 1 has for UMAB-G with adaptive exploration, and the term of (8) that is missing there."""
    norms = Norms.of(umab.Losses.of(losses))
    root = np.sqrt(norms.n_arms * norms.sum_of_sizes)
    return float(norms.largest * root + np.sqrt(norms.n_arms * norms.sum_of_squares)), float(root)


def times_a_million(name: str) -> float:
    """Return by which factor the bound of the paper, as printed, grows if the losses grow by a million."""
    losses = np.random.default_rng(0).normal(size=(1000, 3))
    losses = np.abs(losses) if name == "umab-nn" else losses
    small, large = (bound(name, factor * losses).printed for factor in (1.0, 1e6))
    assert small is not None and large is not None
    return large / small


SKIPS = [1.0] * 2000 + [3.0, 7.0, 15.0]
"""Losses of which Banker-OMD skips the last three, when its investments are far above the losses."""

COINS = np.random.default_rng(0).integers(2, size=(10_000, 10)).astype(float)
"""Losses in [0, 1] that vary as much as they can."""

SMALL = np.tile([0.001, 0.0], (10_000, 1))
"""Losses far below 1."""


def numbers() -> dict[str, Any]:
    """Return every number on the page of errata, from runs."""
    ones = np.tile([0.0, 1.0], (20_000, 1))
    tiny = np.tile([1e-12, -1e-12], (3_000_000, 1))
    losses = umab.Losses.of(tiny)
    exponential = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(1000, 3))
    growth: dict[str, Scaling] = {
        key: scaling(name, family=family, progress=False)  # type: ignore[arg-type]
        for key, name, family in (
            ("small_g", "umab-g", "small"),
            ("small_nn", "umab-nn", "small"),
            ("turn_banker", "banker-omd", "turn"),
            ("turn_g", "umab-g", "turn"),
            ("turn_g_a", "umab-g-a", "turn"),
            ("turn_none", "umab-g-none", "turn"),
            ("hard_nn", "umab-nn", "hard"),
            ("hard_uniform", "uniform", "hard"),
        )
    }
    sum_of_norms = float(np.abs(ones).max(axis=1).sum())
    alpha, before, now = math.sqrt(2.0), 0.5, 1.0
    return {
        "growth": growth,
        "maintext": final("umab-g-maintext", ones, 50),
        "appendix": final("umab-g-a", ones, 50),
        "exploring": exploration_cost("umab-g-maintext", ones),
        "lemma4": 2 * 4 + 2 * math.sqrt(1 + 8 * sum_of_norms) + 2 * math.sqrt(2 * sum_of_norms),
        "rho_grows": case_of("umab-g-maintext", "ρ never grows"),
        "maintext_clipping": case_of("umab-g-maintext", "Lemma 5, error"),
        "tiny_regret": final("umab-g", losses, 1),
        "tiny": bound("umab-g", losses),
        "explored": {
            "2a": explored("umab-g-a", datasets.bad_losses()),
            "2c": explored("umab-g-a", datasets.stochastic("printed")),
            "1c": explored("umab-g-a", datasets.selection("printed")),
            "2a, rate 4": explored("umab-g-a:rate=4", datasets.bad_losses()),
            "(0, 1)": explored("umab-g-a", umab.Losses.of(ones)),
        },
        "cautious": final("umab-g-a", exponential) / final("umab-nn", exponential),
        "psi": case_of("umab-nn", "Ψ"),
        "premise": case_of("umab-g-a", "2η_t|ℓ'_t|p_t/p'_t ≤ 1"),
        "next_p": case_of("umab-g", "Lemma 3, next p"),
        "positive_step": case_of("umab-g-a", "step, ℓ ≥ 0"),
        "sharp": case_of("umab-g-a", "Lemma 3, p", "as repaired"),
        "clip": case_of("umab-g-a", "C²_{t+1}"),
        "clip_in_rate": case_of("umab-g-a", "C²_{T+1} ≤ 2ℓ²∞"),
        "gap": case_of("umab-g-a", "comparator"),
        "last_step": case_of("umab-nn", "last step"),
        "orabona_left": now**2 * (1 + alpha**2) / math.sqrt(now**2 + before),
        "orabona_right": 2 * math.sqrt(1 + alpha**2) * (math.sqrt(now**2 + before) - math.sqrt(before)),
        "turns": turns("banker-omd", "umab-g"),
        "layers": [each.state.scale / each.state.unit for each in play("scb", [[0.75, 0.75]] + [[1.2, 1.2]] * 50)],
        "paid_in": {skipped: paid_in(skipped, SKIPS) for skipped in ("usable", "lost")},
        "hazan_kale": of_hazan_and_kale(COINS),
        "dropped": of_table_1(SMALL),
        "times_a_million": {name: times_a_million(name) for name in ("umab-g-a", "umab-g")},
        "bytes": {rounds: kept_bytes(rounds) for rounds in (100, 100_000)},
    }


def pages() -> dict[str, str]:
    """Return the pages and their figure by file name."""
    measured = numbers()
    theorems = list(theorem_rows())
    tiny = measured["tiny"]
    where = "three million rounds of (1e-12, −1e-12)"
    broken = TheoremRow("umab-g", where, measured["tiny_regret"], tiny.printed, tiny.repaired)
    content: dict[str, Any] = {
        "statements": [*theorem_statements(theorems, broken), *statement_rows()],
        "definitions": DEFINITIONS,
        "theorems": theorems,
        "n": measured,
    }
    turn = scaling_chart([content["n"]["growth"][f"turn_{key}"] for key in ("banker", "g", "g_a")])
    written = {name: shell.markdown(name, content, __package__) for name in PAGES}
    return {**written, TURN: Chart(turn).svg}


if __name__ == "__main__":
    for name, text in pages().items():
        write_atomically(Path(sys.argv[1]) / name, text.encode())
