"""Learners in several processes: forks, files that several load, and feedback that arrives elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from helpers import PATIENCE, state_of
from umab.errors import ClosedChoiceError, ForeignChoiceError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def in_child(work: Callable[[], Any]) -> Any:
    """Fork, do the work in the child, and return its result, which survives JSON."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads that do not survive
        child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return json.loads(content)


def played(n_rounds: int, **options: Any) -> umab.Learner:
    learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], **options)
    for t in range(n_rounds):
        choice = learner.select()
        learner.update(choice, float(choice.index + t % 3))
    return learner


def draws(learner: umab.Learner, n: int = 200) -> list[Any]:
    return [list(each) for each in learner.select(n)]


def test_a_child_draws_other_arms_with_other_ids_from_the_same_state() -> None:
    learner = played(50)
    before = state_of(learner)
    theirs = in_child(lambda: [draws(learner), list(state_of(learner).probabilities)])
    ours = draws(learner)
    assert theirs[1] == list(before.probabilities)
    assert not {each[3] for each in theirs[0]} & {each[3] for each in ours}
    assert [each[0] for each in theirs[0]] != [each[0] for each in ours]


def test_parent_and_child_refuse_the_choices_of_each_other() -> None:
    learner = played(5)
    ours = learner.select()

    def work() -> list[Any]:
        with pytest.raises(ForeignChoiceError, match=ours.id):
            learner.update(ours, 1.0)
        return list(learner.select())

    theirs = in_child(work)
    with pytest.raises(ForeignChoiceError, match=theirs[3]):
        learner.update(theirs, 1.0)
    learner.update(ours, 1.0)


def test_what_the_parent_closed_is_closed_in_the_child() -> None:
    learner = played(5)
    closed, still_open = learner.select(2)
    learner.update(closed, 1.0)

    def work() -> int:
        with pytest.raises(ClosedChoiceError):
            learner.update(closed, 1.0, foreign="learn")
        learner.update(still_open, 1.0, foreign="learn")
        with pytest.raises(ClosedChoiceError):
            learner.update(still_open, 1.0, foreign="learn")
        return learner.n_open

    assert in_child(work) == 0


def test_a_fork_between_two_changes_of_arms_brings_nothing_back() -> None:
    learner = played(5)
    waiting = learner.select()
    learner.add_arm("d")

    def work() -> list[Any]:
        learner.remove_arm("a")
        assert umab.Learner.from_json(learner.to_json()).arms == learner.arms
        return [learner.n_open, learner.is_open(waiting)]

    assert in_child(work) == [0, False]
    assert learner.is_open(waiting)


def test_a_child_with_a_seed_draws_the_same_arms_and_warns() -> None:
    learner = played(50, seed=1)

    def work() -> list[Any]:
        return [str(caught[0].category.__name__), str(caught[0].message), draws(learner)]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        kind, message, theirs = in_child(work)
    assert kind == "LearnerWarning" and "learners with a seed" in message
    ours = draws(learner)
    assert [each[:3] for each in theirs] == [each[:3] for each in ours]
    assert not {each[3] for each in theirs} & {each[3] for each in ours}


def test_a_fork_while_a_thread_works_finds_a_whole_learner_and_a_free_lock() -> None:
    learner = played(1)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            learner.update(learner.select(), 1.0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            n_open, whole = in_child(
                lambda: [learner.n_open, sum(each.selected - each.updates for each in learner.counters().values())]
            )
            assert n_open == 0 and 0 <= whole <= 3  # of each thread, one choice may be open in the parent
            in_child(lambda: learner.update(learner.select(), 1.0))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_fork_waits_for_a_call_that_is_under_way() -> None:
    learner = played(1)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with learner._lock:
            entered.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(PATIENCE)
    threading.Timer(0.2, leave.set).start()
    began = time.monotonic()
    assert in_child(lambda: learner.n_open) == 0
    assert time.monotonic() - began > 0.1
    thread.join()


def test_workers_of_a_pool_differ() -> None:
    """As behind a server that loads the program once and forks its workers."""
    global shared
    shared = played(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(3) as pool:
            rows = pool.map(_ids_of_worker, range(3), chunksize=1)
    ids = [each for row in rows for each in row]
    assert len(set(ids)) == len(ids) == 30


shared: umab.Learner


def _ids_of_worker(_: int) -> list[str]:
    return [each.id for each in shared.select(10)]


LOADING = """
import json, sys, umab
learner = umab.Learner.load(sys.argv[1], **json.loads(sys.argv[2]))
print(json.dumps([list(each) for each in learner.select(50)]))
"""


def in_new_process(path: Path, **options: Any) -> Any:
    command = [sys.executable, "-c", LOADING, str(path), json.dumps(options)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_what_two_processes_that_load_one_file_get(tmp_path: Path) -> None:
    path = tmp_path / "learner.json"
    learner = played(20)
    waiting = learner.select()
    learner.save(path)
    assert in_new_process(path) == in_new_process(path)  # each continues as the learner that saved the file
    fresh = [in_new_process(path, fresh=True) for _ in range(2)]
    assert not {each[3] for each in fresh[0]} & {each[3] for each in fresh[1]}
    assert [each[0] for each in fresh[0]] != [each[0] for each in fresh[1]]
    seeded = [in_new_process(path, seed=7) for _ in range(2)]
    assert [each[:3] for each in seeded[0]] == [each[:3] for each in seeded[1]]
    assert not {each[3] for each in seeded[0]} & {each[3] for each in seeded[1]}
    another = umab.Learner.load(path, fresh=True)
    assert state_of(another) == state_of(learner) and another.n_open == 0
    with pytest.raises(ForeignChoiceError, match=waiting.id):
        another.update(waiting, 1.0)
    another.update(waiting, 1.0, foreign="learn")
    with pytest.raises(ClosedChoiceError, match=waiting.id):
        another.update(waiting, 1.0, foreign="learn")


def test_ids_do_not_repeat_and_survive_javascript() -> None:
    learners = [umab.Learner("uniform", 2, seed=0) for _ in range(200)]
    ids = [learner.select().id for learner in learners]
    assert len(set(ids)) == 200
    assert all(isinstance(each, str) for each in ids)


WORKER = """
import json, sys, umab
learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], seed=int(sys.argv[1]))
for t in range(100):
    choice = learner.select()
    loss = float(choice.index + t % 2)
    learner.update(choice, loss)
    print(json.dumps([choice, loss]))
"""


def test_one_learner_absorbs_the_logs_of_two_processes() -> None:
    logs = []
    for seed in (1, 2):
        run = subprocess.run([sys.executable, "-c", WORKER, str(seed)], capture_output=True, text=True, check=True)
        logs.append([json.loads(line) for line in run.stdout.splitlines()])
    learner = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], seed=3)
    by_hand = umab.Learner("umab-g-a:rate=4", ["a", "b", "c"], seed=3)
    together = [row for pair in zip(*logs, strict=True) for row in pair]
    assert learner.absorb(together[:50]) == 50
    assert learner.absorb(together) == 150  # a log that has grown: each choice is learned once
    assert learner.absorb(reversed(together)) == 0
    for (arm, _, probability, _), loss in together:
        by_hand.update(arm, loss, probability=probability)
    assert state_of(learner) == state_of(by_hand)
    assert learner.probabilities()[0] > 0.5
    loaded = umab.Learner.from_json(learner.to_json())
    assert loaded.absorb(together) == 0
    assert np.array_equal(loaded.probabilities(), learner.probabilities())
