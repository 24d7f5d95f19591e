"""Digests of functions, which show whether machine code that was made from them is still up to date.

A digest covers a function and every function, constant and NamedTuple that can be reached from it. It changes with any
of these, and with nothing else: not with a comment, and not with the location of the file.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any


def digest_of(functions: tuple[FunctionType, ...], *beside: str) -> str:
    """Return a digest of all that these functions compute, and of the texts in `beside`."""
    met = reached(functions)
    digest, place = hashlib.sha256(), {function: index for index, function in enumerate(met)}
    for function in met:
        for piece in _fingerprint(function, place):
            digest.update(repr(piece).encode() + b"\0")
    for each in beside:
        digest.update(each.encode() + b"\0")
    return digest.hexdigest()


def reached(functions: Iterable[FunctionType]) -> list[FunctionType]:
    """Return functions and all that can be reached from them, in the order in which they were met."""
    met = dict.fromkeys(functions)
    waiting = list(met)
    for function in waiting:  # the list grows in this loop
        for value in functions_in(function).values():
            if value not in met:
                met[value] = None
                waiting.append(value)
    return waiting


def functions_in(function: FunctionType) -> dict[str, FunctionType]:
    """Return the functions that a function uses, by the names that it has for them."""
    return {name: value for name, value in references(function) if isinstance(value, FunctionType)}


def with_functions(function: FunctionType, others: Mapping[str, Any]) -> FunctionType:
    """Return a copy of a function that uses others, by the names that it has for them."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(others[name]) if name in others else cell for name, cell in cells)
    names = {**function.__globals__, **others}
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)


def text_of(code: CodeType) -> str:
    """Return a text that says all that the code does, without the values of its global names."""
    return _text_and_names(code)[0]


def _fingerprint(function: FunctionType, place: dict[FunctionType, int]) -> Iterator[Any]:
    """Yield what a function does; a function that it calls is given by its place among those that were met."""
    yield function.__defaults__, function.__kwdefaults__
    yield _digest_of_text(function.__code__)
    for name, value in references(function):
        if type(value) in (bool, int, float, str):
            yield name, value
        elif isinstance(value, FunctionType):
            yield name, place[value]
        elif value is math:
            yield name, "math"
        elif isinstance(value, type) and hasattr(value, "_fields"):
            yield name, value.__qualname__, value._fields
        else:
            raise TypeError(
                "the code of a policy may use only math, numbers, NamedTuples and plain functions, imported by name, "
                f"but {function.__module__}.{function.__qualname__} uses {name}={value!r}"
            )


def references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global and enclosing names that a function uses, with their values, except for built-ins."""
    cells = function.__closure__ or ()
    yield from zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True)
    for name in _text_and_names(function.__code__)[1]:
        if name in function.__globals__:
            yield name, function.__globals__[name]


@functools.cache
def _digest_of_text(code: CodeType) -> str:
    """Return a digest of the text of code: a learner is made in half the time if it need not be read again."""
    return hashlib.sha256(text_of(code).encode()).hexdigest()


@functools.cache
def _text_and_names(code: CodeType) -> tuple[str, list[str]]:
    """Return a text that says all that the code does, and the global names in it; code never changes."""
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    pieces = [repr((code.co_code, code.co_names, code.co_varnames))]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            text, inner_names = _text_and_names(constant)
            pieces.append(text)
            names.update(inner_names)
        else:
            pieces.append(repr(constant))
    return "\0".join(pieces), sorted(names)
