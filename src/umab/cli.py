"""The command `umab`."""

from __future__ import annotations

import argparse
import functools
import glob
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from umab._version import __version__
from umab.algorithms.registry import policies, policy, recommended
from umab.checks import LARGEST
from umab.extras import extra
from umab.files import write_atomically

# Charts, statistics and data are imported by the commands that need them: the extras they come with may be missing,
# and `umab policies` should not wait for them.
if TYPE_CHECKING:
    from umab.experiments.experiment import Experiment
    from umab.experiments.runner import Run
    from umab.losses import Losses
    from umab.report.page import Head

_REAL = {"any": None, "real": True, "stand-in": False}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    options.command = shlex.join(["umab", *given])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ∞ shows a question mark
    try:
        return int(options.run(options) or 0)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("umab: stopped", file=sys.stderr)
        return 130
    except MemoryError:
        print("umab: there is not enough memory for this; take fewer trials or rounds", file=sys.stderr)
        return 2
    except (ValueError, TypeError, OSError, ImportError) as error:
        # What users can mend is said in one line; whoever looks for a fault of ours wants the way there too.
        if os.environ.get("UMAB_TRACEBACK"):
            raise
        print(f"umab: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="umab",
        description="Adversarial bandits with unbounded losses.",
        epilog="example: umab compare losses.csv; `umab COMMAND --help` says more of each command",
    )
    parser.add_argument("--version", action="version", version=f"umab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int | None], about: str, example: str) -> Any:
        added = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=f"example: {example}"
        )
        added.set_defaults(run=run)
        return added

    listing = command(
        "policies",
        list_policies,
        "list all policies: what they need, what they guarantee, where they come from",
        "umab policies --names | head -3",
    )
    listing.add_argument("--names", action="store_true", help="print the names only, one a line")

    comparing = command(
        "compare",
        compare,
        "find out which policy would have done best on a table of losses, and write a report",
        "umab compare latencies.csv --drop date",
    )
    comparing.add_argument(
        "losses",
        help="a CSV or Parquet file with one column an arm and one row a round, or with columns round, arm and loss",
    )
    _add_table_options(comparing)
    _add_run_options(comparing, out="report-NAME, after the file")

    reproducing = command(
        "reproduce",
        reproduce,
        "run the experiments of Chen and Zhang, judge their claims, and write a report",
        "umab reproduce --figure stock --figure sales --trials 100",
    )
    reproducing.add_argument(
        "--figure", metavar="ID", action="append", help="only this experiment; can be repeated; --list prints the ids"
    )
    reproducing.add_argument("--list", action="store_true", help="print the experiments, and run nothing")
    _add_experiment_options(reproducing)
    _add_run_options(reproducing, out="report")

    running = command(
        "run",
        run_files,
        "run experiments of your own, written as TOML files, and write a report",
        "umab run routing.toml --trials 100",
    )
    running.add_argument("experiments", nargs="+", metavar="FILE.toml", help="an experiment; README.md shows one")
    _add_experiment_options(running)
    _add_run_options(running, out="report-NAME, after the first file")

    suiting = command(
        "suite",
        run_suite,
        "run the recommended policy, its competitors and yours on the suite of loss tables, and write a report",
        "umab suite --half development --trials 10 --policy 'centred(sf-mab-a)'",
    )
    suiting.add_argument(
        "--half", choices=("development", "validation"), action="append", help="only this half (default: both)"
    )
    suiting.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        default=[],
        help="run this policy beside the others, as name or name:key=value; can be repeated "
        "(--policy of other commands replaces theirs)",
    )
    suiting.add_argument("--trials", type=_from(2), default=200, metavar="N", help="trials on a table (default: 200)")
    suiting.add_argument("--seed", type=_from(0), default=0, metavar="N", help="of the draws (default: 0)")
    _add_data_option(suiting)
    suiting.add_argument(
        "--data-seed", type=_from(0), default=0, metavar="N", help="draw the tables anew (default: 0, the suite itself)"
    )
    suiting.add_argument("--threads", type=_from(1), metavar="N", help="how many threads to use (default: one a core)")
    suiting.add_argument("--out", metavar="FOLDER", help="where to write the report (default: report-suite)")

    certifying = command(
        "certify",
        certify,
        "check every statement of the proofs along runs on a table of losses, or search for their worst cases",
        "umab certify losses.csv --policy umab-g-a",
    )
    certifying.add_argument("losses", nargs="?", help="a table of losses, as for compare; not needed for --search")
    _add_table_options(certifying)
    certifying.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        help="umab-nn, umab-s, centred(umab-s) or a form of umab-g; can be repeated (default: four of these)",
    )
    certifying.add_argument("--trials", type=_from(1), default=20, metavar="N", help="how many runs (default: 20)")
    certifying.add_argument("--seed", type=_from(0), default=0, metavar="N", help="of the runs, or of the search")
    certifying.add_argument(
        "--search", action="store_true", help="search small tables for the worst cases; takes minutes"
    )
    certifying.add_argument("--json", metavar="FILE", help="also write the table, or the worst cases, as JSON")

    growing = command(
        "scaling",
        show_scaling,
        "measure how regret grows with rounds, arms or the scale of losses",
        "umab scaling umab-nn umab-g --over rounds arms",
    )
    growing.add_argument(
        "policies",
        nargs="*",
        metavar="POLICY",
        default=[recommended().name],
        help="name or name:key=value (default: the recommended one)",
    )
    growing.add_argument(
        "--over",
        nargs="+",
        choices=("rounds", "arms", "scale"),
        default=["rounds"],
        help="what varies (default: rounds)",
    )
    growing.add_argument(
        "--family",
        choices=("hard", "turn", "small"),
        default="hard",
        help="hard: coins, at the worst of six gaps; turn: the better arm changes late; small: losses of 1e-8",
    )
    growing.add_argument("--tables", type=_from(2), default=20, metavar="N", help="tables of each size (default: 20)")
    growing.add_argument("--trials", type=_from(1), default=5, metavar="N", help="trials on each table (default: 5)")
    growing.add_argument("--seed", type=_from(0), default=0, metavar="N", help="of tables and trials (default: 0)")
    growing.add_argument("--out", metavar="FOLDER", help="also draw the growth there, as PNG and PDF")

    sweeping = command(
        "sweep",
        run_sweep,
        "run a grid of policies, parameters, tables and seeds, written as a TOML file, on threads or a cluster; "
        "what was done before is kept",
        "umab sweep rates.toml --backend dask --address tcp://10.0.0.1:8786 --out /shared/rates",
    )
    sweeping.add_argument("sweep", metavar="FILE.toml", help="the grid; README.md shows one")
    sweeping.add_argument(
        "--backend",
        choices=("threads", "processes", "dask", "ray"),
        default="threads",
        help="what runs the cells (default: threads of this process)",
    )
    sweeping.add_argument(
        "--workers", type=_from(1), metavar="N", help="how many (default: one a core, or all there are)"
    )
    sweeping.add_argument("--address", help="that of the Dask scheduler or of the Ray cluster")
    sweeping.add_argument(
        "--out", metavar="FOLDER", help="where parts go; all workers must see it (default: sweep-NAME, after the file)"
    )
    _add_data_option(sweeping)
    sweeping.add_argument("--dry-run", action="store_true", help="say what it will take, and run nothing")
    sweeping.add_argument("--report", action="store_true", help="draw what is done so far, and run nothing")

    tables = command(
        "data",
        show_data,
        "list the public tables of the experiments, fetch them, or verify them",
        "UMAB_DATA=~/tables umab data verify",
    )
    tables.add_argument("action", nargs="?", choices=("list", "fetch", "verify"), default="list", help="default: list")
    tables.add_argument("names", nargs="*", metavar="NAME", help="which tables; default: all")
    return parser


