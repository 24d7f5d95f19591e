"""A learner's counters in Prometheus' Python library (extra ``[metrics]``)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence

from umab._support.checks import shown
from umab._support.extras import extra
from umab.online.learner import Learner
from umab.online.metrics import Family, families

with extra("metrics", "umab.adapters.prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Metric = CounterMetricFamily | GaugeMetricFamily


class LearnerCollector:
    """A learner whose counters are read at every scrape; `register` returns it.

    Attributes
    ----------
    learner
        The learner.
    labels
        Its labels beside the arm.
    """

    def __init__(self, learner: Learner, labels: Mapping[str, str]) -> None:
        self.learner = learner
        self.labels = dict(labels)
        self._group = _Group(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this learner, as they are now."""
        return _metrics([self])

    def unregister(self) -> None:
        """Take the learner out of its registry. The other learners of the registry stay."""
        with _LOCK:
            self._group.members = tuple(each for each in self._group.members if each is not self)


class _Group:
    """The learners of a registry.

    To the registry they are one collector: a page of metrics must name each metric once, with the samples of all
    learners under it.
    """

    def __init__(self, first: LearnerCollector) -> None:
        self.members: tuple[LearnerCollector, ...] = (first,)  # replaced as a whole: a scrape may be reading it

    def add(self, new: LearnerCollector) -> None:
        """Add a learner, whose labels must be new: otherwise its samples could not be told from another's."""
        if any(_told_apart_by(each) == _told_apart_by(new) for each in self.members):
            raise ValueError(
                f"learners in one registry must have different labels, but got labels={new.labels!r} a second time"
            )
        self.members = (*self.members, new)
        new._group = self

    def describe(self) -> Iterator[Metric]:
        """Yield all metrics that a learner may have, without samples, so that the registry knows their names."""
        described = {family.name: family for maximize in (False, True) for family in families({}, maximize)}
        return (_metric(family, []) for family in described.values())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all learners."""
        return _metrics(self.members)


_GROUPS: weakref.WeakKeyDictionary[CollectorRegistry, _Group] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def register(
    learner: Learner, registry: CollectorRegistry | None = None, labels: Mapping[str, str] | None = None
) -> LearnerCollector:
    """Let Prometheus read a learner's counters at every scrape.

    Parameters
    ----------
    learner
        The learner. It is kept until it is unregistered.
    registry
        Where to register it; None means the default registry of prometheus_client.
    labels
        Labels beside the arm, such as ``{"service": "search"}``. Learners in one registry need different ones.

    Returns
    -------
    LearnerCollector
        Its method `unregister` undoes this.

    Notes
    -----
    The metrics are the ones of `Learner.metrics`. Like all custom collectors, this one does not work in the
    multiprocess mode of prometheus_client: let Prometheus scrape each process.

    Examples
    --------
    >>> import prometheus_client
    >>> import umab
    >>> from umab.adapters.prometheus import register
    >>> registry = prometheus_client.CollectorRegistry()
    >>> learner = umab.Learner("umab-g-a", arms=["eu", "us"], seed=0)
    >>> collector = register(learner, registry, labels={"service": "search"})
    >>> choice = learner.select()
    >>> registry.get_sample_value("umab_open_choices", {"arm": choice.arm, "service": "search"})
    1.0
    >>> collector.unregister()
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a umab.Learner, but got learner={shown(learner)}")
    own = {name: str(value) for name, value in (labels or {}).items()}
    learner.metrics(own)  # raises if a label has a name that Prometheus does not allow
    registry = REGISTRY if registry is None else registry
    new = LearnerCollector(learner, own)
    with _LOCK:
        try:
            registry.register(new._group)
        except ValueError:  # the names are taken, by a group that is here already or by metrics of somebody else
            if registry not in _GROUPS:
                raise
            _GROUPS[registry].add(new)
        else:
            _GROUPS[registry] = new._group
    return new


def _told_apart_by(collector: LearnerCollector) -> dict[str, str]:
    """Return the labels that tell a learner from others: to Prometheus, an empty label is the same as none."""
    return {name: value for name, value in collector.labels.items() if value}


def _metrics(members: Sequence[LearnerCollector]) -> Iterator[Metric]:
    """Yield each metric once, with the samples of all learners that have it."""
    names = list(dict.fromkeys(name for each in members for name in each.labels))
    found: dict[str, Metric] = {}
    for each in members:
        labels = [each.labels.get(name, "") for name in names]
        for family in families(each.learner.counters(), each.learner.maximize):
            metric = found.setdefault(family.name, _metric(family, names))
            for arm, value in family.samples.items():
                metric.add_metric([arm, *labels], value)
    yield from found.values()


def _metric(family: Family, names: Sequence[str]) -> Metric:
    """Return a metric without samples, with these labels beside the arm."""
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.text, labels=["arm", *names])
