"""The policies by name.

A name is that of a registered policy, ``umab-g-a``, or of a wrapper around another name, ``centred(umab-g-a)``.
Parameters follow a colon: ``umab-g-a:rate=4,initial_scale=2``. Those of the policy inside a wrapper stand inside the
brackets, ``centred(umab-s:rate=2)``, or behind them with those of the wrapper itself. Other packages register their
policies through the entry points of the group ``umab.policies``. Where a person writes a name, in a command, an
experiment or a sweep, it may also say where a class is: ``package.module:Class``, and parameters after another colon.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import re
import sys
import threading
import types
import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from umab.algorithms.ada_hedge import AdaHedge
from umab.algorithms.ahb import AHB
from umab.algorithms.banker_omd import BankerOMD
from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.exp3 import EXP3
from umab.algorithms.exp3_ix import EXP3IX
from umab.algorithms.exp3_p import EXP3P
from umab.algorithms.scb import SCB
from umab.algorithms.scb_ix import SCBIX
from umab.algorithms.sf_mab import SFMAB
from umab.algorithms.solo_ftrl import SOLOFTRL
from umab.algorithms.tsallis_inf import TsallisINF
from umab.algorithms.umab_g import UMABG
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import UMABS
from umab.algorithms.uniform import Uniform
from umab.algorithms.wrapper import Wrapper

ENTRY_POINTS = "umab.policies"
"""The group of entry points under which other packages register policies and wrappers."""


def recommended() -> Policy:
    """Return the policy to take when nothing is known: no range, no horizon, no sign, nothing to tune.

    It is `Centred` around `UMABS`. Neither the units of the losses nor a number added to all of them make a difference
    to it. docs/recommended.md has its regret bound, with proof, and what it was measured against.

    Examples
    --------
    >>> import umab
    >>> umab.recommended().name
    'centred(umab-s)'
    """
    return Centred(UMABS())


_WRAPPERS: dict[str, type[Wrapper]] = {"centred": Centred}
_POLICIES: dict[str, Policy] = {
    "centred(umab-s)": recommended(),
    "umab-s": UMABS(),
    "umab-nn": UMABNN(),
    "umab-g": UMABG(exploration="fixed"),
    "umab-g-a": UMABG(),
    "umab-g-anytime": UMABG(exploration="anytime"),
    "umab-g-none": UMABG(exploration="none"),
    "umab-g-maintext": UMABG(exploration="maintext"),
    "sf-mab": SFMAB(exploration="anytime"),
    "sf-mab-a": SFMAB(),
    "ahb": AHB(),
    "banker-omd": BankerOMD(),
    "scb": SCB(),
    "scb-ix": SCBIX(),
    "exp3": EXP3(),
    "exp3-ix": EXP3IX(),
    "exp3-p": EXP3P(),
    "tsallis-inf": TsallisINF(),
    "adahedge": AdaHedge(),
    "solo-ftrl": SOLOFTRL(),
    "uniform": Uniform(),
}
_entry_points_loaded = _loading = False
_lock = threading.RLock()

_DEEPEST = 20
"""How many brackets a name may have inside each other."""


def registered() -> dict[str, Policy]:
    """Return the registered policies by name, with the parameters that the name alone stands for."""
    _load_entry_points()
    return dict(_POLICIES)


def policies() -> dict[str, str]:
    """Return the registered policies: name and description, in one line each.

    Examples
    --------
    >>> import umab
    >>> umab.policies()["uniform"]
    'every arm with the same probability; learns nothing'
    """
    return {name: prototype.summary for name, prototype in registered().items()}


def policy(text: str, *, allow_import: bool = False) -> Policy:
    """Return the policy of this name, with parameters if the name is followed by them.

    Parameters
    ----------
    text
        A registered name; a name and parameters, ``"name:key=value,key=value"``; the name of a wrapper around any of
        these, ``"centred(name:key=value)"``; or ``"recommended"``.
    allow_import
        Whether `text` may also say where a class is, as ``"package.module:Class"``. That imports the module, which
        runs its code: leave it off for a text that somebody else wrote.

    Examples
    --------
    >>> import umab
    >>> umab.policy("umab-g-none:initial_scale=2,rate=4")
    UMABG(exploration='none', rate=4.0, initial_scale=2.0, horizon=None)
    """
    if not isinstance(text, str):
        raise TypeError(f"a policy's name must be a string, but got {text!r}")
    if text == "recommended" or text.startswith("recommended:"):
        return with_texts(recommended(), _texts(text.partition(":")[2] or None, text), text)
    name, inner, parameters = _split(text)
    found, given = _found(name, text, allow_import), _texts(parameters, text)
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


def register(name: str, policy: Policy | type[Wrapper]) -> None:
    """Add a policy of your own to the names that `umab.policy` and `umab.policies` know.

    What is said of it comes from the policy itself: its `summary`, `colour`, `reference` and so on.

    Parameters
    ----------
    name
        What to call it; letters, digits and dashes. A class that was changed and defined again, as in a notebook,
        takes the place of its former self.
    policy
        The policy that the name alone stands for; or a class of wrappers, for names of the form ``name(inner)``.
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum() or name == "recommended":
        rule = "of letters, digits and dashes, and not 'recommended'"
        raise ValueError(f"a policy's name must be {rule}, but got {name!r}")
    known: dict[str, Any] = _POLICIES if isinstance(policy, Policy) else _WRAPPERS
    if known is _WRAPPERS and not (isinstance(policy, type) and issubclass(policy, Wrapper)):
        raise TypeError(f"a registered policy must be a umab.Policy, or a class of umab.Wrapper, but got {policy!r}")
    other = _WRAPPERS if known is _POLICIES else _POLICIES
    before = known.get(name, other.get(name))
    if before is not None and (name in other or _origin(before) != _origin(policy)):
        raise ValueError(f"a policy's name must be new, but {name!r} stands for {before!r}")
    known[name] = policy


