"""Choose an arm for a piece of code, time the code, and tell the learner what it cost, even if it fails."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, cast, get_args

from umab._support import checks
from umab.algorithms.registry import recommended
from umab.online.choice import Choice, L, L_co
from umab.online.learner import Learner

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Forget = Literal["forget", "leave out"]
Failure = float | Forget | Callable[[BaseException, float], float | Forget]

_FORGET = get_args(Forget)  # "leave out" is the older spelling

# They stop the program, or a coroutine that nobody waits for any more, and say nothing about the arm.
_NO_FAULT_OF_THE_ARM = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Attempt(Generic[L]):
    """Draw an arm, run the block of a `with` statement, and report its run time, or another loss.

    The choice is closed however the block ends. `with` and ``async with`` do the same: nothing here waits, and the
    learner takes some microseconds, which an event loop does not notice. Many attempts may be under way at once, in
    threads or in tasks; each reports when it ends.

    Parameters
    ----------
    learner
        The learner that draws the arm and learns from the loss.
    failure
        The loss of an attempt whose block raises an exception, is cancelled or runs into a timeout. It is a number, or
        a function of the exception and the seconds until then that returns one, or ``"forget"``: the choice is
        forgotten and nothing is learned, which makes an arm that often fails look good. (``"leave out"`` is an older
        spelling of ``"forget"``.) The caller gets the exception in all cases. A KeyboardInterrupt, a SystemExit or the
        closing of a coroutine says nothing about the arm: the choice is forgotten.

    Attributes
    ----------
    arm
        The label of the arm to use.
    choice
        The choice, with its probability.
    seconds
        The run time, up to now or up to the end of the block.
    loss
        Set this to report a loss other than the run time: a number, or ``"forget"`` for an attempt that says nothing
        about its arm. A loss that the learner refuses, such as nan, counts as a failure, with a RuntimeWarning.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.recommended(), arms=["small", "large"], seed=0)
    >>> with umab.Attempt(learner, failure=30.0) as attempt:
    ...     answer = f"the answer of the {attempt.arm} model"
    >>> learner.outstanding
    ()
    """

    choice: Choice[L]

    def __init__(self, learner: Learner[L], *, failure: Failure) -> None:
        _check_learner(learner)
        self._learner = learner
        self._failure = _checked_failure(failure, learner)
        self._loss_of: Callable[[float], float | Forget] | None = None
        self.loss: float | Forget | None = None

    @property
    def arm(self) -> L:
        """The label of the arm to use."""
        return self.choice.arm

    @property
    def seconds(self) -> float:
        """The run time, up to now or up to the end of the block."""
        return (perf_counter() if self._stop is None else self._stop) - self._start

    def __enter__(self) -> Self:
        """Draw the arm and start the clock."""
        if hasattr(self, "choice"):
            raise RuntimeError("an attempt must be entered once, but this one was entered before; create a new one")
        self.choice = self._learner.select()
        self._stop: float | None = None
        self._start = perf_counter()  # last: the learner's own time does not count against the arm
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the clock and close the choice. Exceptions go on to the caller."""
        self._stop = perf_counter()
        try:
            self._settle(error)
        except BaseException:  # Ctrl-C in the middle of it
            self._forget()
            raise

    async def __aenter__(self) -> Self:
        """Draw the arm and start the clock."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the clock and close the choice. Exceptions go on to the caller."""
        self.__exit__(kind, error, traceback)

    def _settle(self, error: BaseException | None) -> None:
        if isinstance(error, _NO_FAULT_OF_THE_ARM):
            self._forget()
        elif error is not None:
            self._fail(error)
        else:
            try:
                self._report(self._loss())
            except Exception as refused:
                if self._is_open():
                    self._fail(refused)
                    self._warn(f"has no loss that the learner accepts, and counts as failed: {refused!r}")

    def _loss(self) -> float | Forget:
        if self._loss_of is not None:
            return self._loss_of(self.seconds)
        return self.seconds if self.loss is None else self.loss

    def _fail(self, error: BaseException) -> None:
        try:
            self._report(self._failure(error, self.seconds) if callable(self._failure) else self._failure)
        except Exception as refused:
            if self._is_open():
                self._forget()
                self._warn(f"failed without a loss that the learner accepts, and is forgotten: {refused!r}")

    def _report(self, loss: float | Forget) -> None:
        if _means_forget(loss):
            self._forget()
        else:
            self._learner.update(self.choice, loss=cast("float", loss))

    def _forget(self) -> None:
        if self._is_open():
            self._learner.forget(self.choice)

    def _is_open(self) -> bool:
        """Return whether the choice is still open; it may have expired while the block ran."""
        return self._learner.is_open(self.choice)

    def _warn(self, what: str) -> None:
        frame, level = inspect.currentframe(), 1
        while frame is not None and frame.f_code.co_filename == __file__:  # the warning is for the caller
            frame, level = frame.f_back, level + 1
        warnings.warn(f"an attempt with arm={self.arm!r} {what}", RuntimeWarning, stacklevel=level)


