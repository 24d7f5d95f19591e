"""What Prometheus can know about a server. Labels are few: routes, states, and the first experiments and arms."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from umab_service.experiment import Experiment
from umab_service.service import Service

MOST_SERIES = 2_000
"""How many pairs of an experiment and an arm have series of their own; the others are left out."""

CONTENT_TYPE = CONTENT_TYPE_LATEST

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class _Times:
    """How long answers took: how many up to each bound, and in all."""

    def __init__(self) -> None:
        self.counts, self.total = [0] * (len(_BUCKETS) + 1), 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound with how many answers took at most so long."""
        bounds = [*(str(bound) for bound in _BUCKETS), "+Inf"]
        return list(zip(bounds, itertools.accumulate(self.counts), strict=True))


class Metrics:
    """Counts requests, and reads the rest from the service when asked."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._service = service
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, _Times] = {}
        self.registry.register(self)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request. The library's own counters take locks, which nobody needs here: there is one thread."""
        self._counts[route, status] = self._counts.get((route, status), 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = _Times()
        times.counts[bisect.bisect_left(_BUCKETS, seconds)] += 1
        times.total += seconds

    def text(self) -> bytes:
        """Return everything, as Prometheus reads it."""
        return bytes(generate_latest(self.registry))  # type: ignore[no-untyped-call]

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the experiments."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what the service knows."""
        service = self._service
        experiments = list(service.experiments.values())
        yield _gauge("umab_experiments", "Experiments.", len(experiments))
        yield _gauge("umab_open_choices", "Choices that wait for feedback.", sum(each.n_open for each in experiments))
        yield _gauge(
            "umab_events_since_snapshots",
            "Events that a start would replay.",
            sum(each.n_since for each in experiments),
        )
        for name, text, count in (
            ("umab_commits", "Commits.", service.writer.n_commits),
            ("umab_failed_commits", "Commits that failed.", service.n_failed),
            ("umab_learned", "Feedback that was learned.", service.counts["learned"]),
            ("umab_parts", "Parts of sums that were accepted.", service.counts["accepted"]),
            ("umab_late", "Feedback that came too late to be learned.", service.counts["late"]),
            ("umab_expired", "Choices learned from when their wait ended.", service.counts["expired"]),
            ("umab_forgotten", "Choices forgotten when their wait ended.", service.counts["forgotten"]),
        ):
            family = CounterMetricFamily(name, text)
            family.add_metric([], count)
            yield family
        requests = CounterMetricFamily("umab_requests", "Requests.", labels=("route", "status"))
        for (route, status), count in self._counts.items():
            requests.add_metric([route, str(status)], count)
        seconds = HistogramMetricFamily("umab_request_seconds", "Time to answer.", labels=("route",))
        for route, times in self._times.items():
            seconds.add_metric([route], times.buckets(), times.total)
        yield from (requests, seconds, *_by_arm(experiments))


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _by_arm(experiments: list[Experiment]) -> Iterator[Metric]:
    labels = ("experiment", "arm")
    draws = CounterMetricFamily("umab_draws", "Draws of an arm.", labels=labels)
    feedback = CounterMetricFamily("umab_feedback", "Feedback for an arm.", labels=labels)
    sums = GaugeMetricFamily("umab_feedback_sum", "Sum of the losses, or rewards, of an arm.", labels=labels)
    n_series = 0
    for experiment in experiments:
        if n_series + len(experiment.learner.arms) > MOST_SERIES:
            break
        for arm, counter in experiment.learner.counters().items():
            n_series += 1
            draws.add_metric([experiment.name, str(arm)], counter.selected)
            feedback.add_metric([experiment.name, str(arm)], counter.updates)
            sums.add_metric([experiment.name, str(arm)], counter.updates * (counter.mean or 0.0))
    yield from (draws, feedback, sums)
