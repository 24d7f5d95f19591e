"""Policies: construction, equality, names."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import umab
from toys import umab_g
from umab.algorithms import registry
from umab.algorithms.base import Policy

NAMES = {"umab-nn", "umab-g", "umab-g-a", "umab-g-anytime", "umab-g-none", "uniform"}
positive = st.floats(min_value=5e-324, allow_infinity=False)


def test_the_registry_lists_the_policies_with_a_line_each() -> None:
    listed = umab.policies()
    assert NAMES <= set(listed)
    assert all(line and "\n" not in line for line in listed.values())
    assert len(set(listed.values())) == len(listed)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("umab-nn", umab.UMABNN()),
        ("umab-g", umab.UMABG()),
        ("umab-g-a", umab.UMABGA()),
        ("umab-g-anytime", umab.UMABG(exploration="anytime")),
        ("umab-g-none", umab.UMABG(exploration="none")),
        ("uniform", umab.Uniform()),
        ("umab-g-none:initial_scale=2,rate=4", umab.UMABG(exploration="none", initial_scale=2, rate=4)),
        ("umab-g:horizon=1200,rate=4", umab.UMABG(rate=4, horizon=1200)),
        ("umab-g-a:rate=0.1", umab.UMABGA(rate=0.1)),
    ],
)
def test_names_and_policies_stand_for_each_other(name: str, policy: Policy) -> None:
    assert umab.policy(name) == policy
    assert policy.name == name


@given(
    st.sampled_from(["adaptive", "fixed", "anytime", "none", "maintext"]),
    positive,
    positive,
    st.none() | st.integers(1, 10**12),
)
def test_every_policy_has_a_name_that_gives_it_back(
    exploration: Any, rate: float, scale: float, horizon: int | None
) -> None:
    policy = umab_g(exploration, rate=rate, initial_scale=scale, horizon=horizon)
    assert umab.policy(policy.name) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert eval(repr(policy), {"UMABG": umab.UMABG, "UMABGA": umab.UMABGA}) == policy


def test_umab_g_and_umab_g_a_are_the_algorithms_of_these_names() -> None:
    assert (umab.UMABG().name, umab.UMABGA().name) == ("umab-g", "umab-g-a")
    assert umab.UMABG().for_horizon(80) == umab.UMABG(horizon=80) and not umab.UMABGA().needs_horizon
    losses = np.random.default_rng(0).normal(size=(80, 3))
    fixed, told = (umab.simulate(each, losses, n_trials=3).arms for each in (umab.UMABG(), umab.UMABG(horizon=80)))
    np.testing.assert_array_equal(fixed, told)
    with pytest.raises(ValueError, match=r"'adaptive', 'maintext' .*exploration='fixed'; UMABG has it"):
        umab.UMABGA(exploration="fixed")  # type: ignore[arg-type]


def test_policies_are_immutable_keyword_only_and_comparable() -> None:
    policy = umab.UMABGA(rate=4)
    assert policy == umab.UMABGA(rate=4.0) and hash(policy) == hash(umab.UMABGA(rate=4.0))
    assert policy != umab.UMABGA() and umab.UMABNN() != umab.Uniform()  # type: ignore[comparison-overlap]
    assert repr(policy) == "UMABGA(exploration='adaptive', rate=4.0, initial_scale=1.0)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.rate = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        umab.UMABG("fixed")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"exploration": "much"}, "'fixed', .*exploration='much'"),
        ({"exploration": "adaptive"}, "'fixed', .*exploration='adaptive'; UMABGA has it"),
        ({"exploration": ["fixed"]}, "'fixed', .*exploration=\\['fixed'\\]"),
        ({"rate": 0}, "above 0, .*rate=0"),
        ({"rate": -1.0}, "above 0, .*rate=-1.0"),
        ({"rate": float("inf")}, "finite .*rate=inf"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"rate": "4"}, "number, .*rate='4'"),
        ({"initial_scale": 0.0}, "above 0, .*initial_scale=0"),
        ({"horizon": 0}, "at least 1, .*horizon=0"),
        ({"horizon": 10.5}, "whole number, .*horizon=10.5"),
        ({"horizon": 10**400}, "horizon .*at most 9007199254740992"),
        ({"horizon": True}, "whole number, .*horizon=True"),
    ],
)
def test_bad_parameters_are_refused_at_construction(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.UMABG(**parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: umab.EXP3(low=1, high=1), "above low.* low=1.0 .*high=1.0"),
        (lambda: umab.EXP3IX(low=2, high=1), "above low.* low=2.0 .*high=1.0"),
        (lambda: umab.TsallisINF(low=-1.7e308, high=1.7e308), "above low.* high=1.7e\\+308"),
        (lambda: umab.EXP3P(low=float("nan")), "finite, .*low=nan"),
        (lambda: umab.EXP3(gamma=0.0), "at most 1, .*gamma=0"),
        (lambda: umab.EXP3P(delta=2.0), "at most 1, .*delta=2"),
        (lambda: umab.EXP3P(horizon=0), "at least 1, .*horizon=0"),
        (lambda: umab.EXP3S(segments=0), "at least 1, .*segments=0"),
        (lambda: umab.UMABW(marks=1), "at least 2, .*marks=1"),
        (lambda: umab.policy("umab-w:restarts=some"), "'tried', 'kept', .*restarts='some'"),
        (lambda: umab.policy("sf-mab:exploration=fixed"), "'adaptive', 'anytime', .*exploration='fixed'"),
        (lambda: umab.policy("banker-omd:skipped=gone"), "'usable', 'lost', .*skipped='gone'"),
        (lambda: umab.Learner("exp3", 2), "exp3 .*horizon="),
        (lambda: umab.Learner("banker-omd", 2), "banker-omd .*horizon="),
    ],
)
def test_bad_parameters_of_the_others_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_every_registered_name_gives_itself_back() -> None:
    for name in umab.policies():
        assert umab.policy(name).name == name
    assert umab.BankerOMD(horizon=7, skipped="lost").name == "banker-omd:horizon=7,skipped=lost"
    assert umab.policy("exp3:gamma=0.1,high=5") == umab.EXP3(gamma=0.1, high=5)
    umab.Learner("exp3:gamma=0.1", 2)  # needs no horizon then


def test_what_is_recommended_depends_on_whether_losses_may_change() -> None:
    assert umab.recommended() == umab.recommended(changing=True) == umab.policy("umab-w") == umab.UMABW()
    assert umab.recommended(changing=False) == umab.policy("centred(umab-s)") == umab.Centred(umab.UMABS())
    for text, policy in {
        "recommended": umab.UMABW(),
        "recommended:changing=True,marks=32": umab.UMABW(marks=32),
        "recommended:changing=False": umab.Centred(umab.UMABS()),
        "recommended:changing=False,rate=2": umab.Centred(umab.UMABS(rate=2)),
    }.items():
        assert umab.policy(text) == policy
    with pytest.raises(TypeError, match=r"True or False, .*changing=1"):
        umab.recommended(changing=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UMAB-NN", "'UMAB-NN'; .*'umab-nn'"),
        ("recomended", "one of recommended, .*'recomended'; .*'recommended'"),
        ("umab-gg", "one of .*umab-nn, .*'umab-gg'; .*'umab-g"),
        ("", "one of recommended, .*''$"),
        ("umab-g-a:", "key=value,.*'' in 'umab-g-a:'"),
        ("umab-g-a:rate", "key=value,.*'rate' in"),
        ("umab-g-a:rate=4,", "key=value,.*'rate=4,' in"),
        ("umab-g-a:rate=4,rate=5", "once, .*'rate' .*'umab-g-a:rate=4,rate=5'"),
        ("umab-g-a:rat=4", "umab-g-a .*exploration, rate, initial_scale, .*'rat'"),
        ("umab-nn:rate=4", "umab-nn .*no parameters, .*'rate'"),
        ("umab-g-a:rate=four", "number, .*rate='four'"),
        ("umab-g:horizon=1e3", "whole number, .*horizon='1e3'"),
        ("umab-g-a:rate=-4", "above 0, .*rate=-4"),
        ("recommended:changing=perhaps", "True or False, .*changing='perhaps'"),
        ("recommended:rate=2", "umab-w .*attention, restarts, centre, marks, .*'rate'"),
    ],
)
def test_bad_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        umab.policy(text)
    with pytest.raises(TypeError, match=r"string, .*4"):
        umab.policy(4)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Settings(umab.Uniform):
    flag: bool = False
    gamma: float | None = 0.5
    ratio: int | float = 1
    text: str = "a"


def test_parameters_of_every_plain_type_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("settings", Settings())
    for policy in (Settings(flag=True), Settings(gamma=None), Settings(ratio=2.5), Settings(ratio=3, text="b")):
        assert umab.policy(policy.name) == policy
    assert Settings(flag=True, gamma=None).name == "settings:flag=True,gamma=None"
    with pytest.raises(ValueError, match=r"True or False, .*flag='yes'"):
        umab.policy("settings:flag=yes")
    odd = umab.Learner(Settings(text="a,b"), 2, seed=0)  # has no name that could be read, and can be saved
    assert umab.Learner.from_json(odd.to_json()).policy == odd.policy


def test_a_record_is_found_by_the_policy() -> None:
    """It is that of the nearest name; of a wrapper, the reference of what is inside."""
    known = registry.records()["umab-g-a"]
    near = registry.record_of(umab.UMABGA(rate=3.0))
    assert near.policy == umab.UMABGA(rate=3.0) and (near.reference, near.published) == (known.reference, True)
    assert registry.record_of(umab.UMABG(exploration="none")).published is False
    outside = registry.record_of(umab.Centred(umab.AHB()))
    assert outside.reference == registry.records()["ahb"].reference and not outside.rate_in_norms
    assert registry.record_of(Settings()) == umab.Record(Settings())


def test_a_record_says_what_is_shown_of_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("settings", umab.Record(Settings(flag=True), summary="said", reference="Nobody 2026"))
    assert umab.policies()["settings"] == "said" and umab.policy("settings") == Settings(flag=True)
    assert registry.record_of(Settings(flag=True)).reference == "Nobody 2026"
    umab.register("settings", Settings())
    assert umab.policies()["settings"].startswith("Settings(") and not registry.record_of(Settings()).reference


def test_a_class_that_is_defined_anew_takes_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("settings", Settings())
    again = type("Settings", (Settings,), {"__module__": __name__, "__qualname__": "Settings", "__doc__": "second"})
    umab.register("settings", again())
    assert umab.policies()["settings"] == "second" and type(umab.policy("settings")) is again


def test_registering_a_name_that_is_taken_or_odd_is_refused() -> None:
    before = umab.policies()
    with pytest.raises(ValueError, match=r"new, .*'umab-nn'"):
        umab.register("umab-nn", umab.Uniform())
    with pytest.raises(ValueError, match=r"letters, digits and dashes .*'a:b'"):
        umab.register("a:b", umab.Uniform())
    with pytest.raises(TypeError, match=r"umab\.Policy .*Uniform"):
        umab.register("mine", umab.Uniform)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"umab\.Policy, .*'umab-nn'"):
        umab.Record("umab-nn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"letters, digits and dashes .*None"):
        umab.register(None, umab.Uniform())  # type: ignore[arg-type]
    assert umab.policies() == before
