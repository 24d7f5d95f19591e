"""Policies on a GPU; the only module that knows about CUDA.

One thread plays one trial, with the loop of `umab.engine.loops` and the functions of the policy as they are in its
file. Numba compiles them with two choices of our own. A multiplication and an addition are never contracted into one
operation that rounds once, so that every +, −, ×, ÷ and √ gives the bits that it gives on a processor; `_uncontracted`
says how. And the number of arms is a constant of the code, so that loops over arms can be unrolled.

Where there is no GPU, ``NUMBA_ENABLE_CUDASIM=1`` runs the same kernels in Numba's simulator, for tests.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import threading
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from umab.algorithms.base import Policy
from umab.engine import loops, threads
from umab.engine.assembly import Assembly
from umab.engine.buffers import buffer_functions
from umab.engine.compiled import with_cache
from umab.engine.fingerprint import digest_of, functions_in, with_functions
from umab.engine.layout import blank_ticket, layout_of
from umab.engine.pcg import GENERATOR_SIZE
from umab.results.regret import TRIALS_A_BLOCK

MAX_REGISTERS = 168
"""Registers of a thread: as many as let three groups of threads run at once on a multiprocessor. With more there are
two; with fewer, numbers go to memory and back."""
MOST_IN_THREAD = 16 * 1024
"""The largest state, in bytes, that a thread keeps in its own memory; a larger one stays in that of the device."""
THREADS = 128
"""Threads in a group, which start together."""
_OPTIONS = {"lto": False, "fastmath": False}
"""Linking with `lto` would generate code anew, and contract what `_uncontracted` has kept apart. Numba drops it unless
the function is passed in the same call."""
_BUILD = repr((_OPTIONS, MAX_REGISTERS, TRIALS_A_BLOCK, GENERATOR_SIZE))
"""What all code depends on, beside its functions."""


@functools.cache
def device() -> ModuleType:
    """Return the module `numba.cuda`, if there is a GPU that it can use."""
    cuda = _imported()
    if not cuda.is_available():
        why = ""
        try:
            cuda.current_context()
        except Exception as error:  # whatever the driver, or the lack of one, says
            why = f": {' '.join(str(error).split()).rstrip(' :')}"
        raise OSError(f"device='gpu' needs an NVIDIA GPU and its driver, but none can be used here{why}")
    _check_rounding(cuda)
    return cuda


def _imported() -> ModuleType:
    # numba-cuda 0.30 imports a name that NumPy 2.5 has dropped.
    stands_in = not hasattr(np, "row_stack")
    if stands_in:
        np.row_stack = np.vstack
    try:
        cuda = importlib.import_module("numba.cuda")
        if stands_in and not is_simulated():
            importlib.import_module("numba.cuda.np.arrayobj")
    except ImportError as error:
        raise ImportError(f"device='gpu' needs numba-cuda: pip install 'umab[gpu]' ({error})") from None
    finally:
        if stands_in:
            del np.row_stack
    return cuda


def is_simulated() -> bool:
    """Whether there is Numba's simulator in place of a GPU."""
    from numba.core import config

    return bool(config.ENABLE_CUDASIM)


def description() -> str:
    """Return the name of the GPU and the version of what compiles for it."""
    cuda = device()
    if is_simulated():
        return "numba's simulator of a GPU"
    version = importlib.metadata.version("numba-cuda")
    name = cuda.get_current_device().name
    return f"{name.decode() if isinstance(name, bytes) else name}, numba-cuda {version}"


def free_memory() -> int:
    """Return how many bytes of the memory of the device are free."""
    return 1 << 28 if is_simulated() else int(device().current_context().get_memory_info()[0])


