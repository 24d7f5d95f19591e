"""The policies by name."""

from __future__ import annotations

import dataclasses
import difflib
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

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

_CENTRED = "centred("


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


_REGISTRY: dict[str, tuple[Policy, str]] = {
    "centred(umab-s)": (recommended(), "losses of any size, sign and offset; the recommended one: nothing to tune"),
    "umab-s": (UMABS(), "losses of any size and sign; strictly scale-free, learns as fast as it can pay for"),
    "umab-nn": (UMABNN(), "losses of any size that are never negative; strictly scale-free"),
    "umab-g": (UMABG(exploration="fixed"), "losses of any size and sign; exploration fixed by the horizon"),
    "umab-g-a": (UMABG(), "losses of any size and sign; exploration adapts to what it costs"),
    "umab-g-anytime": (UMABG(exploration="anytime"), "losses of any size and sign; exploration falls with time"),
    "umab-g-none": (UMABG(exploration="none"), "UMAB-G without its extra exploration, for study"),
    "umab-g-maintext": (UMABG(exploration="maintext"), "UMAB-G-A as its main text prints it, for study: linear regret"),
    "sf-mab": (SFMAB(exploration="anytime"), "losses of any size and sign; uniform exploration falls with time"),
    "sf-mab-a": (SFMAB(), "losses of any size and sign; uniform exploration adapts to what it costs"),
    "ahb": (AHB(), "losses of any size, sign and offset; scale- and shift-free"),
    "banker-omd": (BankerOMD(), "losses of any size and sign; without a bound that holds"),
    "scb": (SCB(), "losses of any size and sign; strictly scale-free, optimal in the worst case"),
    "scb-ix": (SCBIX(), "losses of any size and sign; strictly scale-free, bounds with high probability"),
    "exp3": (EXP3(), "losses in a known range; the classic, exploration fixed by the horizon"),
    "exp3-ix": (EXP3IX(), "losses in a known range; bounds with high probability"),
    "exp3-p": (EXP3P(), "losses in a known range; upper confidence bounds, fixed by the horizon"),
    "tsallis-inf": (TsallisINF(), "losses in a known range; optimal for adversarial and stochastic losses"),
    "adahedge": (AdaHedge(), "sees the losses of all arms; scale- and shift-free"),
    "solo-ftrl": (SOLOFTRL(), "sees the losses of all arms; scale-free"),
    "uniform": (Uniform(), "every arm with the same probability; learns nothing"),
}


def policies() -> dict[str, str]:
    """Return the registered policies: name and description, in one line each.

    Examples
    --------
    >>> import umab
    >>> umab.policies()["uniform"]
    'every arm with the same probability; learns nothing'
    """
    return {name: description for name, (_, description) in _REGISTRY.items()}


def policy(text: str) -> Policy:
    """Return the policy of this name, with parameters if the name is followed by them.

    Parameters
    ----------
    text
        A registered name, or a name and parameters: ``"name:key=value,key=value"``; or one of these in
        ``"centred(...)"``; or ``"recommended"``.

    Examples
    --------
    >>> import umab
    >>> umab.policy("umab-g-none:initial_scale=2,rate=4")
    UMABG(exploration='none', rate=4.0, initial_scale=2.0, horizon=None)
    """
    if not isinstance(text, str):
        raise TypeError(f"a policy's name must be a string, but got {text!r}")
    if text == "recommended":
        return recommended()
    if text.startswith(_CENTRED) and text.endswith(")"):
        return Centred(policy(text[len(_CENTRED) : -1]))
    name, colon, rest = text.partition(":")
    if name.startswith(_CENTRED) and name.endswith(")"):
        raise ValueError(f"parameters must stand inside the brackets, as in centred(umab-s:rate=2), but got {text!r}")
    if name not in _REGISTRY:
        close = difflib.get_close_matches(name.lower(), ["recommended", *_REGISTRY], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"a policy must be one of recommended, {', '.join(_REGISTRY)}, but got {name!r}{hint}")
    prototype, _ = _REGISTRY[name]
    if colon and isinstance(prototype, Centred):
        raise ValueError(f"{name} is a centred policy and takes no parameters, but got {text!r}")
    values: dict[str, Any] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ValueError(f"parameters must have the form key=value,key=value, but got {rest!r} in {text!r}")
        if key in values:
            raise ValueError(f"a parameter must be given once, but {key!r} is there twice in {text!r}")
        values[key] = _read(prototype, key, value, text)
    return dataclasses.replace(prototype, **values)


def register(name: str, policy: Policy, description: str) -> None:
    """Add a policy of your own to the names that `umab.policy` and `umab.policies` know.

    Parameters
    ----------
    name
        What to call it; letters, digits and dashes. A class that was changed and defined again, as in a notebook,
        takes the place of its former self.
    policy
        The policy that the name alone stands for.
    description
        One line for `umab.policies`.
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"a policy's name must be of letters, digits and dashes, but got {name!r}")
    if not isinstance(policy, Policy):
        raise TypeError(f"a registered policy must be a umab.Policy, but got {policy!r}")
    if name in _REGISTRY and _origin(_REGISTRY[name][0]) != _origin(policy):
        raise ValueError(f"a policy's name must be new, but {name!r} stands for {_REGISTRY[name][0]!r}")
    _REGISTRY[name] = (policy, description)


def as_policy(given: Any) -> Policy:
    """Return a policy that is given by itself or by its name."""
    if isinstance(given, str):
        return policy(given)
    if isinstance(given, Policy):
        return given
    hint = f"; did you mean {given.__name__}()?" if callable(given) and hasattr(given, "__name__") else ""
    raise TypeError(f"a policy must be a umab.Policy or the name of one, but got {given!r}{hint}")


def name_of(policy: Policy) -> str:
    """Return the registered name nearest to `policy` and the parameters in which it differs."""
    if isinstance(policy, Centred):
        return f"{_CENTRED}{name_of(policy.policy)})"
    kin = {name: prototype for name, (prototype, _) in _REGISTRY.items() if type(prototype) is type(policy)}
    if kin:
        # Several names share a class (umab-g, umab-g-a); the right one is that from which fewest parameters differ.
        name = min(kin, key=lambda name: len(_differences(policy, kin[name])))
        keys = _differences(policy, kin[name])
    else:
        name, keys = type(policy).__name__, list(policy.parameters())
    parameters = ",".join(f"{key}={_write(getattr(policy, key))}" for key in sorted(keys))
    return f"{name}:{parameters}" if parameters else name


def _origin(policy: Policy) -> tuple[str, str]:
    """Return where a policy's class was written: a notebook defines the same one again and again."""
    return type(policy).__module__, type(policy).__qualname__


def can_be_named(given: Policy) -> bool:
    """Whether `name_of` gives a name from which the policy can be had back."""
    try:
        return policy(name_of(given)) == given
    except ValueError:
        return False


def _differences(policy: Policy, other: Policy) -> list[str]:
    """Return the names of the parameters in which two policies of one type differ."""
    return [key for key, value in policy.parameters().items() if value != getattr(other, key)]


def _write(value: Any) -> str:
    """Return the shortest text that `_read` turns into the same value: 4 for 4.0."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _read(prototype: Policy, key: str, value: str, text: str) -> Any:
    """Return the value of parameter `key` from its text, by the declared type."""
    hints = get_type_hints(type(prototype))
    known = list(prototype.parameters())
    if key not in known:
        takes = f"takes {', '.join(known)}" if known else "takes no parameters"
        raise ValueError(f"{text.partition(':')[0]} {takes}, but got {key!r} in {text!r}")
    hint = hints[key]
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
