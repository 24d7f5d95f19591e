"""The Learner, as a practitioner uses it."""

from __future__ import annotations

import base64
import copy
import dataclasses
import datetime
import itertools
import json
import math
import os
import pickle
import re
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

import umab
from helpers import at_moment, state_of, twins, without_times
from umab.algorithms import registry
from umab.algorithms.base import Change
from umab.engine import compiled
from umab.errors import AlteredChoiceError, ChoiceError, ClosedChoiceError, ForeignChoiceError
from umab.online import migrations
from umab.online.feedback import as_loss


def played(n_rounds: int, **options: Any) -> umab.Learner:
    learner = umab.Learner(umab.UMABGA(rate=4.0), ["a", "b", "c"], seed=1, **options)
    for _ in range(n_rounds):
        choice = learner.select()
        learner.update(choice, choice.index - 1.0)
    return learner


def test_after_a_warm_up_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_kernels", {})
    compiled.drawing_kernel.cache_clear()
    learner = umab.Learner("umab-w", arms=5, seed=1)
    before = learner.to_json()
    learner.warm_up()
    assert learner.to_json() == before
    monkeypatch.setattr(compiled, "_machine_code", None)
    for number in range(20):  # some of these losses are on the account of another arm
        learner.update(learner.select(among=[0, 1]), loss=float(number))


def test_select_and_update() -> None:
    learner = umab.Learner("umab-g-a", arms=["small", "large", "remote"], seed=7)
    choice = learner.select()
    assert choice.arm == learner.arms[choice.index]
    assert choice.probability == pytest.approx(1 / 3)
    learner.update(choice, loss=312.5)
    p = learner.probabilities()
    assert p[choice.index] == p.min() < 1 / 3
    assert repr(learner) == "Learner('umab-g-a', arms=['small', 'large', 'remote'])"
    assert learner.policy == umab.UMABGA()


def test_arms_are_a_number_or_labels() -> None:
    assert umab.Learner("uniform", 3).arms == (0, 1, 2)
    assert umab.Learner("uniform", np.int64(2)).arms == (0, 1)  # type: ignore[call-overload]
    assert umab.Learner("uniform", np.array(["x", "y"])).arms == ("x", "y")  # type: ignore[call-overload]
    learner = umab.Learner("uniform", [0.001, 0.1, 7])
    assert umab.Learner.from_json(learner.to_json()).arms == (0.001, 0.1, 7)


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (0, "arms=0"),
        (-2, "arms=-2"),
        (2.5, "arms=2.5"),
        ("abc", "arms='abc'"),
        ([], "arms .*label.*none"),
        (["a", "b", "a"], "labels .*'a' .*2 times"),
        ([1, 1.0], "labels .* 1 .*2 times"),
        ([("a", 1)], r"label .*\('a', 1\)"),
        ([None, "a"], "label .*None"),
        ([True, "a"], "label .*True"),
        ([float("nan")], "label .*nan"),
        ({"a", "b"}, "arms={'.*list"),
        (None, "arms=None"),
    ],
)
def test_bad_arms_are_refused(arms: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        umab.Learner("uniform", arms)


def test_bad_policies_and_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"umab-g .*UMABG\(horizon=1000\).*UMABGA\(\)"):
        umab.Learner(umab.UMABG(), 3)
    umab.Learner(umab.UMABG(horizon=10), 3)
    with pytest.raises(TypeError, match=r"umab\.Policy.*UMABG\(\)"):
        umab.Learner(umab.UMABG, 3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="seed=-1"):
        umab.Learner("uniform", 3, seed=-1)


@pytest.mark.parametrize("kind", [umab.Learner, umab.Learners])
@pytest.mark.parametrize("more", [(), ("umab-w",), (umab.UMABW(),)])
def test_arms_in_place_of_the_policy_are_told_where_they_belong(kind: Any, more: tuple[Any, ...]) -> None:
    for arms in (["a", "b"], 3):
        example = f"umab.{kind.__name__}(umab.recommended(), {arms!r})"
        with pytest.raises(
            TypeError, match=re.escape(f"but got {arms!r}; the first argument is the policy, as in {example}")
        ):
            kind(arms, *more)
    with pytest.raises(TypeError, match="arms must be a number or a sequence of labels, but got arms=None"):
        kind("umab-w")


def test_a_negative_loss_is_refused_by_umab_nn_with_advice() -> None:
    learner = umab.Learner(umab.UMABNN(), ["a", "b"])
    with pytest.raises(ValueError, match=r"0\.0 .*umab-nn.*loss=-1\.5 .*arm='a'.*umab\.recommended"):
        learner.update("a", -1.5)
    learner.update("a", -0.0)


@pytest.mark.parametrize(("loss", "shown"), [(float("nan"), "nan"), (float("inf"), "inf")])
def test_the_message_for_a_loss_that_is_not_finite(loss: float, shown: str) -> None:
    with pytest.raises(ValueError, match=f"finite.*loss={shown} .*arm='b'"):
        umab.Learner("umab-g-a", ["a", "b"]).update("b", loss)


