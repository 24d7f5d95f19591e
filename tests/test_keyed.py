"""A learner for each key: what it does, and that neither the memory bound nor a crash changes it."""

from __future__ import annotations

import contextlib
import copy
import datetime
import gc
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import umab
from helpers import PATIENCE, deaf
from umab.errors import ClosedChoiceError, ForeignChoiceError
from umab.online import forks, keyed_store
from umab.online.core import Core
from umab.online.keyed import Learners, _seed_for
from umab.online.keyed_learner import KeyedLearner

POLICY = "umab-g-a:rate=4"
ARMS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, in which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    for name in ("TMPDIR", "SQLITE_TMPDIR"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


def play(learner: umab.Learner, n_rounds: int = 1) -> list[Any]:
    """Play some rounds and return what was drawn, without the ids."""
    drawn = []
    for _ in range(n_rounds):
        choice = learner.select()
        learner.update(choice, choice.index - 1.0)
        drawn.append(choice[:3])
    return drawn


def content(learner: umab.Learner) -> dict[str, Any]:
    """Return all that is saved but the ids, which are random, and the times."""
    saved = json.loads(learner.to_json())
    del saved["ids"]["space"], saved["open"]["time"]
    return saved  # type: ignore[no-any-return]


def n_in_memory(learners: Learners) -> int:
    return sum(each._loaded is not None for each in learners._held.values())


def test_each_key_learns_for_itself() -> None:
    with Learners(POLICY, ARMS, seed=1) as learners:
        german = learners["de"]
        assert isinstance(german, umab.Learner)
        play(german, 50)
        assert learners["fr"].probabilities() == pytest.approx(1 / 3)
        assert learners["de"] is german and german.key == "de"
        assert german.probabilities()[0] > 0.5
        assert list(learners) == ["de", "fr"] and len(learners) == 2
        assert "de" in learners and "es" not in learners and 5 not in learners and "" not in learners
        assert len(learners) == 2
        assert learners.arms == ("a", "b", "c") and learners.policy == umab.policy(POLICY) and not learners.maximize
        assert repr(learners) == "<Learners('umab-g-a:rate=4', arms=['a', 'b', 'c']) with 2 keys>"
        assert repr(german) == "KeyedLearner('de', 'umab-g-a:rate=4')"
    with Learners("umab-w", 2, maximize=True) as learners:
        learners["x"].update(0, reward=1.0)
        assert "maximize=True" in repr(learners)


def test_the_loop_over_keys_is_in_the_order_of_creation() -> None:
    with Learners("uniform", 2, in_memory=3) as learners:
        keys = [f"{number * 7 % 601}" for number in range(601)]  # more than are read at once
        for key in keys:
            learners._store.add(key)  # as learners[key], without its core
        assert list(learners) == keys and len(learners) == 601
        for key in keys[::2]:
            del learners[key]
        assert list(learners) == keys[1::2] and len(learners) == 300
        _ = learners[keys[0]]
        assert list(learners) == [*keys[1::2], keys[0]]


def test_the_draws_of_a_key_depend_on_the_seed_and_the_key_only() -> None:
    with Learners(POLICY, ARMS, seed=1) as first, Learners(POLICY, ARMS, seed=1) as second:
        drawn = {key: play(first[key], 30) for key in ("x", "y", "z")}
        assert {key: play(second[key], 30) for key in ("z", "x", "y")} == drawn
        assert drawn["x"] != drawn["y"]
    with Learners(POLICY, ARMS, seed=2) as other:
        assert play(other["x"], 30) != drawn["x"]
    with Learners(POLICY, ARMS) as first, Learners(POLICY, ARMS) as second:
        assert play(first["x"], 50) != play(second["x"], 50)


def test_a_bounded_number_is_in_memory() -> None:
    def n_cores() -> int:
        gc.collect()
        return sum(type(each) is Core for each in gc.get_objects())

    with Learners(POLICY, ARMS, in_memory=3) as learners:
        before = n_cores()
        for number in range(40):
            play(learners[str(number % 20)])
            assert n_in_memory(learners) <= 3
        assert n_cores() == before + 3
        assert len(learners._held) == 3


def test_the_least_recently_used_learner_is_evicted() -> None:
    with Learners(POLICY, ARMS, in_memory=3) as learners:
        for key in ("a", "b", "c", "d"):  # the first look: all were used
            play(learners[key])
        assert list(learners._memory) == ["b", "c", "d"]
        play(learners["b"])
        play(learners["e"])
        assert set(learners._memory) == {"b", "d", "e"}


def test_a_learner_that_somebody_holds_survives_its_eviction() -> None:
    with Learners(POLICY, ARMS, in_memory=1, seed=3) as learners:
        held = learners["a"]
        choice, lost = held.select(2)
        for key in "bcd":
            play(learners[key])
        assert held._loaded is None
        assert learners.n_open == 2
        assert learners["a"] is held
        play(learners["b"])
        assert held._loaded is None
        held.update(choice, 2.0)
        assert held.n_open == 1 == learners.n_open
        assert held.outstanding == (lost,)
        with pytest.raises(ClosedChoiceError):
            held.update(choice, 2.0)
        assert held.counters()[choice.arm].updates == 1
        play(learners["b"])
        assert held.expire(datetime.timedelta(0), forget=True) == [lost]
        assert learners.n_open == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("select"), st.sampled_from("xyz")),
        st.tuples(st.just("among"), st.sampled_from("xyz")),
        st.tuples(st.just("update"), st.sampled_from("xyz")),
        st.tuples(st.just("forget"), st.sampled_from("xyz")),
        st.tuples(st.just("delete"), st.sampled_from("xyz")),
        st.tuples(st.just("add"), st.sampled_from("def")),
        st.tuples(st.just("remove"), st.sampled_from("abcdef")),
        st.tuples(st.just("set"), st.permutations("abcd").map(lambda arms: "".join(arms[:3]))),
        st.tuples(st.just("save"), st.just("")),
    ),
    max_size=30,
)