def _add_experiment_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--setting", action="append", metavar="NAME", help="only this setting; can be repeated")
    _add_data_option(parser)
    parser.add_argument(
        "--data-seed", type=_from(0), metavar="N", help="draw the losses anew, where they are drawn by lot"
    )


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        choices=_REAL,
        default="any",
        help="any: the real tables if they can be had, else stand-ins; real: only the real ones (default: any)",
    )


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reward", action="store_true", help="the numbers are rewards: larger is better")
    parser.add_argument(
        "--drop", metavar="COLUMN", action="append", default=[], help="a column that is not an arm; can be repeated"
    )
    parser.add_argument(
        "--allow-suspicious",
        action="store_true",
        help="take a last row that looks like a total, row numbers, and a first line of numbers",
    )


def _read_table(options: argparse.Namespace) -> Losses:
    from umab.losses import Losses

    suspicious: Literal["allow", "refuse"] = "allow" if options.allow_suspicious else "refuse"
    return Losses.read(options.losses, reward=options.reward, drop=options.drop, suspicious=suspicious)


def _from(least: int) -> Callable[[str], int]:
    """Return what reads a whole number from `least` on; argparse names the option in what it says of others."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, but got {text!r}")
        return int(text)

    return whole


def _add_run_options(parser: argparse.ArgumentParser, *, out: str) -> None:
    parser.add_argument("--out", metavar="FOLDER", help=f"where to write the report (default: {out})")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        help="run this policy and none of those that run otherwise, as name or name:key=value; can be repeated "
        "(umab suite --policy adds one instead)",
    )
    parser.add_argument("--trials", type=_from(1), metavar="N", help="how many trials of each policy")
    parser.add_argument("--seed", type=_from(0), metavar="N", help="of the draws of the policies (default: 0)")
    parser.add_argument(
        "--certify", action="store_true", help="also check the paper's statements along five runs; see umab certify"
    )
    parser.add_argument("--threads", type=_from(1), metavar="N", help="how many threads to use (default: one a core)")


def reproduce(options: argparse.Namespace) -> None:
    """Run the paper's experiments and write the report."""
    experiment_module, _ = _need_report()
    known: dict[str, Experiment] = experiment_module.paper()
    if options.list:
        for id, experiment in known.items():
            print(f"{id:12} {experiment.figure}: {experiment.title} ({', '.join(s.name for s in experiment.settings)})")
        return
    for id in options.figure or []:
        if id not in known:
            raise ValueError(f"a figure must be one of {', '.join(known)}, but got {id!r}")
    chosen = [experiment for id, experiment in known.items() if not options.figure or id in options.figure]
    _run_and_report(options, chosen, "report", _reproduced)