def test_numbers_of_other_types_are_losses_too() -> None:
    for loss in (3, np.float32(0.5), np.int8(4), np.array(2.0), True):
        learner = umab.Learner("umab-g-a", 2)
        learner.update(0, loss)  # type: ignore[arg-type]
        assert state_of(learner).round == 2.0


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'a', 'b'.*arm='c'"):
        umab.Learner("uniform", ["a", "b"]).update("c", 1.0)
    with pytest.raises(ValueError, match=r"0, 1, .*30 arms.*arm=30"):
        umab.Learner("uniform", 30).update(30, 1.0)
    with pytest.raises(ValueError, match=r"arm=\{\}"):
        umab.Learner("uniform", 2).update({}, 1.0)  # type: ignore[arg-type]


def test_choices_that_are_used_unknown_or_changed_are_refused() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    used, open_choice = learner.select(), learner.select()
    learner.update(used, 1.0)
    before = learner.to_json()
    for choice, error, message in [
        (used, ClosedChoiceError, f"id='{used.id}' .*closed"),
        (open_choice._replace(id=5), ForeignChoiceError, "id=5 .*this learner"),  # type: ignore[arg-type]
        (open_choice._replace(id="1"), ForeignChoiceError, "id='1' .*this learner"),
        (open_choice._replace(probability=0.1), AlteredChoiceError, rf"unchanged.* 0\.1, '{open_choice.id}'"),
        (open_choice._replace(index=7), AlteredChoiceError, f"unchanged.*'{open_choice.arm}', 7"),
        (open_choice._replace(id=[]), AlteredChoiceError, r"\[\]"),  # type: ignore[arg-type]
        (open_choice[:3], AlteredChoiceError, r"\(arm, index, probability, id\)"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            learner.update(choice, 1.0)  # type: ignore[arg-type]
        assert caught.type is error and issubclass(error, ChoiceError)
    with pytest.raises(ValueError, match=r"Choice.*probability=0\.5"):
        learner.update(open_choice, 1.0, probability=0.5)
    assert learner.to_json() == before
    learner.update(json.loads(json.dumps(open_choice)), 1.0)
    assert learner.outstanding == ()


def test_a_bare_arm_counts_as_a_select_and_an_update() -> None:
    bare, chosen = umab.Learner("umab-g-a", 3, seed=0), umab.Learner("umab-g-a", 3, seed=0)
    for _ in range(20):
        choice = chosen.select()
        chosen.update(choice, 1.0 + choice.index)
        bare.update(choice.arm, 1.0 + choice.index)
    assert state_of(bare) == state_of(chosen)


def test_a_warning_when_the_arm_comes_back_in_place_of_its_choice() -> None:
    learner = umab.Learner("umab-s", ["a", "b"], seed=0)
    choice = learner.select()
    other = "b" if choice.arm == "a" else "a"
    learner.update(other, 1.0)  # warnings are errors here
    learner.update(choice.arm, 1.0, probability=choice.probability)
    with pytest.warns(umab.LearnerWarning, match=f"arm='{choice.arm}'.*open") as caught:
        learner.update(choice.arm, 1.0)
        learner.update(choice.arm, 1.0)  # once is enough
    assert [warning.filename for warning in caught] == [__file__]


def test_arms_are_drawn_with_their_probabilities() -> None:
    learner = umab.Learner("umab-g-a:rate=4", 3, seed=0)
    for arm, loss in ((0, 2.0), (1, 1.0), (2, -1.0)):
        learner.update(arm, loss)
    p, n_draws = learner.probabilities(), 100_000
    counts = np.bincount([choice.index for choice in learner.select(n_draws)], minlength=3)
    assert (np.abs(counts - n_draws * p) < 5 * np.sqrt(n_draws * p * (1 - p))).all()


def test_seeds_repeat_and_none_does_not() -> None:
    def draws(seed: int | None) -> list[int]:
        learner = umab.Learner("uniform", 10, seed=seed)
        return [choice.index for choice in learner.select(1000)]

    assert draws(3) == draws(3) != draws(4)
    assert draws(None) != draws(None)


@pytest.mark.parametrize("n_rounds", [0, 1, 255, 256, 257, 600])
@pytest.mark.parametrize("way", ["json", "file", "pickle", "copy", "deepcopy"])
def test_every_way_to_keep_a_learner_continues_bit_for_bit(n_rounds: int, way: str, tmp_path: Path) -> None:
    original = played(n_rounds)
    pending = original.select()
    if way == "json":
        kept = umab.Learner.from_json(original.to_json())
    elif way == "file":
        original.save(tmp_path / "learner.json")
        kept = umab.Learner.load(tmp_path / "learner.json")
    elif way == "pickle":
        kept = pickle.loads(pickle.dumps(original))
    else:
        kept = copy.copy(original) if way == "copy" else copy.deepcopy(original)
    frozen = kept.to_json()
    assert frozen == original.to_json()
    for learner in (original, kept):
        learner.update(pending, -2.0)
        for _ in range(300):
            choice = learner.select()
            learner.update(choice, choice.index - 1.0)
        if learner is original:
            assert kept.to_json() == frozen  # what happens to one does not touch the other
    assert original.to_json() == kept.to_json()


def test_the_saved_random_state_is_that_of_the_next_draw() -> None:
    learner = played(10)
    saved = json.loads(learner.to_json())["random"]
    random = np.random.PCG64()
    random.state = saved
    uniforms = np.random.Generator(random).random(5)
    expected = [int(np.searchsorted(learner.probabilities().cumsum(), each, side="right")) for each in uniforms]
    assert [learner.select().index for _ in range(5)] == expected


def test_a_truncated_file_is_refused_at_any_length() -> None:
    text = played(5).to_json()
    for length in range(0, len(text), 7):
        with pytest.raises(ValueError, match="saved learner"):
            umab.Learner.from_json(text[:length])


def ids(**changes: Any) -> dict[str, Any]:
    return {"space": "0" * 16, "next": 0, "skipped": [], "absorbed": {}, **changes}


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(played(5).to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(version=5), "version 4 .*version=5"),
        (changed(version=None), "version 4 .*version=None"),
        (changed(version=3), "version 4 or newer.*version=3"),
        (changed(format="something"), "format='umab.Learner'.*something"),
        ("[]", r"format='umab.Learner'.*'\[\]'"),
        (changed(policy="umab-x"), "name.*parameters.*'umab-x'"),
        (changed(policy={"name": "umab-x", "parameters": {}}), r"umab-g-a.*'umab-x'.*Learner\.load\(path, policy="),
        (changed(policy={"name": "os:getcwd", "parameters": {}}), "registered.*'os:getcwd'"),
        (changed(policy={"name": "uniform", "parameters": {"rate": 1.0}}), "saved learner.*'rate'"),
        (changed(policy={"name": "centred", "parameters": {}}), "inside.*'centred'"),
        (changed(arms=["a", "b"]), r"shape \(2,\).*\(3,\)"),
        (changed(state={}), "state.*'clip'.*{}"),
        (changed(state=None), "state must.*None"),
        (changed(random={"bit_generator": "MT19937"}), "saved learner.*PCG64"),
        (changed(ids=ids(next=-1)), "next=-1"),
        (changed(ids=ids(space="mine")), "16 hexadecimal.*'mine'"),
        (changed(ids=ids(space=10**15)), str(10**15)),
        (changed(ids=ids(absorbed={"0" * 16: [[3, 2]]})), "3 to 2"),
        (changed(ids=ids(absorbed={"f": []})), "'f'"),
        (changed(ids=ids(skipped=[[0.5, 1]])), "0.5 to 1"),
        (changed(open={"n": -1}), "open choices.*-1"),
        (changed(open=[[1, 2]]), "saved learner"),
        (changed(seeded="no"), "seeded.*'no'"),
        (changed(counters=[[10**400, 0, 0, 0.0, 0.0, 0.0, 0.0]] * 3), "counter .*at most"),
        (changed(open={"n": -1}), "open choices.*-1"),
        (changed(open=[[1, 2]]), "saved learner"),
        (changed(version=True), "version 4 .*version=True"),
    ],
)
def test_json_that_is_not_ours_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        umab.Learner.from_json(text)


