"""Choosing around code that runs: time it, and tell the learner what it cost, also when it fails."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Coroutine
from time import perf_counter
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar, cast

from umab import checks
from umab.algorithms.registry import recommended
from umab.learner import Choice, Label, Learner

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

LeaveOut = Literal["leave out"]
Failure = float | LeaveOut | Callable[[BaseException, float], float | LeaveOut]

_LEAVE_OUT: LeaveOut = "leave out"

# They stop the program, or a coroutine that nobody waits for any more, and say nothing about the arm.
_NO_FAULT_OF_THE_ARM = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Attempt:
    """Draw an arm, run the block of a `with` statement, and report its run time, or another loss.

    The choice is closed when the block ends, in whatever way. `with` and ``async with`` do the same: nothing here waits
    for anything, and the learner takes some microseconds, which an event loop does not notice. Many attempts may be
    under way at once, in threads or in tasks; each reports when it ends.

    Parameters
    ----------
    learner
        Which draws the arm, and hears the loss.
    failure
        The loss of an attempt whose block raises an exception, is cancelled or runs into a timeout: a number; or a
        function of the exception and the seconds until then that returns one; or ``"leave out"``, to learn nothing from
        it, which makes an arm that often fails look good. The exception goes on to the caller in any case. A
        KeyboardInterrupt, a SystemExit or the closing of a coroutine is no failure of the arm, and is left out.

    Attributes
    ----------
    arm
        The label of the arm to use.
    choice
        All of the choice.
    seconds
        The run time, up to now or up to the end of the block.
    loss
        Set this to report something else than the run time: a number, or ``"leave out"`` for an attempt that says
        nothing about its arm. A loss that the learner refuses, such as nan, counts as a failure, with a RuntimeWarning.

    Examples
    --------
    >>> import umab
    >>> learner = umab.Learner(umab.recommended(), arms=["small", "large"], seed=0)
    >>> with umab.Attempt(learner, failure=30.0) as attempt:
    ...     answer = f"the answer of the {attempt.arm} model"
    >>> learner.outstanding
    ()
    """

    choice: Choice

    def __init__(self, learner: Learner, *, failure: Failure) -> None:
        _check_learner(learner)
        self._learner = learner
        self._failure = _checked_failure(failure, learner)
        self._loss_of: Callable[[float], float | LeaveOut] | None = None
        self.loss: float | LeaveOut | None = None

    @property
    def arm(self) -> Label:
        """The label of the arm to use."""
        return self.choice.arm

    @property
    def seconds(self) -> float:
        """The run time, up to now or up to the end of the block."""
        return (perf_counter() if self._stop is None else self._stop) - self._start

    def __enter__(self) -> Self:
        """Draw the arm and start the clock."""
        if hasattr(self, "choice"):
            raise RuntimeError("an attempt must be entered once, but this one was entered before; make a new one")
        self.choice = self._learner.select()
        self._stop: float | None = None
        self._start = perf_counter()  # last: what the learner takes is not the arm's
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the clock and close the choice. No exception is held back."""
        self._stop = perf_counter()
        try:
            self._settle(error)
        except BaseException:  # a Ctrl-C in the middle of it
            self._leave_out()
            raise

    async def __aenter__(self) -> Self:
        """Draw the arm and start the clock."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the clock and close the choice. No exception is held back."""
        self.__exit__(kind, error, traceback)

    def _settle(self, error: BaseException | None) -> None:
        if isinstance(error, _NO_FAULT_OF_THE_ARM):
            self._leave_out()
        elif error is not None:
            self._fail(error)
        else:
            try:
                self._report(self._loss())
            except Exception as refused:
                if self._is_open():
                    self._fail(refused)
                    self._warn(f"had no loss that the learner takes and counts as failed: {refused!r}")

    def _loss(self) -> float | LeaveOut:
        if self._loss_of is not None:
            return self._loss_of(self.seconds)
        return self.seconds if self.loss is None else self.loss

    def _fail(self, error: BaseException) -> None:
        try:
            self._report(self._failure(error, self.seconds) if callable(self._failure) else self._failure)
        except Exception as refused:
            if self._is_open():
                self._leave_out()
                self._warn(f"failed without a loss that the learner takes and is left out: {refused!r}")

    def _report(self, loss: float | LeaveOut) -> None:
        if isinstance(loss, str) and loss == _LEAVE_OUT:
            self._leave_out()
        else:
            self._learner.update(self.choice, loss=loss)

    def _leave_out(self) -> None:
        if self._is_open():
            self._learner.forget(self.choice)

    def _is_open(self) -> bool:
        """Return whether nobody has closed the choice, for instance because it took too long."""
        return self.choice in self._learner.outstanding

    def _warn(self, what: str) -> None:
        frame, level = inspect.currentframe(), 1
        while frame is not None and frame.f_code.co_filename == __file__:  # the warning is for whoever called us
            frame, level = frame.f_back, level + 1
        warnings.warn(f"an attempt with arm={self.arm!r} {what}", RuntimeWarning, stacklevel=level)


class Chosen(Protocol[P, R_co]):
    """A function that chooses an arm at every call; what `choose` makes of one that takes the arm."""

    learner: Learner
    """The learner that chooses, to save it or to look at it."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function with an arm that the learner draws, in front of the arguments."""


class _Choose(Protocol):
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> Chosen[P, R]: ...


