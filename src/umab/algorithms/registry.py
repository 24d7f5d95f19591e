"""Policies by name: the policies of this package, policies that are registered, and policies of other packages.

Other packages register their policies through the entry points of the group ``umab.policies``. Parameters and brackets
in a name are read in names.py.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import sys
import threading
import warnings
from importlib import metadata
from typing import Any

from umab._support import checks
from umab.algorithms.ada_hedge import AdaHedge
from umab.algorithms.ada_tinf import AdaTINF
from umab.algorithms.advised import Advised
from umab.algorithms.ahb import AHB
from umab.algorithms.banker_late import BankerSFLBINF, BankerSFTINF
from umab.algorithms.banker_omd import BankerOMD
from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.exp3 import EXP3
from umab.algorithms.exp3_ix import EXP3IX
from umab.algorithms.exp3_p import EXP3P
from umab.algorithms.exp3_s import EXP3S
from umab.algorithms.htinf import HTINF
from umab.algorithms.local import LocallyCentred
from umab.algorithms.scb import SCB
from umab.algorithms.scb_d import SCBD
from umab.algorithms.scb_ix import SCBIX
from umab.algorithms.sf_mab import SFMAB
from umab.algorithms.solo_ftrl import SOLOFTRL
from umab.algorithms.tsallis_inf import TsallisINF
from umab.algorithms.tsallis_inf_d import TsallisINFD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_g import UMABG, UMABGA
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.uniform import Uniform
from umab.algorithms.wrapper import Wrapper

ENTRY_POINTS = "umab.policies"
"""The group of entry points under which other packages register policies and wrappers."""

DEEPEST = 20
"""How deeply policies may be nested, in a name or a saved file."""


def recommended(*, changing: bool = True) -> Policy:
    """Return the policy to use when nothing is known: it needs no range, no horizon, no sign and no tuning.

    It is `UMABW`, which notices when the losses change and starts afresh. Neither the unit of the losses nor a number
    added to all of them changes what it does. docs/changing.md has its regret bound, with proof, and measurements.

    Parameters
    ----------
    changing
        Whether the losses may change with time. False returns `Centred` around `UMABS`, which competes with the best
        single arm of the whole run. It does a little better if nothing ever changes, and has a better bound (see
        docs/recommended.md).

    Examples
    --------
    >>> import umab
    >>> umab.recommended().name, umab.recommended(changing=False).name
    ('umab-w', 'centred(umab-s)')
    """
    return UMABW() if checks.true_or_false("changing", changing) else Centred(UMABS())


_WRAPPERS: dict[str, type[Wrapper]] = {"centred": Centred, "local": LocallyCentred}
_POLICIES: dict[str, Policy] = {
    "umab-w": UMABW(),
    "centred(umab-s)": Centred(UMABS()),
    "umab-l": LocallyCentred(UMABS()),
    "umab-s": UMABS(),
    "centred(umab-sh)": Centred(UMABSh()),
    "umab-sh": UMABSh(),
    "umab-nn": UMABNN(),
    "umab-g": UMABG(),
    "umab-g-a": UMABGA(),
    "umab-g-anytime": UMABG(exploration="anytime"),
    "umab-g-none": UMABG(exploration="none"),
    "umab-g-maintext": UMABGA(exploration="maintext"),
    "sf-mab": SFMAB(exploration="anytime"),
    "sf-mab-a": SFMAB(),
    "ahb": AHB(),
    "banker-omd": BankerOMD(),
    "banker-sftinf": BankerSFTINF(),
    "banker-sflbinf": BankerSFLBINF(),
    "scb": SCB(),
    "scb-ix": SCBIX(),
    "scb-d": SCBD(),
    "htinf": HTINF(),
    "opttinf": HTINF(alpha=2.0),
    "adatinf": AdaTINF(),
    "adatinf-anytime": AdaTINF(anytime=True),
    "exp3": EXP3(),
    "exp3-ix": EXP3IX(),
    "exp3-p": EXP3P(),
    "exp3-s": EXP3S(),
    "tsallis-inf": TsallisINF(),
    "tsallis-inf-d": TsallisINFD(),
    "adahedge": AdaHedge(),
    "solo-ftrl": SOLOFTRL(),
    "uniform": Uniform(),
}
_ADVISED: dict[str, Policy] = {"umab-e": UMABE()}
_entry_points_loaded = _loading = False
_lock = threading.RLock()


def registered() -> dict[str, Policy]:
    """Return the registered policies by name, each with the parameters that its name stands for."""
    _load_entry_points()
    return dict(_POLICIES)


def registered_advised() -> dict[str, Policy]:
    """Return the registered policies over experts by name."""
    _load_entry_points()
    return dict(_ADVISED)


def policies(*, advised: bool = False) -> dict[str, str]:
    """Return the names of the registered policies, each with a description of one line.

    Parameters
    ----------
    advised
        Return the policies over experts, which need advice in every round, in place of those that do not.

    Examples
    --------
    >>> import umab
    >>> umab.policies()["uniform"]
    'every arm with the same probability; learns nothing'
    """
    found = registered_advised() if checks.true_or_false("advised", advised) else registered()
    return {name: prototype.summary for name, prototype in found.items()}


def register(name: str, policy: Policy | type[Wrapper]) -> None:
    """Add a policy of your own to the names that `umab.policy` and `umab.policies` know.

    Its description comes from the policy itself: its `summary`, `colour`, `reference` and so on.

    Parameters
    ----------
    name
        Its name: letters, digits and dashes. A class that was changed and defined again, as in a notebook, replaces
        its earlier definition.
    policy
        The policy that the name stands for; or a subclass of `Wrapper`, for names of the form ``name(inner)``.
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum() or name == "recommended":
        rule = "consist of letters, digits and dashes and not be 'recommended'"
        raise ValueError(f"a policy's name must {rule}, but got {checks.shown(name)}")
    alone = _ADVISED if isinstance(policy, Advised) else _POLICIES
    known: dict[str, Any] = alone if isinstance(policy, Policy) else _WRAPPERS
    if known is _WRAPPERS and not (isinstance(policy, type) and issubclass(policy, Wrapper)):
        raise TypeError(
            f"a registered policy must be a umab.Policy or a subclass of umab.Wrapper, but got {checks.shown(policy)}"
        )
    before = _all().get(name)
    if before is not None and (name not in known or _origin(before) != _origin(policy)):
        raise ValueError(f"a policy's name must be new, but {name!r} already stands for {before!r}")
    known[name] = policy


