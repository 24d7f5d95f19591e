"""`umab certify` and `umab scaling`: the statements of the proofs, and how regret grows."""

from __future__ import annotations

import argparse
from pathlib import Path

from umab._support.files import write_atomically
from umab.algorithms.names import policy_as_written
from umab.algorithms.registry import recommended, records
from umab.cli.options import Commands, add_table_options, command, read_table, whole_from
from umab.cli.texts import as_table
from umab.theory.theorems import theorem_of


def add(commands: Commands) -> None:
    """Add the commands."""
    certifying = command(
        commands,
        "certify",
        certify,
        "check every statement of the proofs along runs on a loss table, or search for the worst cases",
        "umab certify losses.csv --policy umab-g-a",
    )
    certifying.add_argument("losses", nargs="?", help="a loss table, as for umab compare; not needed with --search")
    add_table_options(certifying)
    certifying.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        help="check only this policy: umab-w, umab-nn, umab-s, centred(umab-s), umab-sh, centred(umab-sh), scb-d, "
        "centred(scb-d) or a variant of umab-g; can be repeated (default: the recommended ones and the paper's)",
    )
    certifying.add_argument(
        "--trials", type=whole_from(1), default=20, metavar="N", help="number of runs of each policy (default: 20)"
    )
    certifying.add_argument(
        "--seed", type=whole_from(0), default=0, metavar="N", help="seed of the runs or of the search (default: 0)"
    )
    certifying.add_argument(
        "--search", action="store_true", help="search small tables for the worst cases, which takes minutes"
    )
    certifying.add_argument(
        "--delay",
        metavar="N",
        type=int,
        help="by how many rounds losses are late; needs --policy, for scb-d, umab-s or centred(umab-s)",
    )
    certifying.add_argument("--json", metavar="FILE", help="also write the outcome to this file, as JSON")

    growing = command(
        commands,
        "scaling",
        show_scaling,
        "measure how regret grows with the number of rounds, the number of arms, the scale or the delay of the losses",
        "umab scaling umab-nn umab-g --over rounds arms",
    )
    growing.add_argument(
        "policies",
        nargs="*",
        metavar="POLICY",
        default=[recommended().name],
        help="a policy, given as NAME or NAME:KEY=VALUE (default: the recommended policy)",
    )
    growing.add_argument(
        "--over",
        nargs="+",
        choices=("rounds", "arms", "scale", "delay"),
        default=["rounds"],
        help="what varies (default: rounds)",
    )
    growing.add_argument(
        "--family",
        choices=("hard", "turn", "small"),
        default="hard",
        help="kind of losses. hard: coin flips, at the worst of six gaps; turn: the better arm changes late; small: "
        "losses of 1e-8 (default: hard)",
    )
    growing.add_argument(
        "--tables", type=whole_from(2), default=20, metavar="N", help="tables of each size (default: 20)"
    )
    growing.add_argument(
        "--trials", type=whole_from(1), default=5, metavar="N", help="trials on each table (default: 5)"
    )
    growing.add_argument(
        "--seed", type=whole_from(0), default=0, metavar="N", help="seed of the tables and trials (default: 0)"
    )
    growing.add_argument("--out", metavar="FOLDER", help="also draw the growth as PNG and PDF files in this folder")


def certify(options: argparse.Namespace) -> int:
    """Check the statements of the proofs, or search for worst cases; return 1 if one that should hold is violated."""
    from umab.engine.simulate import takes
    from umab.theory import certificates, worst_cases
    from umab.theory.trajectory import refusal

    for name in options.policy or []:
        if why := refusal(policy_as_written(name)):
            raise TypeError(why)
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
        raise ValueError("certify needs a loss table, or --search")
    if options.delay is not None and not options.policy:
        raise ValueError("--delay needs --policy, because few proofs cover late feedback, but got none")
    losses = read_table(options)
    ours = (recommended(), recommended(changing=False))
    names = options.policy or [
        name
        for name, each in records().items()
        if theorem_of(each.policy) and (each.published or each.policy in ours) and takes(each.policy, losses)
    ]
    every = {
        name: certificates.certify(
            policy_as_written(name), losses, delays=options.delay, n_trials=options.trials, seed=options.seed
        )
        for name in names
    }
    for name, rows in every.items():
        print(f"{name}\n{as_table(certificates.as_rows(rows), line=True)}\n")
    print(f"A statement is violated if it fails by more than {certificates.TOLERANCE:g} of the numbers added up.")
    if any(row.verdict == "violated" and row.form == "as printed" for rows in every.values() for row in rows):
        print('"As printed" is the text of the paper; docs/errata.md explains where it does not hold.')
    if options.json:
        write_atomically(options.json, certificates.as_json(every))
    rights = [row for rows in every.values() for row in rows if row.form != "as printed"]
    return int(any(row.verdict == "violated" for row in rights))


def show_scaling(options: argparse.Namespace) -> None:
    """Fit and print exponents of growth, and draw the fits if --out is given."""
    from umab.theory.scaling import LEVEL, scaling

    for over in options.over:
        found = [
            scaling(
                policy_as_written(name),
                over=over,
                family=options.family,
                n_tables=options.tables,
                n_trials=options.trials,
                seed=options.seed,
            )
            for name in options.policies
        ]
        head = (f"expected regret over {over}", "exponent", f"{LEVEL:.0%} interval")
        print(
            as_table(
                [head, *((each.policy, f"{each.exponent:.3f}", f"{each.low:.3f} to {each.high:.3f}") for each in found)]
            )
        )
        if options.out:
            from umab.research.report.charts import scaling_chart
            from umab.research.report.folder import draw

            place = Path(options.out)
            place.mkdir(parents=True, exist_ok=True)
            draw(scaling_chart(found), place / f"{options.family}-{over}")
            print(place / f"{options.family}-{over}.png")