def _reproduced(run: Run) -> tuple[str, str]:
    from umab.report import words

    return (
        "The experiments of Chen and Zhang, run again",
        f"{words.counted(len(run.experiments), 'experiment')} of Improved Algorithms for Adversarial Bandits with "
        "Unbounded Losses, with the constants and data that its text prints (printed) and with those that its authors' "
        "code used (figure). The policies compared with are the published ones in both. What a claim comes to follows "
        "from the runs alone: "
        f"{words.tally(run.verdicts)}.",
    )


def run_files(options: argparse.Namespace) -> None:
    """Run experiments from files and write the report."""
    experiment_module, _ = _need_report()
    chosen: list[Experiment] = [experiment_module.Experiment.read(path) for path in options.experiments]
    ids = [each.id for each in chosen]
    if len(set(ids)) < len(ids):
        raise ValueError(f"experiments must have different file names, but got {', '.join(ids)}")
    title = chosen[0].title if len(chosen) == 1 else f"{len(chosen)} experiments"

    def head(run: Run) -> tuple[str, str]:
        from umab.report import words

        return title, f"{words.tally(run.verdicts).capitalize()}." if run.verdicts else ""

    _run_and_report(options, chosen, f"report-{ids[0]}", head)


def compare(options: argparse.Namespace) -> None:
    """Run policies on a user's table and say which did best."""
    experiment_module, folder_module = _need_report()
    from umab.experiments.runner import run_on
    from umab.report import words
    from umab.report.page import Head
    from umab.tables import ENDINGS

    path = Path(options.losses)
    stem = next((path.name.removesuffix(each) for each in ENDINGS if path.name.endswith(each)), path.stem)
    out = Path(options.out or f"report-{stem}")
    losses = _read_table(options)
    with folder_module.prepared(out):
        experiment = experiment_module.comparison(stem, losses, options.policy)
        run = run_on(
            [(experiment, experiment.settings[0], losses)],
            n_trials=options.trials,
            seed=options.seed,
            n_threads=options.threads,
        )
        answer = words.answer(run.outcomes[0])
        outcome = run.outcomes[0]
        best = outcome.curves[outcome.best].policy.for_horizon(losses.n_rounds).name
        code = (
            f'learner = umab.Learner("{best}", arms={list(losses.arms)})'
            if losses.n_arms <= 10
            else f'umab.policy("{best}")'
        )
        title = f"Which policy would have done best on {path.name}?"
        code += "  # the policy with the smallest regret here"
        page = _write(run, out, Head(title=title, lede=answer, command=options.command, code=code), options.certify)
    print(f"{words.facts(losses)}\n\n{_regrets(run)}\n\n{answer}\n\n{page}")