@pytest.mark.parametrize("key", ["policy", "arms", "maximize", "seeded", "state", "random", "ids", "open", "counters"])
def test_json_with_a_part_missing_is_refused(key: str) -> None:
    saved = json.loads(played(5).to_json())
    del saved[key]
    with pytest.raises(ValueError, match=f"complete.*'{key}'"):
        umab.Learner.from_json(json.dumps(saved))


def column(kind: str, *values: float) -> str:
    return base64.b64encode(np.array(values, dtype=kind).tobytes()).decode()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("state", "clip"), float("nan"), "clip must be finite .*clip=nan"),
        (("state", "clip"), 10**400, "clip must be finite .*clip=1000"),
        (("state", "clip"), "much", "saved learner.*'much'"),
        (("state", "probabilities"), [0.5, 0.5, -0.5], "probabilities must be from .*=-0.5"),
        (("state", "probabilities"), [0.5, 0.5, 0.5], "probabilities must sum to 1, .*1.5"),
        (("state", "offsets"), [0.0], r"offsets .*shape \(3,\), .*\(1,\)"),
        (("random", "state", "state"), -1, "saved learner.*-1"),
        (("open", "labels"), ["b"], "arm='b'.*'c'"),
        (("open", "labels"), [["b"]], r"label .*\['b'\]"),
        (("open", "labels"), [], "'label'.*row 0"),
        (("open", "labels"), 10**9, "labels.*1000000000"),
        (("open", "number"), column("<i8", -1), "'number'.*row 0"),
        (("open", "n"), 2, "'number'.*2 numbers"),
        (("open", "n"), 1.0, "open choices.*1.0"),
        (("open", "number"), "!", "'number'.*'!'"),
        (("open", "number"), None, "'number'.*None"),
        (("open", "number"), column("<i8", 2**40), "'number'.*row 0"),
        (("open", "index"), column("<i4", -1), "'index'.*row 0"),
        (("open", "label"), column("<i4", 1), "'label'.*row 0"),
        (("open", "end"), column("|i1", 3), "'end'.*row 0"),
        (("open", "probability"), column("<f8", 0.0), "'probability'.*row 0"),
        (("open", "now"), column("<i4", 3), "'now'.*row 0"),
        (("open", "account"), column("<i4", 3), "'account'.*row 0"),
        (("open", "account"), column("<i4", -2), "'account'.*row 0"),
        (("open", "account_probability"), column("<f8", 2.0), "'account_probability'.*row 0"),
        (("open", "time"), column("<f8", math.nan), "'time'.*row 0"),
        (("counters", 0, 0), -1, "counter=-1"),
        (("counters", 0, 3), float("inf"), "counter=inf"),
        (("counters",), [[0, 0, 0, 0.0, 0.0, 0.0, 0.0]], "1 counters .*3 arms"),
        (("maximize",), "yes", "maximize='yes'"),
    ],
)
def test_a_saved_learner_that_was_tampered_with_is_refused(path: tuple[Any, ...], value: Any, message: str) -> None:
    learner = played(5)
    while (choice := learner.select()).arm != "c":
        learner.forget(choice)
    saved = json.loads(learner.to_json())
    umab.Learner.from_json(json.dumps(saved))
    place = saved
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        umab.Learner.from_json(json.dumps(saved))