class Chosen(Protocol[P, R_co]):
    """A function that chooses an arm at every call: what `choose` returns for a function that takes the arm."""

    learner: Learner
    """The learner that chooses, to save it or to look at it."""
    __signature__: inspect.Signature
    """What callers pass: all but the arm."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function with an arm that the learner draws, followed by the arguments."""


class _Choose(Protocol[L_co]):
    def __call__(self, function: Callable[Concatenate[L_co, P], R], /) -> Chosen[P, R]: ...


def choose(
    *arms: L,
    failure: Failure,
    loss: Callable[[Any, float], float | Forget] | None = None,
    learner: Learner[L] | None = None,
) -> _Choose[L]:
    """Make a function choose its first argument, the arm, by itself, and learn from what each call costs.

    It decorates functions and coroutine functions (``async def``). Callers omit the first argument. Calls may run at
    the same time, in threads or in tasks. `Attempt` does the same for a block of code.

    Parameters
    ----------
    arms
        The labels of the arms, at least two: strings or numbers. `umab.recommended` chooses among them.
    failure
        The loss of a call that raises an exception, is cancelled or runs into a timeout; see `Attempt`. There is no
        default, because no number is always safe: one below the loss of a success would make failing worthwhile.
    loss
        A function of the result and of the run time in seconds that returns the loss, or ``"forget"`` for a call that
        says nothing about its arm. None means the run time. If it raises an exception, or returns something that is not
        a loss, such as nan, the call counts as failed, with a RuntimeWarning, and the caller still gets the result.
    learner
        In place of `arms`: your own learner, with another policy, a seed, or what it has learned before.

    Returns
    -------
    A decorator. The function that it returns has the learner as its attribute ``learner``.

    Examples
    --------
    >>> import umab
    >>> @umab.choose("zlib", "bz2", "lzma", failure=1.0)
    ... def compress(codec, data):
    ...     return __import__(codec).compress(data)
    >>> len(compress(bytes(1000))) < 100
    True
    >>> compress.learner.arms
    ('zlib', 'bz2', 'lzma')
    """
    if learner is None:
        if len(arms) < 2:
            hint = (
                "; pass the arms one by one: choose(*arms, ...)"
                if any(isinstance(each, list | tuple) for each in arms)
                else ""
            )
            raise ValueError(f"choose must get at least two arms, or a learner, but got {checks.shown(arms)}{hint}")
    elif arms:
        raise ValueError(
            f"choose must get either arms or a learner, but got both: {checks.shown(arms)} and {learner!r}"
        )
    if loss is not None and (not callable(loss) or inspect.iscoroutinefunction(loss)):
        raise TypeError(f"loss must be a function of the result and the seconds, but got loss={checks.shown(loss)}")
    if loss is not None and not _takes_two(loss):
        raise TypeError(f"loss must take two arguments, the result and the seconds, but {loss!r} does not")
    if callable(failure) and not _takes_two(failure):  # here, because an Attempt is made at every call
        raise TypeError(f"failure must take two arguments, the exception and the seconds, but {failure!r} does not")

    def decorate(function: Callable[Concatenate[L, P], R], /) -> Chosen[P, R]:
        signature = _signature_without_arm(function)
        made: Callable[P, object]
        chooser = Learner(recommended(), arms) if learner is None else learner
        Attempt(chooser, failure=failure)  # raises at once if they are wrong
        name = getattr(function, "__name__", repr(function))

        def check_arguments(args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
            """Raise if the function cannot take these arguments, before an arm is drawn: it is not to blame."""
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}; callers omit the first argument, the arm") from None

        def finish(attempt: Attempt[L], result: object) -> None:
            _check_finished(name, result)
            if loss is not None:
                attempt._loss_of = functools.partial(loss, result)

        if inspect.iscoroutinefunction(function):
            awaited = cast("Callable[..., Awaitable[object]]", function)

            @functools.wraps(function)
            async def chosen_later(*args: P.args, **kwargs: P.kwargs) -> object:
                check_arguments(args, kwargs)
                with Attempt(chooser, failure=failure) as attempt:
                    result = await awaited(attempt.arm, *args, **kwargs)
                    finish(attempt, result)
                return result

            made = chosen_later
        else:

            @functools.wraps(function)
            def chosen_now(*args: P.args, **kwargs: P.kwargs) -> object:
                check_arguments(args, kwargs)
                with Attempt(chooser, failure=failure) as attempt:
                    result = function(attempt.arm, *args, **kwargs)
                    finish(attempt, result)
                return result

            made = chosen_now

        chosen = cast("Chosen[P, R]", made)
        chosen.learner, chosen.__signature__ = chooser, signature
        return chosen

    return decorate