def run_suite(options: argparse.Namespace) -> None:
    """Run policies on the suite and say how they do."""
    _, folder_module = _need_report()
    from umab.experiments.contest import contest
    from umab.report import suite_page

    place = Path(options.out or "report-suite")
    with folder_module.prepared(place):
        found = contest(
            options.half or ("development", "validation"),
            options.policy,
            n_trials=options.trials,
            seed=options.seed,
            data_seed=options.data_seed,
            real=_REAL[options.data],
            n_threads=options.threads,
        )
        page = suite_page.write(found, place, options.command)
    for standings in found:
        head = (f"{standings.half} half", "mean score", "÷ best mean", "worst multiple", "on table")
        print(_table([head, *(line[:5] for line in suite_page.lines(standings))], line=True))
        print(f"\n{suite_page.verdict(standings)}\n")
    if missing := suite_page.stand_ins(found):
        print(f"Not all data are the real ones. Stand-ins took the place of: {', '.join(missing)}.\n")
    print(page)


def run_sweep(options: argparse.Namespace) -> int:
    """Run a sweep, or what is left of it; or draw it, or say what it will take. Return 1 if cells failed."""
    with extra("sweep", "a sweep"):
        from umab.experiments import cluster, cost, parts
        from umab.experiments.pooled import Found
        from umab.experiments.sweep import Sweep, grid_of
        from umab.report import sweep_page

    sweep, real = Sweep.read(options.sweep), _REAL[options.data]
    out = Path(options.out or f"sweep-{sweep.id}")
    cluster.check_options(options.backend, options.workers, options.address)
    parts.refuse_others(out)
    if options.report:
        grid = grid_of(sweep, real)
        print(sweep_page.write(Found.of(grid, parts.read(grid, out)), out / "report", options.command))
        return 0
    with cluster.crew(options.backend, options.workers, options.address) as crew:
        if options.dry_run:
            before, heads = cost.memory_before(sweep), cost.Heads()
            grid = grid_of(sweep, real, heads.keep)
        else:
            parts.prepare(out)
            grid = grid_of(sweep, real, functools.partial(parts.store, out))
            write_atomically(out / "sweep.json", grid.as_json())
        n_apart = 0 if options.dry_run else parts.sort_out(grid, out)
        done = parts.done(out) & grid.cells.keys()
        cells = [cell for id, cell in grid.cells.items() if id not in done]
        print("".join(f"{line}\n" for line in sweep_page.notes(grid, n_apart)), end="", flush=True)
        if options.dry_run:
            print(sweep_page.costs(grid, len(done), cost.estimate(cells, heads, crew.n_workers), before, crew))
            return 0
        try:
            failed = cluster.run(cells, out, crew, n_skipped=parts.rounds_of(grid.cells[id] for id in done))
        except KeyboardInterrupt:
            said = sweep_page.summary(grid, len(parts.done(out) & grid.cells.keys()))
            print(f"umab: stopped; {said}, and the same command goes on from there", file=sys.stderr)
            return 130
    found = Found.of(grid, parts.read(grid, out))
    if found.n_done:
        print(_table(sweep_page.best_rows(found), line=True))
    place = str(Path(glob.escape(str(out))) / "parts" / "*.parquet")
    print(f"\n{sweep_page.summary(grid, found.n_done)}; to read them: polars.read_parquet({place!r})")
    for line in sweep_page.failures(failed, grid.cells):
        print(f"umab: failed: {line}", file=sys.stderr)
    return int(bool(failed))