@settings(max_examples=15)
@given(STEPS, st.sampled_from([POLICY, "centred(umab-s)", "banker-omd:horizon=100"]))
def test_neither_the_memory_bound_nor_saving_changes_a_result(steps: list[tuple[str, str]], policy: str) -> None:
    """Three of them, with room for 1, 2 and 1000 learners, and a plain learner for each key, do the same."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bounds = (1, 2, 1000)
        several = [stack.enter_context(Learners(policy, ARMS, seed=5, in_memory=bound)) for bound in bounds]
        model: dict[str, umab.Learner] = {}
        arms = list(ARMS)

        def each(key: str) -> list[umab.Learner]:
            if key not in model:
                model[key] = umab.Learner(policy, arms, seed=_seed_for(5, key))
            return [model[key], *(learners[key] for learners in several)]

        for number, (action, value) in enumerate(steps):
            if action in ("select", "among"):
                among = arms[: len(arms) // 2 + 1] if action == "among" else None
                first, *others = [learner.select(among=among)[:3] for learner in each(value)]
                assert others == [first] * 3
            elif action in ("update", "forget"):
                for learner in each(value):
                    if learner.outstanding:
                        choice = learner.outstanding[number % learner.n_open]
                        if action == "update":
                            learner.update(choice, choice.index * 0.5 + number)
                        else:
                            learner.forget(choice)
            elif action == "delete":
                if model.pop(value, None) is not None:
                    for learners in several:
                        del learners[value]
            elif action == "save":
                for at, bound in enumerate(bounds):
                    several[at].save(folder / "saved")
                    several[at].close()
                    several[at] = stack.enter_context(Learners.load(folder / "saved", in_memory=bound))
            else:
                if action == "add" and value not in arms:
                    arms = [*arms, value]
                elif action == "remove" and value in arms and len(arms) > 1:
                    arms = [arm for arm in arms if arm != value]
                elif action == "set":
                    arms = list(value)
                else:
                    continue
                for learners in several:
                    if action == "add":
                        learners.add_arm(value)
                    elif action == "remove":
                        learners.remove_arm(value)
                    else:
                        learners.set_arms(arms)
                for learner in model.values():
                    learner.set_arms(arms)
                    learner.to_json()  # so that the next change is another one
        for learners in several:
            assert list(learners) == list(model) and len(learners) == len(model)
            assert learners.n_open == sum(learner.n_open for learner in model.values())
            assert learners.arms == tuple(arms)
            assert {key: content(learners[key]) for key in learners} == {key: content(model[key]) for key in model}


def test_arms_change_for_all_keys() -> None:
    with Learners(POLICY, ARMS, in_memory=2, seed=0) as learners:
        held = learners["a"]
        choice = held.select()
        for key in "bcd":
            play(learners[key], 20)
        learners.remove_arm(choice.arm)
        learners.add_arm("new")
        arms = (*(arm for arm in ARMS if arm != choice.arm), "new")
        for key in "abcde":
            assert learners[key].arms == arms == learners.arms
        held.update(choice, 3.0)  # of an arm that is gone
        assert learners.n_open == 0
        learners.set_arms([1, 2.5, "a"])
        assert learners["d"].arms == held.arms == (1, 2.5, "a")
        assert type(held.arms[0]) is int


@pytest.mark.parametrize("in_memory", [1, 1000])
def test_each_change_of_arms_is_one_of_its_own(in_memory: int) -> None:
    with Learners(POLICY, ARMS, in_memory=in_memory, seed=0) as learners:
        for key in "xy":
            play(learners[key], 50)
        best = [learners[key].probabilities()[0] for key in "xy"]
        assert min(best) > 0.5
        learners.add_arm("d")
        learners.remove_arm("a")
        for key, p in zip("xy", best, strict=True):  # as one change, it would have a third
            assert learners[key].probabilities()[2] == pytest.approx(0.25 / (1.0 - 0.75 * p))


def test_arms_cannot_be_changed_for_one_key_or_wrongly() -> None:
    with Learners(POLICY, ARMS) as learners:
        learner = learners["a"]
        for name, arms in (("add_arm", "d"), ("remove_arm", "a"), ("set_arms", ["d"])):
            with pytest.raises(TypeError, match=f"same for all keys.*key='a'.*{name} of the Learners"):
                getattr(learner, name)(arms)
        for name, value, message in (
            ("add_arm", "a", "'a' appears 2 times"),
            ("remove_arm", "d", "arm must be one of 'a', 'b', 'c', but got arm='d'"),
            ("set_arms", [], "at least one label"),
            ("set_arms", 3, "sequence of labels, but got arms=3"),
        ):
            with pytest.raises((ValueError, TypeError), match=message):
                getattr(learners, name)(value)
        assert learners._store.version == 0
        learners.set_arms(["only"])
        with pytest.raises(ValueError, match="at least one arm, but 'only' is the last"):
            learners.remove_arm("only")
        assert learner.arms == learners["b"].arms == ("only",)


def test_it_continues_from_a_file_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "learners.db"
    with Learners(POLICY, ARMS, path=path, in_memory=2, seed=4) as learners:
        for number in range(30):
            play(learners[f"{number % 5}"])
            learners[f"{number % 3}"].select()
        learners.add_arm("d")
        learners.save()
        saved = {key: learners[key].to_json() for key in learners}
        learners.save(tmp_path / "copy.db")
        with Learners.load(path, in_memory=1) as again, Learners.load(tmp_path / "copy.db") as copied:
            assert {key: again[key].to_json() for key in again} == saved
            assert {key: copied[key].to_json() for key in copied} == saved
            assert again.n_open == 30 and again.arms == learners.arms
            for key in (*saved, "new"):
                assert play(again[key], 20) == play(learners[key], 20) == play(copied[key], 20)
            again["0"].update(learners["0"].outstanding[0], 1.0)  # the same ids
            again.save()
        with Learners.load(path) as third:
            assert third.n_open == 29 and len(third) == 6
    assert {each.name for each in tmp_path.iterdir()} == {"learners.db", "copy.db", "temporary"}


def test_a_fresh_load_is_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "learners.db"
    with Learners(POLICY, ARMS, path=path, seed=4) as learners:
        play(learners["a"], 50)
        choice = learners["a"].select()
        learners.save()
        with Learners.load(path, fresh=True, in_memory=1) as fresh:
            assert fresh.n_open == 0 == fresh["a"].n_open
            assert (fresh["a"].probabilities() == learners["a"].probabilities()).all()
            assert play(fresh["a"], 60) != play(learners["a"], 60)
            with pytest.raises(ForeignChoiceError):
                fresh["a"].update(choice, 1.0)
            with pytest.raises(ValueError, match="path=None"):
                fresh.save()
            assert play(fresh["b"], 60) != play(learners["b"], 60)
            fresh.save(tmp_path / "fresh.db")
            with Learners.load(tmp_path / "fresh.db") as again:
                assert content(again["a"]) == content(fresh["a"])


KILLED = f"""
import sys, umab
from umab.online.keyed import Learners
learners = Learners({POLICY!r}, {ARMS!r}, path=sys.argv[1], in_memory=2)
for number in range(10**6):
    for key in "abcde":
        learner = learners[key]
        learner.update(learner.select(), 1.0)
    if number % 3 == 0:
        learners.save()
        print(number + 1, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_after_a_kill_all_keys_are_as_they_were_last_saved(tmp_path: Path, temporary: Path) -> None:
    path = tmp_path / "learners.db"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(5)]
    time.sleep(time.time() % 0.05)  # in the middle of anything
    process.kill()
    lines += process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    told = int(lines[-1])
    with Learners.load(path) as learners:
        assert list(learners) == list("abcde")
        updates = {sum(each.updates for each in learners[key].counters().values()) for key in learners}
        assert updates in ({told}, {told + 3})  # a save may have ended without having been told
        assert learners.n_open == 0
    for left in (*temporary.glob("umab-*/*"), *temporary.glob("umab-*")):  # of a save that was killed
        left.unlink() if left.is_file() else left.rmdir()