def choose(
    *arms: Label,
    failure: Failure,
    loss: Callable[[Any, float], float | LeaveOut] | None = None,
    learner: Learner | None = None,
) -> _Choose:
    """Make a function choose its first argument, the arm, by itself, and learn from what each call costs.

    For functions and for coroutine functions (``async def``). Callers leave the first argument out. Calls may run at
    the same time, in threads or in tasks. `Attempt` does the same for a block of code.

    Parameters
    ----------
    arms
        The labels of the arms, two or more: strings or numbers. `umab.recommended` chooses among them.
    failure
        The loss of a call that raises an exception, is cancelled or runs into a timeout; see `Attempt`. There is no
        default, because no number is safe for all: below the loss of a success, it would make failing worthwhile.
    loss
        A function of the result and of the run time in seconds that returns the loss, or ``"leave out"`` for a call
        that says nothing about its arm. None takes the run time. If it raises an exception, or returns what is no loss,
        such as nan, the call counts as failed, with a RuntimeWarning, and the caller has the result all the same.
    learner
        In place of `arms`: a learner of yours, with another policy, a seed, or the experience of earlier days.

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
            raise ValueError(f"choose needs two arms or more, or a learner, but got {arms!r}{hint}")
    elif arms:
        raise ValueError(f"choose takes arms or a learner, which has its own, but got both: {arms!r} and {learner!r}")
    if loss is not None and (not callable(loss) or inspect.iscoroutinefunction(loss)):
        raise TypeError(f"loss must be a function of the result and the seconds, but got {loss=!r}")
    if loss is not None and not _takes_two(loss):
        raise TypeError(f"loss must take two arguments, the result and the seconds, but {loss!r} does not")
    if callable(failure) and not _takes_two(failure):  # here, as an Attempt is made at every call
        raise TypeError(f"failure must take two arguments, the exception and the seconds, but {failure!r} does not")

    def decorate(function: Callable[Concatenate[Any, P], R], /) -> Chosen[P, R]:
        signature = _signature_without_arm(function)
        chooser = Learner(recommended(), arms) if learner is None else learner
        Attempt(chooser, failure=failure)  # says at once what is wrong with them
        name = getattr(function, "__name__", repr(function))

        def check_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            """Refuse what the function cannot be called with before an arm is drawn: it is no failure of the arm."""
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}; callers leave the first argument, the arm, out") from None

        def finish(attempt: Attempt, result: Any) -> None:
            _check_finished(name, result)
            if loss is not None:
                attempt._loss_of = functools.partial(loss, result)

        if inspect.iscoroutinefunction(function):
            awaited = cast("Callable[..., Coroutine[Any, Any, Any]]", function)

            @functools.wraps(function)
            async def chosen(*args: P.args, **kwargs: P.kwargs) -> Any:
                check_arguments(args, kwargs)
                with Attempt(chooser, failure=failure) as attempt:
                    result = await awaited(attempt.arm, *args, **kwargs)
                    finish(attempt, result)
                return result
        else:

            @functools.wraps(function)
            def chosen(*args: P.args, **kwargs: P.kwargs) -> Any:
                check_arguments(args, kwargs)
                with Attempt(chooser, failure=failure) as attempt:
                    result = function(attempt.arm, *args, **kwargs)
                    finish(attempt, result)
                return result

        made = cast("Any", chosen)
        made.learner = chooser
        made.__signature__ = signature
        return cast("Chosen[P, R]", made)

    return decorate


def _check_learner(learner: Any) -> None:
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner, but got {learner=!r}")
    if learner.maximize:
        raise ValueError(
            "the learner must be one of losses, as run times are, but this one maximizes rewards; "
            "make it without maximize=True, and let the loss be minus the reward"
        )


def _checked_failure(failure: Any, learner: Learner) -> Failure:
    """Return what a failure costs, if the learner will take it."""
    if callable(failure) or (isinstance(failure, str) and failure == _LEAVE_OUT):
        return cast("Failure", failure)
    try:
        number = checks.real("failure", failure)
    except TypeError:
        rule = "failure must be a number, a function of the exception and the seconds, or 'leave out'"
        raise TypeError(f"{rule}, but got {failure=!r}") from None
    refusal = learner.policy.refusal(number, "a failure")
    if refusal is not None:
        raise ValueError(refusal)
    return number


def _takes_two(function: Callable[..., Any]) -> bool:
    """Return whether it can be called with two arguments, as far as one can tell before."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions in C do not say
        return True
    return True


def _signature_without_arm(function: Any) -> inspect.Signature:
    """Return the signature that callers see, or say why the function cannot be used."""
    if not callable(function):
        raise TypeError(f"choose decorates a function, but got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"choose needs a function that has done its work when it returns, but {function!r} generates")
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    kind = parameters[0].kind if parameters else inspect.Parameter.KEYWORD_ONLY
    if kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise TypeError(f"the first parameter of the function must take the arm, but {function!r} has no such one")
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return signature
    if parameters[0].name in ("self", "cls"):
        raise TypeError(
            f"the first parameter of the function must take the arm, but that of {function!r} is "
            f"{parameters[0].name!r}; in a method use umab.Attempt"
        )
    return signature.replace(parameters=parameters[1:])


def _check_finished(name: str, result: Any) -> None:
    """Refuse what has not been worked out yet: its run time would be next to nothing."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # nobody will await it
        raise TypeError(
            f"choose needs a function that has done its work when it returns, but {name} returned {result!r}; "
            "declare it with async def, and await what it calls"
        )
