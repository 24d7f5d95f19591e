"""What to watch: the alerts, and the panels of the dashboard. `pages/deploy.py` makes files of them."""

from __future__ import annotations

from typing import NamedTuple

from umab_service.silence import MOST_SINCE_SNAPSHOTS


class Alert(NamedTuple):
    """A rule for Prometheus, and what whoever is woken by it should know."""

    name: str
    expression: str
    lasting: str
    """How long it must be so before somebody is told."""
    severity: str
    when: str
    """The expression in words."""
    action: str
    """What it means, and where to look."""


class Query(NamedTuple):
    """Lines of a panel."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """A panel of the dashboard."""

    title: str
    about: str
    unit: str
    queries: list[Query]
    kind: str = "timeseries"
    stacked: bool = False


DECISIONS_AND_FEEDBACK = 'route=~".*/(decisions|feedback)"'
PROBES = 'route!~"GET /(healthz|readyz|metrics)"'
SLOW = 0.05
"""In seconds: what 99 of 100 decisions must not take longer than."""

_UNHEARD = "sum(increase(umab_expired_total[6h])) + sum(increase(umab_forgotten_total[6h]))"

ALERTS = [
    Alert(
        "UmabDown",
        'up{job="umab"} == 0',
        "1m",
        "critical",
        "Prometheus cannot read the metrics of a server",
        "The server is down or out of reach, or the key of Prometheus is wrong. Its last lines of output say why.",
    ),
    Alert(
        "UmabNotReady",
        'increase(umab_requests_total{route="GET /readyz", status="503"}[2m]) > 0',
        "1m",
        "critical",
        "a server answers `/readyz` with 503",
        "It reads its log again after a failure of the database. Something must ask `/readyz`, as the proxy does.",
    ),
    Alert(
        "UmabCannotStore",
        "increase(umab_failed_commits_total[5m]) > 0",
        "0m",
        "warning",
        "a commit has failed",
        "Nothing that was acknowledged is lost, and clients were told to try again. Look at the disk or the database.",
    ),
    Alert(
        "UmabStoresNothing",
        "increase(umab_failed_commits_total[5m]) > 0 and increase(umab_commits_total[5m]) == 0",
        "2m",
        "critical",
        "commits fail, and none succeeds",
        "The disk is full or read-only, or the database is full or away. The server goes on by itself afterwards.",
    ),
    Alert(
        "UmabFails",
        f'sum(rate(umab_requests_total{{status=~"5..", {PROBES}}}[5m]))'
        f" / sum(rate(umab_requests_total{{{PROBES}}}[5m])) > 0.01",
        "5m",
        "critical",
        "more than 1% of requests have a status of 500 or above",
        "503 means that nothing could be stored; 500 is a bug, and the output of the server has its trace.",
    ),
    Alert(
        "UmabSlow",
        "histogram_quantile(0.99, "
        f"sum by (instance, le) (rate(umab_request_seconds_bucket{{{DECISIONS_AND_FEEDBACK}}}[5m]))) > {SLOW}",
        "10m",
        "warning",
        f"1 of 100 decisions and feedbacks takes more than {1000 * SLOW:.0f} ms",
        "Look at the disk or the database first, since each answer waits for a commit; then at the processor.",
    ),
    Alert(
        "UmabMostlySilence",
        f"({_UNHEARD}) / ({_UNHEARD} + sum(increase(umab_learned_total[6h]))) > 0.5",
        "30m",
        "warning",
        "most waits of the last 6 hours ended without feedback",
        "Feedback is lost on its way, or the wait is too short. Leave this alert out if most experiments learn sums, "
        "which are learned when their wait ends.",
    ),
    Alert(
        "UmabNoFeedback",
        "sum by (experiment) (increase(umab_draws_total[1h])) > 100"
        " unless sum by (experiment) (increase(umab_feedback_total[1h])) > 0"
        " and sum by (experiment) (umab_feedback_total) > 0",
        "10m",
        "warning",
        "an experiment made more than 100 decisions in an hour, and learned nothing, though it had feedback before",
        "Look at the program that sends feedback. An experiment with a default for silence goes on learning that: "
        "`UmabMostlySilence` is for those.",
    ),
    Alert(
        "UmabOpenChoicesGrow",
        "sum(umab_open_choices) > 2 * sum(umab_open_choices offset 1d) and sum(umab_open_choices) > 10000",
        "1h",
        "warning",
        "more than 10,000 choices are open, twice as many as a day ago",
        "An experiment without a `wait` keeps its decisions open for ever if they get no feedback.",
    ),
    Alert(
        "UmabNoSnapshots",
        f"umab_events_since_snapshots > {2 * MOST_SINCE_SNAPSHOTS}",
        "15m",
        "warning",
        f"more than {2 * MOST_SINCE_SNAPSHOTS:,} events lie after the last snapshots",
        "Snapshots are not made, so that the next start takes long. The output of the server names the experiment.",
    ),
    Alert(
        "UmabWrongKeys",
        'sum(rate(umab_requests_total{status=~"401|429"}[10m])) > 1',
        "10m",
        "warning",
        "more than one request in a second has a wrong key, or none",
        "A program has lost its key, or somebody guesses, and is slowed down.",
    ),
]


def _by_arm(metric: str) -> str:
    return f'sum by (experiment, arm) ({metric}{{experiment=~"$experiment"}})'


def _changes_by_arm(function: str, metric: str, labels: str = "experiment, arm") -> str:
    return f'sum by ({labels}) ({function}({metric}{{experiment=~"$experiment"}}[$__rate_interval]))'


def _rates(metrics: dict[str, str], labels: str = "") -> list[Query]:
    by = f" by ({labels})" if labels else ""
    return [Query(f"sum{by} (rate({name}[$__rate_interval]))", legend) for name, legend in metrics.items()]


def _quantile(share: float, matchers: str, labels: str) -> str:
    rates = f"rate(umab_request_seconds_bucket{matchers}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({labels}) ({rates}))"


ARM = "{{experiment}}: {{arm}}"

ROWS: dict[str, list[list[Panel]]] = {
    "Servers": [
        [
            Panel(
                "Servers up",
                "How many servers answer Prometheus.",
                "short",
                [Query('sum(up{job="umab"})', "servers")],
                "stat",
            ),
            Panel(
                "Experiments",
                "How many experiments the servers keep.",
                "short",
                [Query("sum(umab_experiments)", "experiments")],
                "stat",
            ),
            Panel(
                "Open choices",
                "How many choices wait for feedback now.",
                "short",
                [Query("sum(umab_open_choices)", "open")],
                "stat",
            ),
            Panel(
                "99% of decisions and feedbacks take at most",
                f"Above {SLOW:g} s for long, there is an alert.",
                "s",
                [Query(_quantile(0.99, f"{{{DECISIONS_AND_FEEDBACK}}}", "le"), "99%")],
                "stat",
            ),
        ],
        [
            Panel(
                "Requests by route",
                "Requests in a second, whatever came of them. One that a server passes on to another counts at both.",
                "reqps",
                _rates({"umab_requests_total": "{{route}}"}, "route"),
            ),
            Panel(
                "Errors by route",
                "Requests in a second with a status of 400 or above. 4xx is the client's doing, 5xx the server's.",
                "reqps",
                _rates({'umab_requests_total{status=~"[45].."}': "{{status}} {{route}}"}, "route, status"),
            ),
        ],
        [
            Panel(
                "Time for decisions and feedback",
                "Half, nine in ten, and 99 of 100 answers take at most so long. Each waits for a commit.",
                "s",
                [
                    Query(_quantile(share, f"{{{DECISIONS_AND_FEEDBACK}}}", "le"), f"{100 * share:.0f}%")
                    for share in (0.5, 0.9, 0.99)
                ],
            ),
            Panel(
                "Time by route",
                "99 of 100 answers take at most so long. Reports and exports may take their time.",
                "s",
                [Query(_quantile(0.99, "", "route, le"), "{{route}}")],
            ),
        ],
        [
            Panel(
                "Commits",
                "Commits in a second, and those that failed. Requests that come together share one.",
                "ops",
                _rates(
                    {"umab_commits_total": "{{instance}}", "umab_failed_commits_total": "failed: {{instance}}"},
                    "instance",
                ),
            ),
            Panel(
                "Events since snapshots",
                "How many events a start would replay.",
                "short",
                [Query("sum by (instance) (umab_events_since_snapshots)", "{{instance}}")],
            ),
        ],
    ],
    "Learning": [
        [
            Panel(
                "Open choices",
                "Choices that wait for feedback. If they only grow, feedback is lost, and an experiment has no wait.",
                "short",
                [Query("sum by (instance) (umab_open_choices)", "{{instance}}")],
            ),
            Panel(
                "What came of choices",
                "In a second. Expired: the default was learned, or a sum. Forgotten: the wait ended without feedback. "
                "Late: feedback came after the wait.",
                "ops",
                _rates(
                    {
                        "umab_learned_total": "learned",
                        "umab_parts_total": "parts of sums",
                        "umab_expired_total": "expired",
                        "umab_forgotten_total": "forgotten",
                        "umab_late_total": "late",
                    }
                ),
            ),
        ],
    ],
    "Arms": [
        [
            Panel(
                "Draws by arm",
                "Decisions in a second.",
                "ops",
                [Query(_changes_by_arm("rate", "umab_draws_total"), ARM)],
            ),
            Panel(
                "Share of draws by arm",
                "Which part of the decisions of its experiment an arm gets.",
                "percentunit",
                [
                    Query(
                        f"{_changes_by_arm('rate', 'umab_draws_total')} / ignoring (arm) group_left "
                        f"{_changes_by_arm('rate', 'umab_draws_total', 'experiment')}",
                        ARM,
                    )
                ],
                stacked=True,
            ),
        ],
        [
            Panel(
                "Mean loss by arm, lately",
                "Of the feedback between two points of the graph; a reward if the experiment maximizes.",
                "none",
                [  # delta of both, so that what it adds at the ends of the range cancels out
                    Query(
                        f"{_changes_by_arm('delta', 'umab_feedback_sum')} / "
                        f"{_changes_by_arm('delta', 'umab_feedback_total')}",
                        ARM,
                    )
                ],
            ),
            Panel(
                "Mean loss by arm, of all feedback",
                "Since the experiment began; a reward if the experiment maximizes.",
                "none",
                [Query(f"{_by_arm('umab_feedback_sum')} / {_by_arm('umab_feedback_total')}", ARM)],
            ),
        ],
    ],
}
"""The rows of the dashboard; below each, lines of panels that share the width."""
