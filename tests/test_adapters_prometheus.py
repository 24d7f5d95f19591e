"""umab.adapters.prometheus, and the metrics of a learner, as Prometheus' own library reads them."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import umab
from umab.adapters.prometheus import LearnerCollector, register

NASTY = ['"', "\\", "\\n", "\n", "a\nb", '\\"', "ünï ☃ 𝒳", "", " ", "{}", 'arm="x"', "#", ",", "\r", "\t", "e\\"]
"""Labels that a careless writer of the text format breaks at."""

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(metrics: Iterable[Any]) -> Series:
    """Return the samples of metrics by name and labels; no two may have the same."""
    found: Series = {}
    for metric in metrics:
        for sample in metric.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def parsed(text: str) -> Series:
    return series(text_string_to_metric_families(text))


def expected(learner: umab.Learner, labels: Mapping[str, str]) -> Series:
    """Return the samples that the counters ask for."""
    word = "reward" if learner.maximize else "loss"
    names = {
        "selected": "umab_selected_total",
        "updates": "umab_updates_total",
        "expired": "umab_expired_total",
        "open": "umab_open_choices",
        "probability": "umab_probability",
        "mean": f"umab_{word}_mean",
        "latest": f"umab_{word}_latest",
    }
    return {
        (name, frozenset({"arm": str(arm), **labels}.items())): getattr(counter, field)
        for arm, counter in learner.counters().items()
        for field, name in names.items()
        if getattr(counter, field) is not None
    }


def played(arms: Any, **options: Any) -> umab.Learner:
    learner = umab.Learner("umab-g-a", arms, seed=0, **options)
    for at in range(20):
        choice = learner.select()
        if at % 3:
            size = 1e-7 * 10.0**at
            learner.update(choice, reward=size) if learner.maximize else learner.update(choice, size)
    learner.expire(after=10, forget=True)
    return learner


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=True)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("labels", [{}, {"service": "search"}, {f"l{at}": text for at, text in enumerate(NASTY)}])
def test_the_text_the_collector_and_the_counters_agree(
    labels: dict[str, str], maximize: bool, registry: CollectorRegistry
) -> None:
    learner = played([*NASTY, 7, 2.5], maximize=maximize)
    wanted = expected(learner, labels)
    assert len(wanted) > 5 * len(NASTY)
    assert parsed(learner.metrics(labels)) == wanted
    collector = register(learner, registry, labels)
    assert series(collector.collect()) == series(registry.collect()) == wanted
    assert parsed(generate_latest(registry).decode()) == wanted


def test_the_text_has_the_metrics_of_the_collector(registry: CollectorRegistry) -> None:
    learner = played(["a", "b"])
    register(learner, registry)
    ours = list(text_string_to_metric_families(learner.metrics()))
    theirs = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert [(each.name, each.type, each.documentation) for each in ours] == [
        (each.name, each.type, each.documentation) for each in theirs
    ]
    assert {each.type for each in ours} == {"counter", "gauge"}


def test_labels_that_look_the_same_stay_apart() -> None:
    learner = umab.Learner("uniform", arms=["1", 1, "'1'", "2"], seed=0)
    learner.update(1, 5.0)
    learner.update("1", 6.0)
    found = {
        dict(labels)["arm"]: value for (name, labels), value in parsed(learner.metrics()).items() if "mean" in name
    }
    assert found == {"1": 5.0, "'1'": 6.0}
    arms = {dict(labels)["arm"] for _, labels in parsed(learner.metrics())}
    assert len(arms) == 4


def test_every_scrape_reads_the_learner(registry: CollectorRegistry) -> None:
    learner = umab.Learner("uniform", arms=["a"], seed=0)
    register(learner, registry)
    value = registry.get_sample_value
    assert value("umab_selected_total", {"arm": "a"}) == 0.0 and value("umab_loss_mean", {"arm": "a"}) is None
    learner.update(learner.select(), 3.0)
    learner.add_arm("b")
    assert value("umab_selected_total", {"arm": "a"}) == 1.0 and value("umab_loss_mean", {"arm": "a"}) == 3.0
    assert value("umab_probability", {"arm": "b"}) == 0.5


def test_learners_in_one_registry_share_the_metrics(registry: CollectorRegistry) -> None:
    first, second = played(["a", "b"]), played(["b", "c"], maximize=True)
    register(first, registry, {"service": "search"})
    register(second, registry, {"service": "ads"})
    wanted = expected(first, {"service": "search"}) | expected(second, {"service": "ads"})
    assert series(registry.collect()) == wanted
    lines = generate_latest(registry).decode().splitlines()
    heads = [line for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) == 9  # a metric that is named twice is not valid
    names = [line.partition("{")[0] for line in lines if not line.startswith("#")]
    assert all(names[at] == names[at - 1] or names[at] not in names[:at] for at in range(1, len(names)))


def test_learners_may_have_labels_of_different_names(registry: CollectorRegistry) -> None:
    first, second = played(["a"]), played(["a"])
    register(first, registry)
    register(second, registry, {"region": "eu"})
    without = {
        (name, frozenset(each for each in labels if each[1])): value
        for (name, labels), value in series(registry.collect()).items()
    }  # to Prometheus, an empty label is the same as none
    assert without == expected(first, {}) | expected(second, {"region": "eu"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, None),
        (None, {}),
        ({}, {"service": ""}),
        ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}),
        ({"a": "1"}, {"a": 1}),
    ],
)
def test_labels_that_clash_are_refused(one: Any, other: Any, registry: CollectorRegistry) -> None:
    kept = register(played(["a"]), registry, one)
    with pytest.raises(ValueError, match=r"learners in one registry must have different labels, but got labels=\{"):
        register(played(["b"]), registry, other)
    assert series(registry.collect()) == series(kept.collect())


def test_what_is_unregistered_is_gone_and_the_rest_stays(registry: CollectorRegistry) -> None:
    first, second = played(["a"]), played(["a"])
    one, other = register(first, registry, {"n": "1"}), register(second, registry, {"n": "2"})
    one.unregister()
    one.unregister()
    assert series(registry.collect()) == expected(second, {"n": "2"})
    other.unregister()
    assert series(registry.collect()) == {}
    register(first, registry, {"n": "2"})
    assert series(registry.collect()) == expected(first, {"n": "2"})


def test_a_registry_that_was_emptied_can_be_used_again(registry: CollectorRegistry) -> None:
    register(played(["a"]), registry)
    for each in list(registry._collector_to_names):
        registry.unregister(each)
    learner = played(["b"])
    register(learner, registry)
    assert series(registry.collect()) == expected(learner, {})


def test_metrics_of_somebody_else_are_not_touched(registry: CollectorRegistry) -> None:
    Gauge("umab_probability", "Somebody else's.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        register(played(["a"]), registry)


@pytest.fixture
def in_the_default_registry() -> Iterator[tuple[umab.Learner, LearnerCollector]]:
    learner = played(["a"])
    collector = register(learner, labels={"test": "default"})
    yield learner, collector
    collector.unregister()


def test_the_default_registry(in_the_default_registry: tuple[umab.Learner, LearnerCollector]) -> None:
    learner, _ = in_the_default_registry
    text = generate_latest(REGISTRY).decode()
    assert {key: value for key, value in parsed(text).items() if key[0].startswith("umab_")} == expected(
        learner, {"test": "default"}
    )
    assert parsed(generate_latest(REGISTRY.restricted_registry(["umab_selected_total"])).decode())


@pytest.mark.parametrize("name", ["arm", "", "1a", "a-b", "ä", "a b"])
def test_a_label_that_prometheus_does_not_allow_is_refused(name: str, registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="a label must be letters, digits and underscores, and not 'arm'"):
        register(played(["a"]), registry, {name: "x"})
    assert series(registry.collect()) == {}


def test_only_learners_can_be_registered(registry: CollectorRegistry) -> None:
    wrong: Any = "learner.json"
    with pytest.raises(TypeError, match=r"learner must be a umab\.Learner, but got learner='learner\.json'"):
        register(wrong, registry)


def test_a_registry_is_not_kept_alive() -> None:
    registry = CollectorRegistry()
    register(played(["a"]), registry)
    seen = weakref.ref(registry)
    del registry
    gc.collect()
    assert seen() is None


def test_scrapes_and_threads_get_along(registry: CollectorRegistry) -> None:
    learner = umab.Learner("uniform", arms=[0])
    stop, failures = threading.Event(), []

    def scrape() -> None:
        while not stop.is_set():
            try:
                series(registry.collect())
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=scrape)
    thread.start()
    for at in range(100):
        collector = register(learner, registry, {"n": str(at)})
        learner.add_arm(at + 1)
        learner.update(learner.select(), 1.0)
        if at % 2:
            collector.unregister()
    stop.set()
    thread.join()
    assert not failures and len({dict(labels)["n"] for _, labels in series(registry.collect())}) == 50