def policy_as_written(text: str) -> Policy:
    """Return the policy of a name that a person wrote, in a command or a file of theirs; it may be a module:Class."""
    return policy(text, allow_import=True)


def as_policy(given: Any) -> Policy:
    """Return a policy that is given by itself or by its name."""
    if isinstance(given, str):
        return policy(given)
    if isinstance(given, Policy):
        return given
    hint = f"; did you mean {given.__name__}()?" if callable(given) and hasattr(given, "__name__") else ""
    raise TypeError(f"a policy must be a umab.Policy or the name of one, but got {given!r}{hint}")


def name_of(policy: Policy) -> str:
    """Return the registered name nearest to `policy` and the parameters in which it differs.

    For a policy of a class that is not registered, that is where the class is, and all its parameters.
    """
    name, nearest = _nearest(policy)
    equal = next((name for name, prototype in list(_POLICIES.items()) if prototype == policy), None)
    if equal is not None:
        return equal
    told = _own_parameters(policy)
    if nearest is not None:
        told = {key: told[key] for key in told if told[key] != nearest[key]}
    inside = f"({name_of(policy.policy)})" if isinstance(policy, Wrapper) else ""
    parameters = ",".join(f"{key}={_write(told[key])}" for key in sorted(told))
    return f"{name}{inside}:{parameters}" if parameters else f"{name}{inside}"


def can_be_named(given: Policy) -> bool:
    """Whether `name_of` gives a name from which the policy can be had back."""
    try:
        return policy(name_of(given)) == given
    except (ValueError, TypeError):
        return False


def described(policy: Policy) -> dict[str, Any]:
    """Return a policy as JSON can hold it: its name, all its parameters, and the policy inside if there is one.

    Nothing is left out for being the default, since defaults may change.
    """
    about: dict[str, Any] = {"name": _nearest(policy)[0], "parameters": _own_parameters(policy)}
    if isinstance(policy, Wrapper):
        about["inner"] = described(policy.policy)
    return about


def from_description(about: Any, depth: int = 0) -> Policy:
    """Return the policy of which `described` made `about`; it must be registered."""
    if depth > _DEEPEST:
        raise ValueError(f"a saved policy must be inside at most {_DEEPEST} others, but there are more")
    if not isinstance(about, Mapping) or not isinstance(about.get("parameters"), Mapping):
        raise ValueError(f"a saved policy must have a name and parameters, but got {repr(about)[:200]}")
    found = _found(about.get("name"), str(about.get("name")), False)
    if ("inner" in about) != isinstance(found, type):
        raise ValueError(f"a saved policy must have a policy inside if it is a wrapper, but got {about!r}")
    if isinstance(found, type):
        make: Any = found
        return make(from_description(about["inner"], depth + 1), **about["parameters"])  # type: ignore[no-any-return]
    return type(found)(**about["parameters"])