def _all() -> dict[str, Any]:
    """Return all that is registered so far."""
    return {**_POLICIES, **_ADVISED, **_WRAPPERS}


def _origin(policy: Any) -> tuple[str, str]:
    """Return where a policy's class is defined: a notebook may define the same class several times."""
    kind = _kind_of(policy)
    return kind.__module__, kind.__qualname__


def _kind_of(known: Policy | type[Wrapper]) -> type[Policy]:
    return known if isinstance(known, type) else type(known)


def is_known(name: str) -> bool:
    """Whether a name is registered already; nothing is imported to find out."""
    return name in _all()


def look_up(name: Any, text: str, allow_import: bool) -> Policy | type[Policy]:
    """Return the policy that a name stands for, a class of wrappers, or the class at ``module:Class``."""
    known: dict[Any, Policy | type[Wrapper]] = _all()
    if isinstance(name, str) and name not in known:
        _load_entry_points()
        known = _all()
    if name in known:
        return known[name]
    if isinstance(name, str) and ":" in name:
        placed = next((each for each in known.values() if name == _place_of(_kind_of(each))), None)
        if placed is not None:  # it was imported and registered under another name
            return placed
        if allow_import:
            return _imported(name)
        raise ValueError(
            f"a policy must be registered, but got {text!r}, which says where a class is; import the class and pass "
            "an instance of it, or register it with umab.register or an entry point of the group umab.policies"
        )
    names = ["recommended", *_POLICIES, *_ADVISED, *(f"{wrapper}(...)" for wrapper in _WRAPPERS)]
    close = difflib.get_close_matches(str(name).lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"a policy must be one of {', '.join(names)}, but got {name!r}{hint}")


def _imported(place: str) -> Policy | type[Policy]:
    """Return the policy or the class at ``module:Class``."""
    module, _, way = place.partition(":")
    if os.getcwd() not in sys.path:  # unlike a script, a command does not find modules in this folder
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for name in way.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"a policy must be registered or given as module:Class, but got {place!r}: {error}") from None
    if isinstance(found, type) and issubclass(found, Policy):
        return found
    return _as_registered(found, repr(place))


def _as_registered(found: Any, where: str) -> Policy | type[Wrapper]:
    """Return what was found in the form in which it is registered: a policy, or a class of wrappers."""
    if isinstance(found, type) and issubclass(found, Wrapper):
        return found
    if isinstance(found, type) and issubclass(found, Policy):
        found = found()
    if not isinstance(found, Policy):
        raise ValueError(f"a policy must be a umab.Policy or a subclass of it, but {where} is {found!r}")
    return found


def _load_entry_points() -> None:
    """Register the policies of other packages. One that fails is skipped with a warning, and the others are kept."""
    global _entry_points_loaded, _loading
    with _lock:  # other threads wait until all are loaded
        if _entry_points_loaded or _loading:  # the modules being loaded may ask for a policy
            return
        _loading = True
        for point in metadata.entry_points(group=ENTRY_POINTS):
            try:
                register(point.name, _as_registered(point.load(), f"the entry point {point.name!r}"))
            except Exception as error:
                message = (
                    f"the policy {point.name!r} of {point.value!r} cannot be loaded: {type(error).__name__}: {error}"
                )
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        _entry_points_loaded, _loading = True, False


def equal_to(policy: Policy) -> str | None:
    """Return the name that stands for this policy without further parameters, if there is one."""
    return next((name for name, prototype in _prototypes() if prototype == policy), None)


def _prototypes() -> list[tuple[str, Policy]]:
    return [*_POLICIES.items(), *_ADVISED.items()]


def nearest(policy: Policy) -> tuple[str, dict[str, Any] | None]:
    """Return the registered name whose parameters differ least, and these; or where the class is, and None."""
    kind = type(policy)
    if not any(kind in (each, type(each)) for each in _all().values()):
        _load_entry_points()
    if isinstance(policy, Wrapper):
        wrapper = next((name for name, known in _WRAPPERS.items() if known is kind), None)
        if wrapper is not None:
            defaults = {field.name: field.default for field in dataclasses.fields(policy)}
            return wrapper, defaults
        return _place_of(kind), None
    kin = {name: prototype.parameters() for name, prototype in _prototypes() if type(prototype) is kind}
    if not kin:
        return _place_of(kind), None
    own = policy.parameters()
    # Several names share a class (umab-g, umab-g-none); the right one has the fewest different parameters.
    name = min(kin, key=lambda name: sum(own[key] != kin[name][key] for key in own))
    return name, kin[name]


def _place_of(kind: type[Policy]) -> str:
    """Return ``module:Class`` if another process can import the class from there, else its name."""
    spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
    importable = spec is not None and kind.__module__ != "__main__" and "<" not in kind.__qualname__
    return f"{kind.__module__}:{kind.__qualname__}" if importable else kind.__name__
