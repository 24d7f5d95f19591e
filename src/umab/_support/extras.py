"""Optional libraries: if one is missing, the error says which extra installs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Say what to install if an import in this block fails.

    If blocks are nested, the message is from the outermost: it knows best what the import is for.

    Parameters
    ----------
    name
        The extra that installs what is imported.
    what
        What is not available without it.

    Examples
    --------
    >>> with extra("data", "reading tables"):
    ...     import no_such_library
    Traceback (most recent call last):
    ModuleNotFoundError: reading tables needs no_such_library; run pip install 'umab[data]'
    """
    try:
        yield
    except ImportError as error:
        # A library that is installed, but too old or broken, says so itself.
        found = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        library = (error.name or "more").partition(".")[0]
        # That works in a checkout too: pip finds that umab is there, and installs what the extra needs.
        advice = f"run pip install 'umab[{name}]'"
        raise ModuleNotFoundError(f"{what} needs {library}{found}; {advice}", name=error.name) from None