def test_the_choice_of_another_learner_is_refused() -> None:
    mine, other = umab.Learner("uniform", 1), umab.Learner("uniform", 1)
    mine.select()
    with pytest.raises(ValueError, match="this learner"):
        mine.update(other.select(), 1.0)


class Interrupted(Exception):
    pass


def interrupt() -> None:
    raise Interrupted


@pytest.mark.parametrize("policy", ["umab-g-a", "recommended"])
def test_an_interrupt_finds_an_update_done_or_not_begun(policy: str) -> None:
    """A signal that raises, as Ctrl-C does, may come at any moment at which Python looks for signals."""
    n_done = n_not_begun = 0
    for number in itertools.count(1):
        learner = umab.Learner(policy, 2, seed=0)
        learner.update(learner.select(), 2.0)
        choice = learner.select()
        before = state_of(learner)
        try:
            if not at_moment(number, interrupt, lambda: learner.update(choice, 1.0)):  # noqa: B023
                break
        except Interrupted:
            pass
        closed, learned = not learner.outstanding, state_of(learner) != before
        assert closed == learned, f"at moment {number}"
        n_done, n_not_begun = n_done + closed, n_not_begun + (not closed)
        learner.select()  # the lock is free
    assert n_done and n_not_begun


def test_a_signal_handler_may_save_a_learner_in_use() -> None:
    for number in itertools.count(1):
        learner = umab.Learner("umab-g-a", 2, seed=0)
        learner.update(learner.select(), 2.0)
        saved: list[str] = []
        act = lambda: saved.append(learner.to_json())  # noqa: B023, E731
        if not at_moment(number, act, lambda: learner.update(learner.select(), 1.0)):  # noqa: B023
            break
        assert umab.Learner.from_json(saved[0]).to_json() == saved[0]
    assert number > 5


@pytest.mark.slow
# On a busy machine a thousand interrupts in a row may come before the update, which then looks like silence.
@pytest.mark.filterwarnings("ignore:no feedback has arrived:umab.LearnerWarning")
def test_a_real_signal_finds_an_update_done_or_not_begun() -> None:
    learner = umab.Learner("umab-g-a", 2, seed=0)
    n_updates = 0

    def raising(*_: Any) -> None:
        raise Interrupted

    previous = signal.signal(signal.SIGALRM, raising)
    try:
        for attempt in range(2000):
            choice = learner.select()
            try:
                signal.setitimer(signal.ITIMER_REAL, 20e-6 * (1 + attempt % 20))
                while True:
                    learner.update(choice, 1.0)
                    choice = learner.select()
            except Interrupted:
                signal.setitimer(signal.ITIMER_REAL, 0)
            done = round(state_of(learner).round) - 1
            assert learner._core.n_drawn == done + learner.n_open
            n_updates = max(n_updates, done)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert n_updates > 100


def test_a_save_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    learner = played(3)
    learner.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert umab.Learner.load(tmp_path / "real.json").to_json() == learner.to_json()
    with pytest.raises(FileNotFoundError, match=r"nowhere'.*'x\.json'"):
        played(3).save(tmp_path / "nowhere" / "x.json")