class OnDevice(Protocol):
    """An array on the device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    def copy_to_host(self) -> npt.NDArray[Any]:
        """Return a copy, once all that was begun there is done."""


def on_device(array: npt.NDArray[Any]) -> OnDevice:
    """Return a copy of an array on the device."""
    found: OnDevice = device().to_device(array)
    return found


def empty(shape: tuple[int, ...], kind: npt.DTypeLike, order: str) -> OnDevice:
    """Return a new array on the device; with order "F", its first index is the one that neighbours in memory share."""
    found: OnDevice = device().device_array(shape, dtype=kind, order=order)
    return found


def wait() -> None:
    """Wait until all that was begun on the device is done."""
    device().synchronize()


@contextlib.contextmanager
def _uncontracted() -> Iterator[None]:
    """Let the compiler of the device keep multiplications and additions apart.

    Its option for that is ``fma``, which Numba does not pass on. So it is added where Numba calls that compiler; in
    the code that comes of it, each operation says how it rounds, which no later step changes.
    """
    from numba.cuda.cudadrv import nvvm

    with _one_at_a_time:
        compile_ir = nvvm.compile_ir
        nvvm.compile_ir = functools.partial(compile_ir, fma=False)
        try:
            yield
        finally:
            nvvm.compile_ir = compile_ir


_one_at_a_time = threading.RLock()


def _check_rounding(cuda: ModuleType) -> None:
    """Compute x·y + z once: if it is rounded once, another version of Numba compiles in another way."""
    factors = np.array([1.0 + 2.0**-30, 1.0 + 2.0**-30, -1.0])
    kernel, out = Kernel(threads.contract), cuda.to_device(np.zeros(1))
    kernel(1, cuda.to_device(factors), out, imported=cuda)
    if out.copy_to_host()[0] != factors[0] * factors[1] + factors[2]:
        raise RuntimeError("this version of numba-cuda contracts a multiplication and an addition, which is not exact")


class Kernel:
    """A kernel, compiled at its first call for the types of its arguments."""

    def __init__(self, template: Any, function: FunctionType | None = None) -> None:
        """Take a template, and what to compile if that is made of more than the template."""
        self.template, self._function = template, function
        self._launched: Any = None

    def __call__(self, shape: int | tuple[int, int], *arguments: object, imported: ModuleType | None = None) -> None:
        """Run it with a thread for each place in a shape."""
        cuda = device() if imported is None else imported
        if self._launched is None:
            self._launched = self._to_launch(cuda)
        n, *others = (shape,) if isinstance(shape, int) else shape
        # At every call: one with arrays of another layout compiles anew.
        with warnings.catch_warnings(), contextlib.nullcontext() if is_simulated() else _uncontracted():
            warnings.filterwarnings("ignore", message=".*under-utilization")  # small launches are quick all the same
            self._launched[(-(-n // THREADS), *others), (THREADS, *[1] * len(others))](*arguments)

    @property
    def compiled(self) -> Any:
        """What Numba has compiled for the types of the first call."""
        return next(iter(self._launched.overloads.values()))

    def function(self, cuda: ModuleType) -> FunctionType:
        """Return the function to compile, with all names filled in."""
        if self._function is not None:
            return self._function
        used = functions_in(self.template)
        found = with_functions(
            self.template,
            {**{name: _for_device(cuda, each, {}) for name, each in used.items()}, **globals_of(cuda)},
        )
        # Numba's cache looks at the file of the template only, so that the name says what else it is made of.
        found.__qualname__ = f"{self.template.__name__}.{digest_of(tuple(used.values()), _BUILD)[:20]}"
        return found

    def _to_launch(self, cuda: ModuleType) -> Any:
        function = self.function(cuda)
        if is_simulated():
            return cuda.jit(function)
        return with_cache(lambda **cache: cuda.jit(function, max_registers=MAX_REGISTERS, **cache, **_OPTIONS))


BEGIN, FINISH = Kernel(threads.begin), Kernel(threads.finish)
SUM_BLOCKS, MERGE_BLOCKS = Kernel(threads.sum_blocks), Kernel(threads.merge_blocks)


def kernel_of(policy: Policy, n_arms: int, kind: loops.Kind) -> Kernel:
    """Return the kernel that plays rounds of policies of this type, without advice."""
    layout = layout_of(policy)
    size, ticket_size = len(layout.start(policy, n_arms)), len(blank_ticket(policy, layout, n_arms))
    in_thread = kind == "plain" and 8 * size <= MOST_IN_THREAD
    constants = {"N_ARMS": n_arms, "SIZE": size if in_thread else 1, "TICKET_SIZE": max(1, ticket_size)}
    sizes = layout.state.sizes, layout.ticket.sizes if layout.ticket is not None else ()
    parts = {
        "uniform_of": loops.drawn_uniform,
        "rings_of": threads.rings_at_once if kind == "plain" else threads.rings_when_due,
    }
    steps = {"buffer_of": threads.in_thread if in_thread else threads.in_device}
    made_of = Assembly.of(
        threads.play_trials, policy, kind, _BUILD, repr(sizes), repr(constants), parts=parts, steps=steps
    )
    key = made_of.key
    if key not in _kernels:
        rows_of = _rows_of()
        known = {rows_of: rows_of}  # which Numba knows
        # Other functions that load do what those of a processor do.
        made_of = made_of._replace(parts={**made_of.parts, **buffer_functions(layout, rows_of)})
        convert = functools.partial(_for_device, device(), known=known)
        _kernels[key] = Kernel(made_of.template, made_of.function(convert, **globals_of(device()), **constants))
    return _kernels[key]


_kernels: dict[object, Kernel] = {}


def globals_of(cuda: ModuleType) -> dict[str, object]:
    """Return what the functions of `umab.engine.threads` know by these names."""
    from numba import types

    return {"cuda": cuda, "float64": types.float64, "int64": types.int64}


def _rows_of() -> Any:
    """Return what makes a view of an array from its shape and its strides.

    `reshape` needs contiguous arrays, and calls a function that is compiled elsewhere, so that Numba would not cache
    the code. `as_strided` returns an array from a function, which it does not allow.
    """
    if is_simulated():
        return np.lib.stride_tricks.as_strided
    return importlib.import_module("numba.cuda.np.arrayobj").reshape_unchecked


def _for_device(cuda: ModuleType, function: FunctionType, known: dict[FunctionType, Any]) -> Any:
    """Return a function, with all that it calls, for the device."""
    if function not in known:
        fresh = {name: _for_device(cuda, value, known) for name, value in functions_in(function).items()}
        copy = with_functions(function, fresh)
        known[function] = copy if is_simulated() else cuda.jit(copy, device=True, forceinline=True, **_OPTIONS)
    return known[function]