def parsed(text: str) -> tuple[str, str | None, dict[str, Any]]:
    """Return the registered name in a text, the policy inside brackets, and the parameters that are given, by name."""
    name, inner, parameters = _split(text)
    found, given = _found(name, text, False), _texts(parameters, text)
    if isinstance(found, type) or not given:
        return name, inner, {}
    read = with_texts(found, given, text).parameters()
    return name, inner, {key: read[key] for key in given}


def _own_parameters(policy: Policy) -> dict[str, Any]:
    return policy.own_parameters() if isinstance(policy, Wrapper) else policy.parameters()


def _nearest(policy: Policy) -> tuple[str, dict[str, Any] | None]:
    """Return the registered name whose parameters differ least, with these; or where the class is, and None."""
    kind = type(policy)
    if not any(kind in (each, type(each)) for each in (*_POLICIES.values(), *_WRAPPERS.values())):
        _load_entry_points()
    if isinstance(policy, Wrapper):
        wrapper = next((name for name, known in _WRAPPERS.items() if known is kind), None)
        if wrapper is not None:
            defaults = {field.name: field.default for field in dataclasses.fields(policy)}
            return wrapper, defaults
        return _place_of(kind), None
    kin = {name: prototype.parameters() for name, prototype in list(_POLICIES.items()) if type(prototype) is kind}
    if not kin:
        return _place_of(kind), None
    own = policy.parameters()
    # Several names share a class (umab-g, umab-g-a); the right one is that from which fewest parameters differ.
    name = min(kin, key=lambda name: sum(own[key] != kin[name][key] for key in own))
    return name, kin[name]


def _place_of(kind: type[Policy]) -> str:
    """Return where a class is, if it can be imported from there in another process; else what it is called."""
    spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
    importable = spec is not None and kind.__module__ != "__main__" and "<" not in kind.__qualname__
    return f"{kind.__module__}:{kind.__qualname__}" if importable else kind.__name__


def _origin(policy: Any) -> tuple[str, str]:
    """Return where a policy's class was written: a notebook defines the same one again and again."""
    kind = _kind_of(policy)
    return kind.__module__, kind.__qualname__