def test_older_versions_are_migrated_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions back: the arms were called options, and before that their number was all there was."""
    current = migrations.VERSION

    def from_oldest(saved: dict[str, Any]) -> dict[str, Any]:
        return {**saved, "options": ["a", "b", "c"], "version": current - 1}

    def from_older(saved: dict[str, Any]) -> dict[str, Any]:
        return {**saved, "arms": saved["options"], "version": current}

    monkeypatch.setattr(migrations, "_MIGRATIONS", {current - 2: from_oldest, current - 1: from_older})
    learner = played(5)
    old = json.loads(learner.to_json())
    del old["arms"]
    old["version"] = current - 2
    assert umab.Learner.from_json(json.dumps(old)).to_json() == learner.to_json()


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "learner.json"
    played(3).save(path)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        played(9).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["learner.json"]


def test_a_save_is_on_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it is renamed, and then the folder: otherwise the old name may come back after a power cut."""
    synced: list[tuple[bool, bool]] = []
    path, sync = tmp_path / "learner.json", os.fsync

    def noted(handle: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    played(3).save(path)
    assert synced == [(False, False), (True, True)]


def test_a_clock_tells_the_ages_of_choices_and_must_be_one() -> None:
    now = 5.0
    learner = umab.Learner("uniform", 2, seed=0, clock=lambda: now)
    assert learner.draw_of(learner.select()).time == 5.0
    now = 6.5
    assert learner.draw_of(learner.select()).time == 6.5
    for clock in (5.0, None):
        with pytest.raises(TypeError, match=f"clock={clock}"):
            umab.Learner("uniform", 2, clock=clock)  # type: ignore[call-overload]


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "learner.json"
    path.write_text('{"format": "umab.Lear')
    with pytest.raises(ValueError, match=r"learner\.json"):
        umab.Learner.load(path)
    with pytest.raises(FileNotFoundError):
        umab.Learner.load(tmp_path / "nothing.json")


def test_threads_share_a_learner() -> None:
    learner = umab.Learner("umab-g-a", 5, seed=0)
    ids: list[str] = []
    n_threads, n_each = 8, 500

    def work() -> None:
        mine = []
        for _ in range(n_each):
            choice = learner.select()
            learner.update(choice, 1.0 + choice.index)
            mine.append(choice.id)
        ids.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(each.partition("-")[2]) for each in ids) == list(range(n_threads * n_each))
    assert learner.outstanding == ()
    assert state_of(learner).round == n_threads * n_each + 1


def test_a_batch_is_that_many_single_choices() -> None:
    one_by_one = played(10)
    batch = copy.copy(one_by_one)
    singles = [one_by_one.select() for _ in range(5)]
    assert batch.select(5) == singles
    assert without_times(batch) == without_times(one_by_one)
    assert batch.select(1) == [one_by_one.select()]
    for k in (0, 2.5):
        with pytest.raises((ValueError, TypeError), match=f" k={k}$"):
            batch.select(k)  # type: ignore[arg-type]
    for choice in batch.select(3)[::-1]:
        batch.update(choice, 1.0)


def test_rewards_are_losses_with_their_signs_flipped() -> None:
    """Every bit of the state is the same."""
    losing, winning = (umab.Learner("recommended", 3, seed=0, maximize=maximize) for maximize in (False, True))
    for t in range(200):
        choice, same = losing.select(), winning.select()
        assert same[:3] == choice[:3]
        value = float(np.sin(t) * 10.0 ** (t % 7) * (choice.index - 0.5))
        losing.update(choice, loss=-value)
        winning.update(same, reward=value)
    assert state_of(losing) == state_of(winning)
    assert winning.maximize and not losing.maximize
    assert repr(winning) == "Learner('umab-w', arms=[0, 1, 2], maximize=True)"
    assert umab.Learner.from_json(winning.to_json()).maximize
    assert pickle.loads(pickle.dumps(winning)).maximize


def test_a_reward_of_nothing_is_a_loss_of_nothing() -> None:
    learner = umab.Learner("umab-nn", 2, maximize=True)
    learner.update(0, reward=0.0)  # -0.0 would be a loss below 0 to some
    assert str(learner.counters()[0].mean) == "0.0"


@pytest.mark.parametrize("maximize", [False, True])
def test_a_loss_is_not_taken_for_a_reward_nor_the_other_way_round(maximize: bool) -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0, maximize=maximize)
    choice = learner.select()
    before = learner.to_json()
    right, wrong = ("reward", "loss") if maximize else ("loss", "reward")
    bad: list[dict[str, Any]] = [{wrong: 1.0}, {"loss": 1.0, "reward": 1.0}, {}, {right: None}]
    for given in bad:
        with pytest.raises(TypeError, match=f"^{right} .*maximize=True.*loss=.*reward="):
            learner.update(choice, **given)
        with pytest.raises(TypeError, match=f"^{right} .*maximize=True.*loss=.*reward="):
            learner.expire(0, **given)
    assert learner.to_json() == before
    with pytest.raises(TypeError, match="maximize='yes'"):
        umab.Learner("uniform", 2, maximize="yes")  # type: ignore[call-overload]


def test_a_reward_that_the_policy_does_not_take_is_refused_as_such() -> None:
    learner = umab.Learner("umab-nn", ["a", "b"], maximize=True)
    with pytest.raises(ValueError, match=r"reward=1\.5 .*-1\.5.*0\.0 .*umab-nn"):
        learner.update("a", reward=1.5)
    with pytest.raises(ValueError, match=r"reward=inf .*-inf.*finite"):
        umab.Learner("umab-g-a", ["a", "b"], maximize=True).update("a", reward=float("inf"))