def _run_and_report(
    options: argparse.Namespace,
    experiments: list[Experiment],
    out: str,
    head: Callable[[Run], tuple[str, str]],
) -> None:
    _, folder_module = _need_report()
    from umab.experiments.runner import run
    from umab.report.page import Head

    if options.setting:
        known = sorted({setting.name for each in experiments for setting in each.settings})
        for name in options.setting:
            if name not in known:
                raise ValueError(f"a setting must be one of {', '.join(known)}, but got {name!r}")
        experiments = [each.with_settings(options.setting) for each in experiments]
    if options.policy:
        experiments = [each.with_policies(options.policy) for each in experiments]
    place = Path(options.out or out)
    folder_module.check_names(experiments)
    with folder_module.prepared(place):
        done = run(
            experiments,
            n_trials=options.trials,
            seed=options.seed,
            real=_REAL[options.data],
            data_seed=options.data_seed,
            n_threads=options.threads,
        )
        title, lede = head(done)
        page = _write(done, place, Head(title=title, lede=lede, command=options.command), options.certify)
    print(f"{_regrets(done)}\n{_verdicts(done)}\n{page}")  # after the report: whoever reads this may have gone


def _write(run: Run, place: Path, head: Head, certify: bool) -> Path:
    from umab.report.folder import write
    from umab.theory.certificates import certifiable
    from umab.theory.certificates import certify as check

    certificates = {
        f"{outcome.experiment.id}, {outcome.setting.name}: {name}": check(curve.policy, outcome.losses, n_trials=5)
        for outcome in run.outcomes
        for name, curve in outcome.curves.items()
        if certify and certifiable(curve.policy)
    }
    return write(run, place, head, certificates=certificates)


def _need_report() -> tuple[Any, Any]:
    """Return the modules of experiments and of report folders, or say what is missing for them."""
    with extra("report", "a report"):
        from umab.experiments import experiment
        from umab.report import folder
    return experiment, folder


def _regrets(run: Run) -> str:
    """Return the final regrets as a table for each experiment and setting."""
    from umab.report import words

    parts = []
    for outcome in run.outcomes:
        stand_in = ", stand-in data" if outcome.stand_in else ""
        name = outcome.setting.name if len(outcome.experiment.settings) > 1 else ""
        title = f"{outcome.experiment.id}{f' ({name})' if name else ''}{stand_in}"
        rows = [(title, "final expected regret", "")]
        for name in outcome.by_regret:
            summary = outcome.curves[name].expected
            rows.append((f"  {name}", words.measured(summary.mean, summary.se), words.standing(outcome, name)))
        parts.append(_table(rows))
    return "\n\n".join(parts)


def _verdicts(run: Run) -> str:
    """Return the verdicts as a table: a row an experiment, a column a setting."""
    if not any(outcome.judged for outcome in run.outcomes):
        return ""
    rows = [("", *run.settings, "claim")]
    for id, outcomes in run.experiments.items():
        by_setting = {outcome.setting.name: outcome for outcome in outcomes if outcome.judged}
        cells = [by_setting[name].verdict if name in by_setting else "" for name in run.settings]
        claim = outcomes[0].experiment.claim or ", ".join(str(each.claim) for each in outcomes[0].judged)
        rows.append((id, *cells, claim + (" (stand-in data)" if outcomes[0].stand_in else "")))
    return "\n" + _table(rows) + "\n"


def certify(options: argparse.Namespace) -> int:
    """Check the statements of the proofs, or search for worst cases; return 1 if one that should hold is violated."""
    _need_report()
    from umab.theory import certificates, worst_cases
    from umab.theory.trajectory import refusal

    for name in options.policy or []:
        if not certificates.certifiable(policy(name)):
            raise TypeError(refusal(policy(name)))
    if options.search:
        cases = []
        for case in worst_cases.find(options.policy or worst_cases.SEARCHED, seed=options.seed):
            row = case.certified
            print(
                f"{case.policy}, {row.id}, {row.form}: {row.verdict}, ratio {row.ratio:.4g}, on {case.losses}",
                flush=True,
            )
            cases.append(case)
        if options.json:
            write_atomically(options.json, worst_cases.as_json(cases).encode())
        return 0
    if not options.losses:
        raise ValueError("certify needs a table of losses, or --search")
    losses = _read_table(options)
    names = options.policy or [
        name
        for name in (recommended().name, "umab-nn", "umab-g", "umab-g-a")
        if not policy(name).refusal(float(losses.table.min()), "")
    ]
    every = {name: certificates.certify(name, losses, n_trials=options.trials, seed=options.seed) for name in names}
    for name, rows in every.items():
        print(f"{name}\n{_table(certificates.as_rows(rows), line=True)}\n")
    print(f"Violated means: by more than {certificates.TOLERANCE:g} of the numbers that were added up.")
    if options.json:
        write_atomically(options.json, certificates.as_json(every))
    rights = [row for rows in every.values() for row in rows if row.form != "as printed"]
    return int(any(row.verdict == "violated" for row in rights))


