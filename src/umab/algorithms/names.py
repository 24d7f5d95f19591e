"""From a name to the policy, and back.

A name is a registered name, ``umab-g-a``, or a wrapper around another name, ``centred(umab-g-a)``. Parameters follow a
colon: ``umab-g-a:rate=4,initial_scale=2``. The parameters of the policy inside a wrapper go inside the brackets,
``centred(umab-s:rate=2)``, or after them, together with the parameters of the wrapper itself. In a command, an
experiment or a sweep, a name may also say where a class is: ``package.module:Class``, with parameters after another
colon.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Mapping
from typing import Literal, Union, get_args, get_origin, get_type_hints

from umab._support.checks import shown
from umab.algorithms.base import Policy, name_by
from umab.algorithms.registry import DEEPEST, equal_to, is_known, look_up, nearest, recommended
from umab.algorithms.wrapper import Wrapper, own_parameters


def policy(text: str, *, allow_import: bool = False) -> Policy:
    """Return the policy with this name, and with the parameters that follow the name, if any.

    Parameters
    ----------
    text
        A registered name; a name and parameters, ``"name:key=value,key=value"``; the name of a wrapper around any of
        these, ``"centred(name:key=value)"``; or ``"recommended"``, also ``"recommended:changing=False"``.
    allow_import
        Whether `text` may also say where a class is, as ``"package.module:Class"``. That imports the module, which
        runs its code: leave it off for text that somebody else wrote.

    Examples
    --------
    >>> import umab
    >>> umab.policy("umab-g-none:initial_scale=2,rate=4")
    UMABG(exploration='none', rate=4.0, initial_scale=2.0, horizon=None)
    """
    if not isinstance(text, str):
        raise TypeError(f"a policy's name must be a string, but got {shown(text)}")
    if text == "recommended" or text.startswith("recommended:"):
        given = _texts(text.partition(":")[2] or None, text)
        changing = bool(_read(bool, "changing", given.pop("changing", "True"), text))
        return with_texts(recommended(changing=changing), given, text)
    name, inner, parameters = _split(text)
    found, given = look_up(name, text, allow_import), _texts(parameters, text)
    if not (isinstance(found, type) and issubclass(found, Wrapper)):
        if inner is not None:
            raise ValueError(f"{name} takes no policy inside, but got {text!r}")
        return _made(found, (), given, text) if isinstance(found, type) else with_texts(found, given, text)
    if inner is None:
        raise ValueError(f"{name} is a wrapper and needs a policy inside, as in {name}(umab-s), but got {text!r}")
    inside = policy(inner, allow_import=allow_import)
    own = {key: value for key, value in given.items() if key in _fields_of(found)}
    rest = {key: value for key, value in given.items() if key not in own}
    return _made(found, (with_texts(inside, rest, text),), own, text)


def policy_as_written(text: str) -> Policy:
    """Return the policy that a user named in a command or a file of their own; the name may be a module:Class."""
    return policy(text, allow_import=True)


def as_policy(given: object, example: str = "") -> Policy:
    """Return a policy that is given as such or by its name; for a call that has it first, `example` shows the call.

    Braces in the example stand for what was given in place of the policy.
    """
    if isinstance(given, str):
        return policy(given)
    if isinstance(given, Policy):
        return given
    hint = ""
    if callable(given) and hasattr(given, "__name__"):
        hint = f"; did you mean {given.__name__}()?"
    elif example:
        hint = f"; the first argument is the policy, as in {example.format(shown(given))}"
    raise TypeError(f"a policy must be a umab.Policy or the name of one, but got {shown(given)}{hint}")


def name_of(policy: Policy) -> str:
    """Return the registered name nearest to `policy` and the parameters in which it differs.

    If the class of the policy is not registered, return where the class is, and all parameters.
    """
    name, its_parameters = nearest(policy)
    equal = equal_to(policy)
    if equal is not None:
        return equal
    told = own_parameters(policy)
    if its_parameters is not None:
        told = {key: told[key] for key in told if told[key] != its_parameters[key]}
    inside = f"({name_of(policy.policy)})" if isinstance(policy, Wrapper) else ""
    parameters = ",".join(f"{key}={_write(told[key])}" for key in sorted(told))
    return f"{name}{inside}:{parameters}" if parameters else f"{name}{inside}"


def can_be_named(given: Policy) -> bool:
    """Whether the policy can be made again from the name that `name_of` gives."""
    try:
        return policy(name_of(given)) == given
    except (ValueError, TypeError):
        return False


def with_texts(policy: Policy, values: Mapping[str, str], text: str) -> Policy:
    """Return a policy with parameters that are given as texts, read by the types that it declares.

    Parameters that a wrapper does not have are for the policy inside. Error messages show `text`.
    """
    own = {key: value for key, value in values.items() if key in own_parameters(policy)}
    others = {key: value for key, value in values.items() if key not in own}
    if others and not isinstance(policy, Wrapper):
        _refuse_unknown(nearest(policy)[0], list(policy.parameters()), others, text)
    hints = get_type_hints(type(policy))
    read: dict[str, object] = {key: _read(hints[key], key, value, text) for key, value in own.items()}
    if others and isinstance(policy, Wrapper):
        read["policy"] = with_texts(policy.policy, others, text)
    return dataclasses.replace(policy, **read)


def _made(kind: type[Policy], inside: tuple[Policy, ...], values: Mapping[str, str], text: str) -> Policy:
    """Return a policy of a class with parameters that are given as texts; some may be required."""
    known, hints = _fields_of(kind), get_type_hints(kind)
    _refuse_unknown(kind.__name__, known, values, text)
    read = {key: _read(hints[key], key, value, text) for key, value in values.items()}
    try:
        return kind(*inside, **read)
    except TypeError as error:
        raise ValueError(f"{text!r} does not name a policy: {error}") from None


def _fields_of(kind: type[Policy]) -> list[str]:
    """Return the names of the parameters of a class; the policy inside a wrapper is not one."""
    return [field.name for field in dataclasses.fields(kind) if field.init and field.name != "policy"]


def _refuse_unknown(name: str, known: list[str], values: Iterable[str], text: str) -> None:
    """Refuse a parameter that a policy does not have."""
    for key in values:
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            raise ValueError(f"{name} {takes}, but got {key!r} in {text!r}")


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the name in a text, the policy inside brackets, and the parameters; None for a part that is missing."""
    if text.count("(") > DEEPEST:
        raise ValueError(f"a policy must have at most {DEEPEST} brackets, but got {text.count('(')} in {text[:60]!r}…")
    place = re.match(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(?=$|[(:])", text)
    name = place[0] if place and not is_known(text.partition(":")[0]) else re.split(r"[:(]", text, maxsplit=1)[0]
    rest, inner = text[len(name) :], None
    if rest.startswith("("):
        depth = 0
        for at, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                inner, rest = rest[1:at], rest[at + 1 :]
                break
        else:
            raise ValueError(f"brackets must come in pairs, but got {text!r}")
    if rest and not rest.startswith(":"):
        raise ValueError(f"a policy must have the form name, name:key=value or name(inner), but got {text!r}")
    return name, inner, rest[1:] if rest else None


def _texts(parameters: str | None, text: str) -> dict[str, str]:
    """Return parameters, ``key=value,key=value``, by name."""
    values: dict[str, str] = {}
    for part in [] if parameters is None else parameters.split(","):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ValueError(f"parameters must have the form key=value,key=value, but got {parameters!r} in {text!r}")
        if key in values:
            raise ValueError(f"a parameter must be given only once, but {key!r} appears twice in {text!r}")
        values[key] = value
    return values


def _read(hint: object, key: str, value: str, text: str) -> object:
    """Return the value of parameter `key` from its text, by its declared type."""
    if get_origin(hint) is Literal:
        return next((each for each in get_args(hint) if str(each) == value), value)
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for text_of_it, constant in (("None", None), ("True", True), ("False", False)):
        if value == text_of_it and type(constant) in kinds:
            return constant
    numbers = [kind for kind in (int, float) if kind in kinds]
    for kind in numbers:
        try:
            return kind(value)
        except ValueError:
            continue
    if numbers or bool in kinds:
        what = "a number" if float in kinds else "a whole number" if int in kinds else "True or False"
        raise ValueError(f"{key} must be {what}, but got {key}={value!r} in {text!r}")
    return value


def _write(value: object) -> str:
    """Return the shortest text that `_read` turns into the same value: 4 for 4.0."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


class _Names:
    name_of = staticmethod(name_of)
    policy = staticmethod(policy)


name_by(_Names())