def test_counters_count() -> None:
    learner = umab.Learner("uniform", ["a", "b"], seed=0)
    empty = umab.Counter(0, 0, 0, 0, None, None, None, None, 0.5)
    assert learner.counters() == {"a": empty, "b": empty}
    heard: dict[Any, list[float]] = {"a": [], "b": []}
    choices = learner.select(40)
    for t, choice in enumerate(choices[:30]):
        loss = float((t * 7) % 11 - 3)
        learner.update(choice, loss)
        heard[choice.arm].append(loss)
    learner.update("a", 100.0, probability=0.25)
    heard["a"].append(100.0)
    assert len(learner.expire(5, loss=1e9)) == 5
    learner = umab.Learner.from_json(learner.to_json())
    for arm, counter in learner.counters().items():
        losses = heard[arm]
        assert counter.selected == sum(choice.arm == arm for choice in choices)
        assert counter.updates == len(losses)
        assert counter.open == sum(choice.arm == arm for choice in choices[35:])
        assert counter.expired == sum(choice.arm == arm for choice in choices[30:35])
        assert counter.mean == pytest.approx(np.mean(losses), rel=1e-14)
        assert (counter.lowest, counter.highest, counter.latest) == (min(losses), max(losses), losses[-1])
        assert counter.probability == 0.5


def test_counters_survive_the_largest_losses() -> None:
    learner = umab.Learner("umab-g-a", 1)
    for loss in (1.7e308, -1.7e308, 1.7e308, 1.7e308):
        learner.update(0, loss)
    assert learner.counters()[0].mean == pytest.approx(0.85e308, rel=1e-14)


def test_choices_expire_by_their_number() -> None:
    learner, other = twins("umab-g-a", ["a", "b"], seed=0)
    first, second, third, _ = choices = learner.select(4)
    assert other.select(4) == choices
    learner.update(second, 2.0)
    assert learner.expire(after=4, loss=9.0) == []
    assert learner.expire(after=1, loss=9.0) == [first, third]
    for choice, loss in ((second, 2.0), (first, 9.0), (third, 9.0)):
        other.update(choice, loss)
    assert state_of(learner) == state_of(other)
    with pytest.raises(ValueError, match=f"id='{first.id}' .*expired"):
        learner.update(first, 1.0)
    before = state_of(learner)
    assert learner.expire(after=0, forget=True) == [choices[3]]
    assert state_of(learner) == before and learner.outstanding == ()


def test_choices_expire_by_their_age() -> None:
    now = 1000.0
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0, clock=lambda: now)
    old = learner.select()
    now = 1030.0
    young = learner.select()
    learner = umab.Learner.from_json(learner.to_json(), clock=lambda: now)
    assert learner.expire(datetime.timedelta(seconds=31), loss=1.0) == []
    now = 1040.0
    assert learner.expire(datetime.timedelta(seconds=40), loss=1.0) == [old]
    assert learner.outstanding == (young,)


def test_a_refused_expiry_changes_nothing() -> None:
    learner = umab.Learner("umab-nn", ["a", "b"], seed=0)
    learner.select(3)
    before = learner.to_json()
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (0, {"loss": -1.0}, r"umab-nn.*loss=-1\.0"),
        (0, {"loss": float("nan")}, "finite.*loss=nan"),
        (0, {"loss": 1.0, "forget": True}, r"forget=True.*loss=1\.0"),
        (-1, {"loss": 1.0}, "after=-1"),
        (datetime.timedelta(seconds=-1), {"loss": 1.0}, r"after=datetime\.timedelta"),
        (30.0, {"loss": 1.0}, r"after=30\.0.*pass a datetime\.timedelta"),
        ("1 h", {"loss": 1.0}, r"after='1 h'.*pass a datetime\.timedelta"),
    ]
    for after, given, message in refused:
        with pytest.raises((ValueError, TypeError), match=message):
            learner.expire(after, **given)
    assert learner.to_json() == before


def test_a_warning_when_feedback_stops() -> None:
    learner = umab.Learner("uniform", 2, seed=0)
    for _ in range(998):
        learner.select()
    learner.update(learner.select(), 1.0)  # feedback: counting starts anew
    for _ in range(999):
        learner.select()
    before = learner.to_json()
    with pytest.raises(umab.LearnerWarning, match=r"1000 .*1997 .*expire"):
        learner.select()  # warnings are errors here
    assert learner.to_json() == before
    learner.select(5000)  # once is enough


def test_a_warning_when_the_draw_is_almost_deterministic() -> None:
    learner = umab.Learner("umab-nn", ["good", "bad"], seed=0)
    with pytest.warns(umab.LearnerWarning, match=r"arm='good' .*0\.999") as caught:
        for _ in range(20_000):
            choice = learner.select()
            learner.update(choice, float(choice.index))
    assert len(caught) == 1 and caught[0].filename == __file__