def test_saving_never_leaves_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "learners.db"
    with Learners(POLICY, ARMS, path=path, in_memory=1) as learners:
        play(learners["a"])
        learners.save()
        before = path.read_bytes()
        for _ in range(3):
            play(learners["a"])
            play(learners["b"])  # evictions change no file
        assert path.read_bytes() == before

        def fail(*_: Any) -> None:
            raise OSError("the disk is on fire")

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", fail)
            with pytest.raises(OSError, match="fire"):
                learners.save()
        assert path.read_bytes() == before
        learners.save()
        assert path.read_bytes() != before
        with pytest.raises(FileNotFoundError, match="no folder"):
            learners.save(tmp_path / "nowhere" / "x")


def in_threads(*works: Callable[[], None]) -> None:
    """Do all works at the same time, and raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive(), "it is deadlocked"
    if errors:
        raise errors[0]


def test_threads_share_it(tmp_path: Path) -> None:
    keys, n_rounds = "abcdef", 40
    with Learners(POLICY, ARMS, in_memory=2) as learners:
        held = {key: learners[key] for key in keys}

        def work(offset: int) -> Callable[[], None]:
            def rounds() -> None:
                for number in range(n_rounds):
                    key = keys[(number * (offset + 1)) % len(keys)]
                    learner = held[key] if number % 2 else learners[key]
                    learner.update(learner.select(), 1.0)
                    assert learner.n_open >= 0 and key in learners

            return rounds

        def change() -> None:
            for number in range(5):
                learners.add_arm(f"new {number}")
                learners.save(tmp_path / "saved")
                learners.remove_arm(f"new {number}")
                assert learners.n_open >= 0

        def create() -> None:
            for number in range(20):
                play(learners[f"other {number}"])
                if number % 2:
                    del learners[f"other {number}"]

        switching = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            in_threads(*(work(offset) for offset in range(5)), change, create)
        finally:
            sys.setswitchinterval(switching)
        assert learners.n_open == 0 and len(learners) == len(keys) + 10
        assert all(learners[key] is held[key] and held[key].arms == tuple(ARMS) for key in keys)
        totals = [json.loads(held[key].to_json())["ids"]["next"] for key in keys]
        assert sum(totals) == 5 * n_rounds
        play(learners["a"])
        assert n_in_memory(learners) <= 2


def test_a_learner_in_use_is_not_evicted() -> None:
    calls: list[Any] = []

    def clock() -> float:  # called in the middle of a draw, as a signal handler may be
        if calls:
            calls.pop()()
        return 0.0

    with Learners(POLICY, ARMS, in_memory=1, clock=clock, seed=1) as learners:
        held = learners["a"]
        calls.append(lambda: play(learners["b"]))
        choice = held.select()
        assert held.is_open(choice) and n_in_memory(learners) == 2
        play(learners["c"])
        assert n_in_memory(learners) == 1 and learners.n_open == 1
        calls.append(lambda: learners.add_arm("d"))
        with pytest.raises(RuntimeError, match="in the middle of a change"):
            held.select()
        assert learners.arms == held.arms == tuple(ARMS)


def in_child(work: Callable[[], Any]) -> Any:
    """Fork, do the work in the child, and return its result, which survives JSON."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                os.write(writing, json.dumps(work()).encode())
            except BaseException as error:
                os.write(writing, json.dumps(repr(error)).encode())
            finally:
                os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    return told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_the_learners_of_a_child_are_its_own(tmp_path: Path) -> None:
    with Learners(POLICY, ARMS, in_memory=1, path=tmp_path / "parent.db") as learners:
        held = learners["a"]
        play(held, 50)
        choice = held.select()
        play(learners["b"], 50)
        loaded = learners["c"]
        open_choice = loaded.select()
        assert held._loaded is None is not loaded._loaded
        before = learners.n_open, held.probabilities().tolist()
        _ = learners["c"].arms

        def child() -> Any:
            assert learners.n_open == 0 and list(learners) == ["a", "b", "c"]
            result: dict[str, Any] = {"p": learners["a"].probabilities().tolist(), "same": learners["a"] is held}
            result["refused"] = []
            for learner, theirs in ((held, choice), (loaded, open_choice)):
                try:
                    learner.update(theirs, 1.0)
                except ForeignChoiceError:
                    result["refused"].append(learner.key)
            try:
                learners.save()
            except ValueError as error:
                result["save"] = str(error)
            result["drawn"] = [play(learners[key], 30) for key in "abcd"]
            result["ids"] = [learners[key].select().id for key in "abc"]
            learners.add_arm("d")
            result["open"] = learners.n_open
            learners.save(tmp_path / "child.db")
            learners.close()
            return result

        told = in_child(child)
        assert isinstance(told, dict), told
        assert told["p"] == before[1] and told["same"] and told["refused"] == ["a", "c"] and told["open"] == 3
        assert "path must be given" in told["save"]
        assert learners.n_open == before[0] == 2 and list(learners) == ["a", "b", "c"]
        assert learners.arms == tuple(ARMS)
        held.update(choice, 1.0)
        loaded.update(open_choice, 1.0)
        assert json.loads(json.dumps([play(learners[key], 30) for key in "abcd"])) != told["drawn"]
        spaces = {learners[key].select().id.partition("-")[0] for key in "abc"}
        assert spaces.isdisjoint(each.partition("-")[0] for each in told["ids"])
        learners.save()
        with Learners.load(tmp_path / "child.db") as theirs:
            assert theirs.arms == (*ARMS, "d") and theirs.n_open == 3 and len(theirs) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_it_forks_while_threads_work(tmp_path: Path) -> None:
    with Learners(POLICY, ARMS, in_memory=2, seed=1) as learners:
        done = threading.Event()

        def work() -> None:
            number = 0
            while not done.is_set():
                number += 1
                play(learners[f"{number % 5}"])
                if number % 20 == 0:
                    _ = learners[f"new {number}"]
                    learners.save(tmp_path / "saved")

        def fork() -> None:
            try:
                for _ in range(4):
                    told = in_child(lambda: [len(play(learners[key])) for key in [*learners, "own"]])
                    assert told and set(told) == {1}, told
            finally:
                done.set()

        in_threads(fork, work, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_seed_draws_the_same_in_a_child_and_says_so() -> None:
    with Learners(POLICY, ARMS, in_memory=1, seed=1) as learners:
        play(learners["a"], 10)
        play(learners["b"], 10)
        told = in_child(lambda: [play(learners[key], 10) for key in "abc"])
        assert told == json.loads(json.dumps([play(learners[key], 10) for key in "abc"]))


def test_closed_learners_cannot_be_used(temporary: Path) -> None:
    learners = Learners(POLICY, ARMS)
    held = learners["a"]
    play(learners["b"])
    learners.close()
    learners.close()
    for work in (held.select, lambda: learners["a"], lambda: list(learners), lambda: "a" in learners, learners.save):
        with pytest.raises(ValueError, match=r"close\(\)|path"):
            work()
    with pytest.raises(ValueError, match=r"close\(\)"):
        learners.add_arm("d")


def test_what_is_dropped_is_removed() -> None:
    learners = Learners(POLICY, ARMS, in_memory=1)
    release = learners._store._release
    held: KeyedLearner | None = learners["a"]
    play(learners["b"])
    del learners
    gc.collect()
    assert release.alive
    assert held is not None
    play(held)
    held = None
    gc.collect()
    assert not release.alive


def test_a_deleted_key_starts_anew() -> None:
    with Learners(POLICY, ARMS, in_memory=1, seed=1) as learners:
        held = learners["a"]
        drawn = play(held, 20)
        play(learners["b"])
        del learners["a"]
        assert "a" not in learners and len(learners) == 1
        with pytest.raises(KeyError, match="after its key was deleted, but got key='a'"):
            held.select()
        assert play(learners["a"], 20) == drawn
        with pytest.raises(KeyError, match="deleted"):
            held.select()
        for key in ("c", "", 5, ["a"]):
            with pytest.raises(KeyError):
                del learners[key]  # type: ignore[arg-type]


def test_copies_are_refused_but_json_works() -> None:
    with Learners(POLICY, ARMS, seed=1) as learners:
        learner = learners["a"]
        play(learner, 10)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"key='a'; .*to_json"):
                copied(learner)
            with pytest.raises(TypeError, match="save them, and load the file"):
                copied(learners)
        plain = umab.Learner.from_json(learner.to_json())
        assert type(plain) is umab.Learner
        plain.add_arm("d")
        assert content(umab.Learner.from_json(learner.to_json())) == content(learner)
        with pytest.raises(TypeError, match=r"umab\.Learner\.from_json"):
            KeyedLearner.from_json(learner.to_json())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (5, "a key must be a string, but got key=5"),
        (None, "key=None"),
        (["a"], r"key=\['a'\]"),
        (b"a", "key=b'a'"),
        ("", "1 to 1000 characters, but got 0"),
        ("x" * 1001, "1 to 1000 characters, but got 1001"),
        ("a\0b", r"no NUL .*key='a\\x00b'"),
        ("\ud800", r"surrogate.*key='\\ud800'"),
    ],
)
def test_bad_keys_are_refused(key: Any, message: str) -> None:
    with Learners("uniform", 2) as learners:
        with pytest.raises((TypeError, ValueError), match=message):
            learners[key]
        assert key not in learners and len(learners) == 0


