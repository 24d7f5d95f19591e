"""Attempts and choose: what the learner is told about calls that succeed, fail, hang, or are cancelled."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import umab
from helpers import PATIENCE
from umab.online import choosing
from umab.online.choosing import Attempt, Failure, Forget, choose


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Heard(umab.Learner):
    """A learner that notes what it is told."""

    def __init__(self, policy: umab.Policy | str = "umab-s", arms: Any = ("a", "b"), seed: int = 0) -> None:
        super().__init__(policy, arms, seed=seed)
        self.losses: list[float] = []
        self.forgotten: list[umab.Choice | umab.Draw] = []

    def update(self, choice: Any, loss: Any = None, **more: Any) -> None:
        super().update(choice, loss, **more)
        self.losses.append(loss)

    def forget(self, choice: umab.Choice | umab.Draw) -> None:
        super().forget(choice)
        self.forgotten.append(choice)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(choosing, "perf_counter", made)
    return made


@pytest.fixture
def learner() -> Iterator[Heard]:
    made = Heard()
    yield made
    assert made.outstanding == ()  # whatever a test has done


def test_the_run_time_is_the_loss(learner: Heard, clock: Clock) -> None:
    with Attempt(learner, failure=30.0) as attempt:
        assert learner.outstanding == (attempt.choice,) and attempt.arm == attempt.choice.arm
        clock.advance(0.5)
        assert attempt.seconds == 0.5
        clock.advance(1.0)
    clock.advance(7.0)
    assert attempt.seconds == 1.5 and learner.losses == [1.5]


def test_the_time_that_the_learner_takes_is_not_the_arms(clock: Clock) -> None:
    class Slow(Heard):
        def select(self, *args: Any, **more: Any) -> Any:
            clock.advance(100.0)  # as when machine code is made at the first call
            return super().select(*args, **more)

        def update(self, choice: Any, loss: Any = None, **more: Any) -> None:
            clock.advance(100.0)
            super().update(choice, loss, **more)

    learner = Slow()
    with Attempt(learner, failure=30.0):
        clock.advance(2.0)
    assert learner.losses == [2.0]


@pytest.mark.parametrize("word", ["forget", "leave out"])
def test_a_loss_of_ones_own(learner: Heard, word: Forget) -> None:
    with Attempt(learner, failure=30.0) as attempt:
        attempt.loss = -3.0
    with Attempt(learner, failure=30.0) as attempt:
        attempt.loss = word
    assert learner.losses == [-3.0] and learner.forgotten == [attempt.choice]


def test_an_exception_has_the_stated_loss_and_goes_on(learner: Heard, clock: Clock) -> None:
    error = OSError("no route")
    with pytest.raises(OSError, match="no route") as caught, Attempt(learner, failure=30.0) as attempt:
        attempt.loss = 1.0  # what was hoped for does not count
        clock.advance(500.0)
        raise error
    assert caught.value is error and learner.losses == [30.0]


def test_a_failure_may_depend_on_the_exception_and_the_time(learner: Heard, clock: Clock) -> None:
    seen: list[BaseException] = []

    def cost(error: BaseException, seconds: float) -> float:
        seen.append(error)
        return seconds + 10.0

    with pytest.raises(ZeroDivisionError), Attempt(learner, failure=cost):
        clock.advance(0.25)
        _ = 1 / 0
    assert learner.losses == [10.25] and isinstance(seen[0], ZeroDivisionError)


@pytest.mark.parametrize("word", ["forget", "leave out"])
@pytest.mark.parametrize("by_function", [False, True])
def test_a_failure_that_is_forgotten(learner: Heard, word: Forget, by_function: bool) -> None:
    before = learner.probabilities()
    failure: Failure = (lambda error, seconds: word) if by_function else word
    with pytest.raises(OSError), Attempt(learner, failure=failure) as attempt:
        raise OSError
    assert learner.losses == [] and learner.forgotten == [attempt.choice]
    assert (learner.probabilities() == before).all()


@pytest.mark.parametrize("word", ["forget", "leave out"])
def test_a_call_that_is_forgotten(learner: Heard, word: Forget) -> None:
    def judged(result: float, seconds: float) -> float | Forget:
        return word if result < 0.0 else result

    @choose(failure=30.0, loss=judged, learner=learner)
    def give(arm: str, value: float) -> float:
        return value

    assert give(2.0) == 2.0 and give(-1.0) == -1.0
    assert learner.losses == [2.0] and len(learner.forgotten) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_end_of_the_program_is_no_failure_of_the_arm(learner: Heard, stop: type[BaseException]) -> None:
    with pytest.raises(stop), Attempt(learner, failure=30.0):
        raise stop
    assert learner.losses == [] and len(learner.forgotten) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, "a text", None])
def test_a_loss_that_is_none_counts_as_a_failure(learner: Heard, bad: Any) -> None:
    @choose(failure=30.0, loss=lambda result, seconds: result, learner=learner)
    def give(arm: str, value: Any) -> Any:
        return value

    with pytest.warns(RuntimeWarning, match=f"arm='[ab]' .*failed.*loss={bad!r}"):
        result = give(bad)
    assert result is bad and learner.losses == [30.0]  # the caller has the result, and the arm does not look good


def test_a_loss_function_that_raises_counts_as_a_failure(learner: Heard) -> None:
    @choose(failure=lambda error, seconds: 7.0 + isinstance(error, KeyError), loss=lambda r, s: r["x"], learner=learner)
    def give(arm: str) -> dict[str, float]:
        return {}

    with pytest.warns(RuntimeWarning, match=r"KeyError\('x'\)"):
        assert give() == {}
    assert learner.losses == [8.0]


def test_a_warning_points_to_the_call(learner: Heard) -> None:
    broken = choose(failure=30.0, loss=lambda result, seconds: math.nan, learner=learner)(nothing_but_the_arm)
    with pytest.warns(RuntimeWarning) as warned:
        broken()
        with Attempt(learner, failure=lambda error, seconds: math.nan) as attempt:
            attempt.loss = math.nan
    assert [each.filename for each in warned] == [__file__] * 3


def test_warnings_as_errors_leave_nothing_open(learner: Heard) -> None:
    with pytest.raises(RuntimeWarning), Attempt(learner, failure=30.0) as attempt:  # pytest makes errors of warnings
        attempt.loss = math.nan
    assert learner.losses == [30.0]


def test_after_a_failure_function_that_fails_the_attempt_is_forgotten_with_a_warning(learner: Heard) -> None:
    def broken(error: BaseException, seconds: float) -> float:
        raise KeyError("broken")

    for failure in (broken, lambda error, seconds: math.nan):
        with (
            pytest.warns(RuntimeWarning, match=r"arm='[ab]' failed.*forgotten"),
            pytest.raises(OSError, match="the first"),
            Attempt(learner, failure=failure),
        ):
            raise OSError("the first")
    assert learner.losses == [] and len(learner.forgotten) == 2


def test_an_interrupt_while_the_loss_is_worked_out_leaves_nothing_open(learner: Heard) -> None:
    def interrupted(result: Any, seconds: float) -> float:
        raise KeyboardInterrupt

    @choose(failure=30.0, loss=interrupted, learner=learner)
    def give(arm: str) -> None:
        pass

    with pytest.raises(KeyboardInterrupt):
        give()
    assert learner.losses == [] and len(learner.forgotten) == 1


def test_a_choice_that_was_closed_meanwhile_is_not_counted_twice(learner: Heard) -> None:
    with Attempt(learner, failure=30.0) as attempt:
        learner.update(attempt.choice, 99.0)  # as one that has expired
    with pytest.raises(OSError), Attempt(learner, failure=30.0) as attempt:
        learner.forget(attempt.choice)
        raise OSError
    assert learner.losses == [99.0]


def test_an_attempt_is_entered_once(learner: Heard) -> None:
    attempt = Attempt(learner, failure=30.0)
    with attempt:
        attempt.loss = 1.0
    with pytest.raises(RuntimeError, match="entered"), attempt:
        pass
    assert learner.losses == [1.0]


def test_what_a_failure_costs_must_be_said_and_must_be_a_loss() -> None:
    learner = umab.Learner("umab-nn", ["a", "b"])
    with pytest.raises(TypeError, match="failure"):
        choose("a", "b")  # type: ignore[call-arg]
    refused: list[tuple[Any, type[Exception], str]] = [
        (None, TypeError, "'forget'.*failure=None"),
        ("leave-out", TypeError, "failure='leave-out'"),
        (math.nan, ValueError, "loss=nan for a failure"),
        (-1.0, ValueError, r"umab-nn.*loss=-1\.0 for a failure"),
    ]
    for failure, kind, message in refused:
        with pytest.raises(kind, match=message):
            Attempt(learner, failure=failure)
        with pytest.raises(kind, match=message):
            choose(learner=learner, failure=failure)(lambda arm: arm)
    assert learner.outstanding == ()


def test_what_can_be_decorated() -> None:
    def generates(arm: str) -> Generator[int]:
        yield 1

    async def generates_late(arm: str) -> AsyncIterator[int]:
        yield 1

    def method(self: Any, arm: str) -> None: ...

    def nothing() -> None: ...

    def keyword(*, arm: str) -> None: ...

    chooses: Any = choose("a", "b", failure=30.0)
    for function, message in (
        (generates, "generates at .*generator"),
        (generates_late, "generates_late at .*generator"),
        (method, r"'self'.*umab\.Attempt"),
        (nothing, "the arm.*nothing at"),
        (keyword, "the arm.*keyword at"),
        (3, "function.* 3$"),
    ):
        with pytest.raises(TypeError, match=message):
            chooses(function)
    with pytest.raises(TypeError, match=r"^loss .*two arguments.*lambda"):
        umab.choose("a", "b", failure=1.0, loss=lambda result: 1.0)  # type: ignore[misc, arg-type]
    with pytest.raises(TypeError, match=r"^failure .*two arguments.*lambda"):
        umab.choose("a", "b", failure=lambda error: 1.0)  # type: ignore[misc, arg-type]
    with pytest.raises(ValueError, match=r"\(\['a', 'b'\],\).*choose\(\*arms"):
        umab.choose(["a", "b"], failure=1.0)  # type: ignore[type-var]
    with pytest.raises(ValueError, match=r"maximize=True.*minus"):
        umab.Attempt(umab.Learner("uniform", 2, maximize=True), failure=1.0)
    with pytest.raises(ValueError, match=r"two arms.*\('a',\)"):
        choose("a", failure=30.0)
    with pytest.raises(ValueError, match=r"both: \('a', 'b'\) and Learner"):
        choose("a", "b", failure=30.0, learner=umab.Learner("umab-s", 2))  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"function.*loss=1\.0"):
        choose("a", "b", failure=30.0, loss=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="learner='umab-s'"):
        choose(learner="umab-s", failure=30.0)(nothing_but_the_arm)  # type: ignore[arg-type]


def nothing_but_the_arm(arm: str) -> str:
    return arm


def test_a_learner_of_rewards_is_refused(learner: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heard, "maximize", True, raising=False)
    with pytest.raises(ValueError, match="maximize=True"):
        Attempt(learner, failure=30.0)


def test_a_result_that_is_yet_to_be_worked_out_is_refused(learner: Heard) -> None:
    async def work(arm: str) -> str:
        return arm

    for late in (work, lambda arm: (each for each in arm)):
        chosen: Callable[[], object] = choose(failure=30.0, learner=learner)(late_of(late))
        with pytest.raises(TypeError, match="async def"):
            chosen()
    assert learner.losses == [30.0, 30.0]  # and not a run time of nothing


def late_of(function: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda arm: function(arm)


def test_a_chosen_function_is_as_it_was_without_the_arm(learner: Heard, clock: Clock) -> None:
    @choose(failure=30.0, learner=learner)
    def answer(model: str, question: str, *, loudly: bool = False) -> str:
        """Answer a question."""
        clock.advance(2.0)
        return f"{model}: {question}{'!' * loudly}"

    said: str = answer("why", loudly=True)  # mypy knows the type
    assert said in ("a: why!", "b: why!") and learner.losses == [2.0]
    assert answer.learner is learner
    assert str(inspect.signature(answer)) == "(question: 'str', *, loudly: 'bool' = False) -> 'str'"
    assert inspect.getdoc(answer) == "Answer a question."

    def wrong() -> None:  # mypy knows the parameters, too
        answer(3)  # type: ignore[arg-type]


def test_each_decorated_function_has_a_learner_of_its_own_unless_it_is_given_one(learner: Heard) -> None:
    own, shared = choose("x", "2", failure=30.0), choose(failure=30.0, learner=learner)
    first, second = own(nothing_but_the_arm), own(nothing_but_the_arm)
    assert first.learner is not second.learner and first.learner.arms == ("x", "2")
    assert first.learner.policy == umab.recommended()
    assert shared(nothing_but_the_arm).learner is shared(nothing_but_the_arm).learner is learner


def test_it_learns_and_goes_on_after_a_restart(clock: Clock) -> None:
    def work(arm: str) -> str:
        clock.advance({"slow": 9.0, "fast": 1.0}[arm])
        return arm

    def run(times: int, learner: umab.Learner) -> tuple[list[str], umab.Learner]:
        chosen = choose(failure=30.0, learner=learner)(work)
        return [chosen() for _ in range(times)], chosen.learner

    fresh = umab.Learner(umab.recommended(), ["slow", "fast"], seed=1)
    whole, _ = run(200, umab.Learner.from_json(fresh.to_json()))
    first, learner = run(100, fresh)
    second, learner = run(100, umab.Learner.from_json(learner.to_json()))
    assert first + second == whole
    assert whole[100:].count("fast") > 80


def test_a_failing_arm_is_left_for_another(clock: Clock) -> None:
    @choose(failure=30.0, learner=umab.Learner(umab.recommended(), ["sound", "fails at once"], seed=0))
    def work(arm: str) -> str:
        if arm == "fails at once":
            raise OSError
        clock.advance(1.0)
        return arm

    failed = 0
    for _ in range(200):
        try:
            work()
        except OSError:
            failed += 1
    assert failed < 40 and work.learner.probabilities()[0] > 0.8


def test_threads_share_a_chosen_function() -> None:
    learner = Heard(arms=4)
    barrier = threading.Barrier(8)

    @choose(failure=30.0, loss=lambda result, seconds: result, learner=learner)
    def work(arm: int, call: int) -> float:
        if call < 8:
            barrier.wait(timeout=PATIENCE)  # eight are under way at once
        if call % 3 == 0:
            raise OSError(call)
        return float(call)

    def failed(call: int) -> bool:
        try:
            return work(call) != call
        except OSError as error:
            return error.args == (call,)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(failed, range(400)))
    assert outcomes == [call % 3 == 0 for call in range(400)]
    assert sorted(learner.losses) == sorted(30.0 if call % 3 == 0 else float(call) for call in range(400))
    assert learner.outstanding == ()


def test_nested_choices_each_have_their_loss(clock: Clock) -> None:
    outer_learner, inner_learner = Heard(), Heard(arms=3)

    @choose(failure=30.0, learner=inner_learner)
    def inner(arm: int, depth: int) -> int:
        clock.advance(1.0)
        return depth if depth == 0 else inner(depth - 1)

    @choose(failure=30.0, learner=outer_learner)
    def outer(arm: str) -> int:
        clock.advance(1.0)
        return inner(2)

    assert outer() == 0
    assert inner_learner.losses == [1.0, 2.0, 3.0] and outer_learner.losses == [4.0]
    assert outer_learner.outstanding == inner_learner.outstanding == ()


def test_the_run_time_of_a_coroutine_is_measured_across_awaits(learner: Heard, clock: Clock) -> None:
    @choose(failure=30.0, learner=learner)
    async def work(arm: str, seconds: float) -> str:
        await asyncio.sleep(0)
        clock.advance(seconds)
        await asyncio.sleep(0)
        return arm

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work(1.5)) in ("a", "b") and learner.losses == [1.5]


def test_async_with_does_the_same(learner: Heard, clock: Clock) -> None:
    async def main() -> None:
        async with Attempt(learner, failure=30.0):
            await asyncio.sleep(0)
            clock.advance(1.5)
        async with Attempt(learner, failure=30.0):
            raise OSError

    with pytest.raises(OSError):
        asyncio.run(main())
    assert learner.losses == [1.5, 30.0]


def test_a_hundred_calls_at_once() -> None:
    learner = Heard(arms=5)
    open_at_once = 0

    @choose(failure=30.0, loss=lambda result, seconds: result, learner=learner)
    async def work(arm: int, call: int) -> float:
        nonlocal open_at_once
        for _ in range(call % 7 + 1):
            await asyncio.sleep(0)
        open_at_once = max(open_at_once, len(learner.outstanding))
        if call % 10 == 0:
            raise OSError
        return float(call)

    async def main() -> list[float | BaseException]:
        return await asyncio.gather(*(work(call) for call in range(100)), return_exceptions=True)

    results = asyncio.run(main())
    assert [call for call in range(100) if isinstance(results[call], OSError)] == list(range(0, 100, 10))
    assert open_at_once == 100 and learner.outstanding == ()
    assert sorted(learner.losses) == sorted(30.0 if call % 10 == 0 else float(call) for call in range(100))


def hangs(learner: Heard) -> Callable[[], Any]:
    @choose(failure=lambda error, seconds: seconds + 10.0, learner=learner)
    async def work(arm: str) -> None:
        await asyncio.Event().wait()

    return work


def test_a_call_that_is_cancelled_has_failed(learner: Heard) -> None:
    async def main() -> None:
        task = asyncio.create_task(hangs(learner)())
        await asyncio.sleep(0)
        assert len(learner.outstanding) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(learner.losses) == 1 and 10.0 < learner.losses[0] < 20.0


def test_a_timeout_around_a_call_is_a_failure(learner: Heard) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hangs(learner)(), timeout=0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await hangs(learner)()

    asyncio.run(main())
    assert len(learner.losses) == 2 and all(10.005 < loss < 20.0 for loss in learner.losses)


def test_a_timeout_inside_a_call_is_a_failure(learner: Heard) -> None:
    @choose(failure=30.0, learner=learner)
    async def work(arm: str) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(work())
    assert learner.losses == [30.0]


def test_a_coroutine_that_is_closed_is_forgotten(learner: Heard) -> None:
    call = hangs(learner)()
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
    waiting = call.__await__()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(asyncio.sleep(0))
        asyncio._set_running_loop(loop)
        next(waiting)
        assert len(learner.outstanding) == 1
    finally:
        asyncio._set_running_loop(None)
        loop.close()
    call.close()
    assert learner.losses == [] and len(learner.forgotten) == 1


def test_a_seed_makes_the_choices_repeatable() -> None:
    def arms(seed: int) -> list[str]:
        learner = umab.Learner(umab.recommended(), ["a", "b", "c"], seed=seed)
        work = choose(failure=30.0, loss=lambda result, seconds: ord(result), learner=learner)(nothing_but_the_arm)
        return [work() for _ in range(50)]

    assert arms(3) == arms(3) != arms(4)


def test_forgetting_refuses_what_is_not_open() -> None:
    learner = umab.Learner("umab-s", 2, seed=0)
    choice = learner.select()
    learner.forget(choice)
    with pytest.raises(ValueError, match=f"id='{choice.id}' .*forgotten"):
        learner.forget(choice)
    with pytest.raises(ValueError, match=f"id='{choice.id}' .*forgotten"):
        learner.update(choice, 1.0)


def test_wrong_arguments_are_no_failure_of_an_arm(learner: Heard) -> None:
    @choose(failure=30.0, learner=learner)
    def add(arm: str, first: int, second: int = 0) -> int:
        return first + second

    before = learner.to_json()
    wrong: Any = add
    bad: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), {}), (("a", 1, 2), {}), ((1,), {"third": 2})]
    for args, kwargs in bad:
        with pytest.raises(TypeError, match=r"add: .*first argument"):
            wrong(*args, **kwargs)
    assert learner.to_json() == before
    assert add(1, second=2) == 3