def orders_before_zeros(policy: umab.Policy) -> umab.Learner:
    """A learner of a shop: a tenth of the visitors order at once, and a 0 for the others comes 200 visitors later."""
    learner = umab.Learner(policy, ["a", "b"], maximize=True, seed=0)
    random = np.random.default_rng(0)
    for _ in range(10):
        for _ in range(1000):
            choice = learner.select()
            if random.random() < 0.1:
                learner.update(choice, reward=random.exponential(20.0))
        learner.expire(after=200, reward=0.0)
    return learner


def test_a_warning_when_the_order_of_arrival_looks_like_changes() -> None:
    with pytest.warns(umab.LearnerWarning, match=r"many changes, .* of \d+ losses .*changing=False") as caught:
        learner = orders_before_zeros(umab.recommended())
    assert len(caught) == 1 and caught[0].filename == __file__ and len(learner.changes()) >= 8
    orders_before_zeros(umab.recommended(changing=False))  # warnings are errors here
    steady = umab.Learner(umab.recommended(), ["a", "b"], seed=0)  # much expires, and in any order
    for number in range(3000):
        choice = steady.select()
        if number % 2:
            steady.update(choice, loss=float(number % 7))
        steady.expire(after=0, loss=float(number % 5))


@pytest.mark.parametrize(("policy", "n_arms"), [("ahb", 300), ("uniform", 1), ("umab-nn", 1)])
def test_no_warning_of_certainty_where_nothing_was_learned(policy: str, n_arms: int) -> None:
    learner = umab.Learner(policy, n_arms, seed=0)
    for _ in range(300):  # the probabilities are looked at every 256 draws
        learner.update(learner.select(), 1.0)


def test_certainty_is_seen_where_rounding_makes_it_whole_and_every_draw_takes_two_numbers() -> None:
    learner = umab.Learner("exp3-ix", ["a", "b", "c"], seed=0)
    for _ in range(3000):
        learner.update("a", 1.0)
        learner.update("b", 1.0)
    assert learner.probabilities().max() == 1.0
    learner.select()
    with pytest.warns(umab.LearnerWarning, match=r"arm='c' .*1\.0"):
        for _ in range(200):
            learner.select(among=["a", "c"])


@pytest.mark.parametrize("value", [5e-324, 0.1, 1e308, sys.float_info.max, -sys.float_info.max])
def test_the_mean_of_equal_losses_is_that_loss(value: float) -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    for _ in range(100):
        learner.update("a", value)
    assert learner.counters()["a"].mean == value


def test_the_mean_of_opposite_extremes_is_finite() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b"], seed=0)
    for sign in (1, -1, 1, -1):
        learner.update("a", sign * sys.float_info.max)
    assert learner.counters()["a"].mean == pytest.approx(0.0, abs=1e-9 * sys.float_info.max)


def test_an_age_below_0_is_refused() -> None:
    learner = umab.Learner("umab-g-a", 2, seed=0)
    learner.select()
    with pytest.raises(ValueError, match=r"after=datetime\.timedelta"):
        learner.expire(datetime.timedelta(seconds=-1), forget=True)
    assert len(learner.outstanding) == 1


def test_counters_stay_with_their_arms_when_one_goes() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0)
    for arm, loss in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        learner.update(arm, loss)
    learner.remove_arm("a")
    assert {arm: counter.mean for arm, counter in learner.counters().items()} == {"b": 2.0, "c": 3.0}
    learner.add_arm("a")
    assert learner.counters()["a"].updates == 0


def test_a_reward_of_0_is_a_loss_of_plain_0() -> None:
    assert [math.copysign(1.0, as_loss(True, None, zero)[1]) for zero in (0.0, 0)] == [1.0, 1.0]


def test_what_is_forgotten_teaches_nothing() -> None:
    learner = played(20)
    choice = learner.select()
    before = state_of(learner)
    learner.forget(choice)
    assert state_of(learner) == before and not learner.outstanding


def test_a_draw_is_noted_once() -> None:
    """By `select`, or by `update` for a choice that was made elsewhere; AHB shows it, which plays each arm first."""
    learner = umab.Learner("ahb", ["a", "b", "c"], seed=0)
    learner.update(learner.select(), 1.0)
    assert learner.probabilities().tolist() == [0.0, 1.0, 0.0]
    learner.update("b", 1.0)
    assert learner.probabilities().tolist() == [0.0, 0.0, 1.0]


def test_open_choices_are_counted_for_the_arm_that_was_drawn() -> None:
    learner = umab.Learner("umab-g-a", ["a", "b", "c"], seed=0)
    learner.select(30, among=["b"])
    assert [counter.open for counter in learner.counters().values()] == [0, 30, 0]


def test_a_choice_that_is_open_twice_is_refused() -> None:
    learner = played(3)
    learner.select(2)
    saved = json.loads(learner.to_json())
    saved["open"]["number"] = column("<i8", 3, 3)
    with pytest.raises(ValueError, match=r"'number'.*row 1"):
        umab.Learner.from_json(json.dumps(saved))


def test_what_is_nested_too_deeply_is_no_learner() -> None:
    with pytest.raises(ValueError, match=r"saved learner.*JSON"):
        umab.Learner.from_json("[" * 100_000)


VERSIONS = sorted((Path(__file__).parent / "saved").glob("version-*.json"))


