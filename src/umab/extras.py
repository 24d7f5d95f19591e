"""Optional libraries: whoever needs one that is not there is told which extra brings it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Say what to install if an import in this block finds nothing.

    Of blocks within each other the outermost speaks: it knows best what all of this is for.

    Parameters
    ----------
    name
        The extra that brings what is imported.
    what
        What is not to be had without it.

    Examples
    --------
    >>> with extra("data", "reading tables"):
    ...     import no_such_library
    Traceback (most recent call last):
    ModuleNotFoundError: reading tables needs no_such_library; run pip install 'umab[data]', or in a checkout pip install -e '.[data]'
    """  # noqa: E501
    try:
        yield
    except ImportError as error:
        # One that is there and too old, or broken, says so itself.
        found = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        library = (error.name or "more").partition(".")[0]
        advice = f"run pip install 'umab[{name}]', or in a checkout pip install -e '.[{name}]'"
        raise ModuleNotFoundError(f"{what} needs {library}{found}; {advice}", name=error.name) from None