def show_scaling(options: argparse.Namespace) -> None:
    """Fit and print exponents of growth, and draw them if that is wanted."""
    _, folder_module = _need_report()
    from umab.report.charts import scaling_chart
    from umab.theory.scaling import LEVEL, scaling

    for over in options.over:
        found = [
            scaling(
                name,
                over=over,
                family=options.family,
                n_tables=options.tables,
                n_trials=options.trials,
                seed=options.seed,
            )
            for name in options.policies
        ]
        head = (f"regret over {over}", "exponent", f"{LEVEL:.0%} interval")
        print(
            _table(
                [head, *((each.policy, f"{each.exponent:.3f}", f"{each.low:.3f} to {each.high:.3f}") for each in found)]
            )
        )
        if options.out:
            place = Path(options.out)
            place.mkdir(parents=True, exist_ok=True)
            folder_module.draw(scaling_chart(found), place / f"{options.family}-{over}")
            print(place / f"{options.family}-{over}.png")


def show_data(options: argparse.Namespace) -> int:
    """List, fetch or verify the public tables."""
    from umab.datasets.sources import SOURCES, fetch, status

    for name in options.names:
        if name not in SOURCES:
            raise ValueError(f"a table must be one of {', '.join(SOURCES)}, but got {name!r}")
    chosen = [source for name, source in SOURCES.items() if not options.names or name in options.names]
    failed = False
    for source in chosen:
        problem = ""
        if options.action == "fetch" and not status(source).verified:
            try:
                fetch(source)
            except OSError as error:  # the others may still be had
                problem = f" ({error})"
        found = status(source)
        if found.verified:
            state = f"{found.path} (verified)"
        elif found.problem:
            state = f"damaged: {found.problem}"
        else:
            state = f"not here{problem}"
        failed = failed or bool(found.problem) or (options.action != "list" and not found.verified)
        print(f"{source.name}: {state}\n  {source.size:,} bytes, sha256 {source.sha256}\n  from {source.url}")
    return int(failed)


def list_policies(options: argparse.Namespace) -> None:
    """Print the policies, as a table or by name."""
    if options.names:
        print("\n".join(policies()))
        return
    head = ("name", "range", "sign", "horizon", "sees", "delay", "regret at most of order", "published by")
    rows = [head, *(describe(name) for name in policies())]
    print(_table(rows, line=True))
    print(_LEGEND)


def _table(rows: Sequence[tuple[str, ...]], *, line: bool = False) -> str:
    """Return rows as columns of text, with a line under the first if that is wanted."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if line:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


_LEGEND = """
Regret is expected regret against losses that do not react to the choices (w.h.p.: regret, with high probability),
up to constants, logarithms and terms that do not grow with T. In umab-g and sf-mab these terms hold a loss of size 1,
so losses far below 1 are learned late. n arms, T rounds, ℓ∞ the largest loss in size, ℓ⁻∞ the largest negative one.
All policies run with delayed feedback, with the probabilities of the draws; none of these bounds covers that."""


def describe(name: str) -> tuple[str, ...]:
    """Return the row of a policy: name, setting, guarantee, reference."""
    which = policy(name)
    return (
        name,
        "known" if which.needs_range else "unknown",
        "≥ 0" if which.loss_range == (0.0, LARGEST) else "any",
        "needed" if which.needs_horizon else "not needed",
        "all arms" if which.full_information else "one arm",
        "runs",
        which.guarantee or "no bound",
        which.reference or "–",
    )


if __name__ == "__main__":
    sys.exit(main())