def test_all_other_keys_are_fine(tmp_path: Path) -> None:
    class Word(str):
        pass

    keys = ["x" * 1000, " ", "de/mobile", "Ünï\ncode🎲", "'; DROP TABLE learners; --", "A", "a", "é", "e\u0301"]
    with Learners("uniform", 2, in_memory=1) as learners:
        for key in keys:
            play(learners[key])
        assert learners[Word("word")].key == "word" and type(learners["word"].key) is str
        learners.save(tmp_path / "saved#1?.db")
    with Learners.load(tmp_path / "saved#1?.db") as learners:
        assert list(learners) == [*keys, "word"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_memory": 0}, "in_memory must be at least 1, but got in_memory=0"),
        ({"in_memory": 2.5}, "in_memory must be a whole number, but got in_memory=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"maximize": 1}, "maximize=1"),
        ({"clock": 3}, "clock=3"),
        ({"arms": []}, "at least one label"),
        ({"policy": "unknown"}, "unknown"),
        ({"policy": umab.UMABG()}, "horizon"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    given = {"policy": POLICY, "arms": ARMS, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        Learners(given.pop("policy"), given.pop("arms"), **given)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "learners.db"
    with Learners(POLICY, ARMS, path=path) as learners:
        play(learners["a"])
        learners.save()
    with pytest.raises(FileExistsError, match=r"path must not exist yet.*learners\.db.*Learners\.load"):
        Learners(POLICY, ARMS, path=path)
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing\.db"):
        Learners.load(tmp_path / "nothing.db")
    for options, message in (
        ({"in_memory": 0}, "in_memory=0"),
        ({"fresh": 1}, "fresh=1"),
        ({"clock": 1}, "clock=1"),
        ({"policy": "umab-w"}, "policy='umab-w'"),
        ({"policy": umab.policy("umab-w")}, "policy must be the one that was saved"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            Learners.load(path, **options)
    good = path.read_bytes()
    bad = tmp_path / "bad.db"
    for text in (b"", b"{}", b"not a database" * 100, good[:3000], good[:5000]):
        bad.write_bytes(text)
        with pytest.raises(ValueError, match=r"cannot load .*bad\.db.*as Learners\.save wrote it"):
            Learners.load(bad)
    for change in (
        "UPDATE about SET content = '[]'",
        """UPDATE about SET content = '{"format": "umab.Learners", "version": 2}'""",
        """UPDATE about SET content = '{"format": "umab.Learners", "version": 1}'""",
        "DELETE FROM about",
        "DELETE FROM changes",
        "UPDATE changes SET arms = '5'",
        "DROP TABLE learners",
    ):
        bad.write_bytes(good)
        with contextlib.closing(sqlite3.connect(bad)) as database, database:
            database.execute(change)
        with pytest.raises((ValueError, TypeError), match=r"cannot load .*bad\.db"):
            Learners.load(bad)
    bad.write_bytes(good)
    with contextlib.closing(sqlite3.connect(bad)) as database, database:
        database.execute("UPDATE learners SET core = '{}'")
    with Learners.load(bad) as learners:
        with pytest.raises(ValueError, match="a saved learner must be"):
            _ = learners["a"]
        del learners["a"]
        play(learners["a"])


def test_a_policy_that_is_not_registered_must_be_passed(tmp_path: Path) -> None:
    policy = deaf(umab.policy("umab-g-a"))
    with Learners(policy, ARMS, in_memory=1) as learners:
        for key in "aba":
            play(learners[key])
        learners.save(tmp_path / "saved")
    with pytest.raises(ValueError, match="pass it"):
        Learners.load(tmp_path / "saved")
    with Learners.load(tmp_path / "saved", policy=policy) as learners:
        play(learners["a"])
        assert learners.policy is policy


def test_a_file_with_other_tables_or_triggers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "learners.db"
    with Learners("umab-w", 2, path=path) as learners:
        learners["a"].select()
        learners.save()
    database = sqlite3.connect(path)
    database.execute("CREATE TRIGGER t AFTER INSERT ON learners BEGIN DELETE FROM learners WHERE key <> new.key; END")
    database.commit()
    database.close()
    with pytest.raises(ValueError, match="its tables must be those of Learners"):
        Learners.load(path)


@pytest.mark.parametrize("core", ["xx", "[]", "5", "[" * 100_000])
def test_a_damaged_learner_is_refused_with_its_key(tmp_path: Path, core: str) -> None:
    path = tmp_path / "learners.db"
    with Learners("umab-w", 2, path=path) as learners:
        learners["a"].select()
        learners.save()
    database = sqlite3.connect(path)
    database.execute("UPDATE learners SET core = ?", (core,))
    database.commit()
    database.close()
    with Learners.load(path) as learners, pytest.raises(ValueError, match="the learner of key='a' must be as it was"):
        learners["a"].select()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("where", ["connect", "opened"])
def test_no_thread_uses_sqlite_while_the_process_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A child would wait for ever for a lock of SQLite that another thread held."""
    inside, leave, forked, copied = (threading.Event() for _ in range(4))

    class Watched:
        """As a learner; the rows for the child have been copied when its lock is taken."""

        @property
        def _lock(self) -> Watched:
            return self

        def acquire(self) -> None:
            copied.set()
            assert where == "connect" or inside.wait(PATIENCE)

        def release(self) -> None:
            pass

        def _after_fork(self) -> bool:
            return False

    watched = Watched()
    with Learners(POLICY, ARMS, seed=1) as learners:
        play(learners["a"])

        def connect(*arguments: Any) -> Any:
            inside.set()
            assert leave.wait(PATIENCE)
            return sqlite3.connect(*arguments)

        def use() -> None:
            if where == "connect":
                learners.save(tmp_path / "saved")
            else:
                assert copied.wait(PATIENCE)
                with learners._store.opened():
                    inside.set()
                    assert leave.wait(PATIENCE)

        def fork() -> None:
            assert where == "opened" or inside.wait(PATIENCE)
            in_child(bool)
            forked.set()

        if where == "connect":
            monkeypatch.setattr(keyed_store, "sqlite3", SimpleNamespace(connect=connect, Error=sqlite3.Error))
        else:
            forks.watch(watched)
        threads = [threading.Thread(target=work, daemon=True) for work in (use, fork)]
        for thread in threads:
            thread.start()
        assert inside.wait(PATIENCE)
        assert not forked.wait(0.5)
        leave.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert forked.is_set()


def test_a_signal_handler_neither_saves_in_a_save_nor_loads_while_learners_come_and_go(tmp_path: Path) -> None:
    with Learners(POLICY, ARMS, seed=1, in_memory=1) as learners:
        play(learners["a"])
        play(learners["b"])  # "a" is on disk now
        with learners._store.saving(), pytest.raises(RuntimeError, match="middle of a change"):
            learners.save(tmp_path / "saved")
        with learners._store.loading(), pytest.raises(RuntimeError, match="middle of a change"):
            learners["a"].select()
        learners.save(tmp_path / "saved")