def loss_of(t: int, index: int) -> float:
    """Return the losses that the learners of the saved files went on with."""
    return [30.0, 10.0, 20.0][index] + (t * 7919 % 101) / 10.0 - (1000.0 if t % 37 == 0 else 0.0)


def goes_on_as(learner: umab.Learner, after: list[Any]) -> bool:
    """Whether a learner that was read decides as the one that was saved did after it."""
    learner.update(learner.outstanding[0], 12.5)
    for t, (arm, probability) in enumerate(after, start=60):
        choice = learner.select()
        if (choice.arm, choice.probability) != (arm, probability):
            return False
        learner.update(choice, loss_of(t, choice.index))
    return True


def test_there_is_a_file_of_every_version() -> None:
    oldest = min(migrations._MIGRATIONS, default=migrations.VERSION)
    assert [path.stem for path in VERSIONS] == [f"version-{each}" for each in range(oldest, migrations.VERSION + 1)]


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_what_earlier_versions_saved_is_read_and_goes_on_bit_for_bit(path: Path) -> None:
    """Each file was written by the program of its day, with what its learners did afterwards."""
    content = json.loads(path.read_text())
    assert len(content) >= 5
    for name, each in content.items():
        learner = umab.Learner.from_json(json.dumps(each["saved"]))
        assert learner.policy == umab.policy(name)
        assert goes_on_as(learner, each["after"]), name
        given = umab.Learner.from_json(json.dumps(each["saved"]), policy=umab.policy(name))
        assert goes_on_as(given, each["after"]), name


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_a_default_that_changes_does_not_change_what_was_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UMAB-S learns with rate=3 in the files, and UMAB-G-A explores adaptively, whatever their defaults become."""
    content = json.loads(path.read_text())
    defaults = umab.UMABS.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(umab.UMABS.__init__, "__kwdefaults__", {**defaults, "rate": 2.0})
    prototypes = {
        **registry._POLICIES,
        "centred(umab-s)": umab.Record(umab.Centred(umab.UMABS())),
        "umab-s": umab.Record(umab.UMABS()),
        "umab-g-a": umab.Record(umab.UMABGA(exploration="maintext", initial_scale=9.0)),
    }
    monkeypatch.setattr(registry, "_POLICIES", prototypes)
    assert umab.policy("centred(umab-s)") == umab.Centred(umab.UMABS(rate=2.0))
    for name in ("centred(umab-s)", "umab-g-a:rate=4"):
        learner = umab.Learner.from_json(json.dumps(content[name]["saved"]))
        again = umab.Learner.from_json(learner.to_json())
        for each in (learner, again):
            assert each.policy in (umab.Centred(umab.UMABS(rate=3.0)), umab.UMABGA(rate=4.0))
            assert goes_on_as(each, content[name]["after"])


def test_pickles_of_earlier_versions_are_read() -> None:
    for path in VERSIONS:
        for name, each in json.loads(path.read_text()).items():
            read = umab.Learner.__new__(umab.Learner)
            read.__setstate__((each["saved"], umab.policy(name)))
            assert goes_on_as(read, each["after"])


def test_a_learner_of_a_policy_that_is_not_registered_is_loaded_with_it(tmp_path: Path) -> None:
    learner = umab.Learner(Unregistered(step=2.0), ["a", "b"], seed=0)
    learner.update(learner.select(), 1.0)
    learner.save(tmp_path / "mine.json")
    with pytest.raises(ValueError, match=r"registered.*Learner\.load\(path, policy="):
        umab.Learner.load(tmp_path / "mine.json")
    loaded = umab.Learner.load(tmp_path / "mine.json", policy=Unregistered(step=2.0))
    assert loaded.to_json() == learner.to_json()
    with pytest.raises(ValueError, match=r"step.: 2\.0.*step=3\.0"):
        umab.Learner.load(tmp_path / "mine.json", policy=Unregistered(step=3.0))
    with pytest.raises(TypeError, match=r"umab\.Policy.*policy='uniform'"):
        umab.Learner.load(tmp_path / "mine.json", policy="uniform")  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unregistered(umab.Uniform):
    step: float = 1.0


def test_labels_have_the_type_of_the_arms() -> None:
    """Type checkers see it; `make lint` fails here if they do not."""
    texts, numbers = umab.Learner("uniform", ["a", "b"], seed=0), umab.Learner("uniform", 2, seed=0)
    assert_type(texts, umab.Learner[str])
    assert_type(texts.select().arm, str)
    assert_type(texts.select(2)[0].arm, str)
    assert_type(texts.counters(), dict[str, umab.Counter])
    assert_type(texts.changes(), list[Change[str]])
    assert_type(numbers.select().arm, int)
    assert_type(umab.UMABW().changes(umab.UMABW().init(2)), list[Change[int]])
    mixed = umab.Learner("uniform", ["a", 1], seed=0)
    assert texts.arms == ("a", "b") and numbers.arms == (0, 1) and mixed.arms == ("a", 1)
    with pytest.raises(ValueError, match="arm must be one of"):
        texts.update(1, 2.5)  # type: ignore[arg-type]