def _kind_of(known: Policy | type[Wrapper]) -> type[Policy]:
    return known if isinstance(known, type) else type(known)


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the name in a text, the policy inside brackets, and the parameters behind; None for what is not there."""
    if text.count("(") > _DEEPEST:
        raise ValueError(f"a policy must have at most {_DEEPEST} brackets, but got {text.count('(')} in {text[:60]!r}…")
    place = re.match(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(?=$|[(:])", text)
    known = text.partition(":")[0] in {*_POLICIES, *_WRAPPERS}
    name = place[0] if place and not known else re.split(r"[:(]", text, maxsplit=1)[0]
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


def _found(name: Any, text: str, allow_import: bool) -> Policy | type[Policy]:
    """Return the policy that a name stands for, the class of wrappers, or the class at a place."""
    known: dict[Any, Policy | type[Wrapper]] = {**_POLICIES, **_WRAPPERS}
    if isinstance(name, str) and name not in known:
        _load_entry_points()
        known = {**_POLICIES, **_WRAPPERS}
    if name in known:
        return known[name]
    if isinstance(name, str) and ":" in name:
        placed = next((each for each in known.values() if name == _place_of(_kind_of(each))), None)
        if placed is not None:  # somebody has imported and registered it under another name
            return placed
        if allow_import:
            return _imported(name)
        raise ValueError(
            f"a policy must be registered, but got {text!r}, which is the place of a class; import the class and pass "
            "a policy of it, or register it with umab.register or an entry point of the group umab.policies"
        )
    names = ["recommended", *_POLICIES, *(f"{wrapper}(...)" for wrapper in _WRAPPERS)]
    close = difflib.get_close_matches(str(name).lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"a policy must be one of {', '.join(names)}, but got {name!r}{hint}")


def _imported(place: str) -> Policy | type[Policy]:
    """Return the policy or the class at ``module:Class``."""
    module, _, way = place.partition(":")
    if os.getcwd() not in sys.path:  # a command is not started from the folder of its own file, as a script is
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for name in way.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"a policy must be registered or be at module:Class, but got {place!r}: {error}") from None
    if isinstance(found, type) and issubclass(found, Policy):
        return found
    return _as_registered(found, repr(place))


def _as_registered(found: Any, where: str) -> Policy | type[Wrapper]:
    """Return what a place holds as it is registered: a policy for the class of one, a class for a wrapper."""
    if isinstance(found, type) and issubclass(found, Wrapper):
        return found
    if isinstance(found, type) and issubclass(found, Policy):
        found = found()
    if not isinstance(found, Policy):
        raise ValueError(f"a policy must be a umab.Policy or a class of one, but {where} is {found!r}")
    return found


def _load_entry_points() -> None:
    """Register what other packages offer. One that fails is left out with a warning; the others are not its fault."""
    global _entry_points_loaded, _loading
    with _lock:  # another thread waits until they are there
        if _entry_points_loaded or _loading:  # what they import may ask for a policy
            return
        _loading = True
        for point in metadata.entry_points(group=ENTRY_POINTS):
            try:
                register(point.name, _as_registered(point.load(), f"the entry point {point.name!r}"))
            except Exception as error:
                message = f"the policy {point.name!r} of {point.value!r} cannot be had: {type(error).__name__}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        _entry_points_loaded, _loading = True, False


def _write(value: Any) -> str:
    """Return the shortest text that `_read` turns into the same value: 4 for 4.0."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def with_texts(policy: Policy, values: Mapping[str, str], text: str) -> Policy:
    """Return a policy with parameters that are given as texts, by the types that it declares.

    Those that a wrapper does not have are for the policy inside. `text` is what a refusal shows.
    """
    own = {key: value for key, value in values.items() if key in _own_parameters(policy)}
    others = {key: value for key, value in values.items() if key not in own}
    if others and not isinstance(policy, Wrapper):
        _refuse_unknown(_nearest(policy)[0], list(policy.parameters()), others, text)
    hints = get_type_hints(type(policy))
    read: dict[str, Any] = {key: _read(hints[key], key, value, text) for key, value in own.items()}
    if others and isinstance(policy, Wrapper):
        read["policy"] = with_texts(policy.policy, others, text)
    return dataclasses.replace(policy, **read)


def _refuse_unknown(name: str, known: list[str], values: Iterable[str], text: str) -> None:
    """Refuse a parameter that a policy does not have."""
    for key in values:
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no parameters"
            raise ValueError(f"{name} {takes}, but got {key!r} in {text!r}")


def _fields_of(kind: type[Policy]) -> list[str]:
    """Return the names of the parameters of a class; the policy inside a wrapper is not one."""
    return [field.name for field in dataclasses.fields(kind) if field.init and field.name != "policy"]


def _made(kind: type[Policy], inside: tuple[Policy, ...], values: Mapping[str, str], text: str) -> Policy:
    """Return a policy of a class with parameters that are given as texts; some may have to be given."""
    known, hints = _fields_of(kind), get_type_hints(kind)
    _refuse_unknown(kind.__name__, known, values, text)
    read = {key: _read(hints[key], key, value, text) for key, value in values.items()}
    try:
        return kind(*inside, **read)
    except TypeError as error:
        raise ValueError(f"{text!r} does not name a policy: {error}") from None


def _texts(parameters: str | None, text: str) -> dict[str, str]:
    """Return parameters, ``key=value,key=value``, by name."""
    values: dict[str, str] = {}
    for part in [] if parameters is None else parameters.split(","):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ValueError(f"parameters must have the form key=value,key=value, but got {parameters!r} in {text!r}")
        if key in values:
            raise ValueError(f"a parameter must be given once, but {key!r} is there twice in {text!r}")
        values[key] = value
    return values


def _read(hint: Any, key: str, value: str, text: str) -> Any:
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