def _check_learner(learner: object) -> None:
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner, but got learner={checks.shown(learner)}")
    if learner.maximize:
        raise ValueError(
            "learner must minimize losses, such as run times, but got one with maximize=True; "
            "create it without maximize=True, and let the loss be minus the reward"
        )


def _checked_failure(failure: object, learner: Learner) -> Failure:
    """Return the loss of a failure, if the learner accepts it."""
    if callable(failure) or _means_forget(failure):
        return cast("Failure", failure)
    try:
        number = checks.real("failure", failure)
    except TypeError:
        rule = "failure must be a number, a function of the exception and the seconds, or 'forget'"
        raise TypeError(f"{rule}, but got failure={checks.shown(failure)}") from None
    refusal = learner.policy.refusal(number, "a failure")
    if refusal is not None:
        raise ValueError(refusal)
    return number


def _means_forget(value: object) -> bool:
    """Return whether a value says to learn nothing from the attempt."""
    return isinstance(value, str) and value in _FORGET


def _takes_two(function: Callable[..., object]) -> bool:
    """Return whether it can be called with two arguments, as far as can be told beforehand."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions in C do not say
        return True
    return True


def _signature_without_arm(function: object) -> inspect.Signature:
    """Return the signature that callers see; raise if the function cannot be used."""
    if not callable(function):
        raise TypeError(f"choose must decorate a function, but got {checks.shown(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"choose needs a function that returns when its work is done, but {function!r} is a generator")
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    kind = parameters[0].kind if parameters else inspect.Parameter.KEYWORD_ONLY
    if kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise TypeError(f"the first parameter of the function must take the arm, but {function!r} has none that can")
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return signature
    if parameters[0].name in ("self", "cls"):
        raise TypeError(
            f"the first parameter of the function must take the arm, but {function!r} has {parameters[0].name!r} "
            "there; in a method, use umab.Attempt"
        )
    return signature.replace(parameters=parameters[1:])


def _check_finished(name: str, result: object) -> None:
    """Raise if a result has not been computed yet: its run time would be almost nothing."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # nobody will await it
        raise TypeError(
            f"choose needs a function that returns when its work is done, but {name} returned {result!r}; "
            "declare it with async def, and await what it calls"
        )
