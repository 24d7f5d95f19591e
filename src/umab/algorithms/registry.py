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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

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
from umab.algorithms.guard import Guarded
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
from umab.algorithms.umab_r import UMABR
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.uniform import Uniform
from umab.algorithms.wrapper import Wrapper

ENTRY_POINTS = "umab.policies"
"""The group of entry points under which other packages register policies and wrappers."""

DEEPEST = 20
"""How deeply policies may be nested, in a name or a saved file."""


@dataclass(frozen=True)
class Record:
    """A policy as it is registered: the policy that a name stands for, and what is said and shown of it.

    Parameters
    ----------
    policy
        The policy.
    summary
        What it is for, in one line; by default the first line of the docstring of its class.
    reference
        Where it was published.
    published
        Whether it is a published policy that the recommended one is compared with on the suite.
    also_compared
        Other values of its parameters with which it also takes part in comparisons.
    rate_in_norms
        The order of its bound in the norms of the paper's Table 1: one of the formulas of `umab.theory.bounds`.
    """

    policy: Policy
    _: dataclasses.KW_ONLY
    summary: str = ""
    reference: str = ""
    published: bool = False
    also_compared: tuple[Mapping[str, object], ...] = ()
    rate_in_norms: str = ""

    def __post_init__(self) -> None:
        """Check the policy, and take the summary from its class if none is given."""
        if not isinstance(self.policy, Policy):
            raise TypeError(f"the policy of a record must be a umab.Policy, but got {checks.shown(self.policy)}")
        if not self.summary:
            first = (type(self.policy).__doc__ or "").partition("\n")[0].rstrip(".")
            object.__setattr__(self, "summary", first)


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


_WRAPPERS: dict[str, type[Wrapper]] = {"centred": Centred, "local": LocallyCentred, "guarded": Guarded}
_IN_THE_FIGURES = ({"rate": 4.0},)
"""The learning rate of UMAB-G in the figures of the paper."""

_POLICIES: dict[str, Record] = {
    "umab-w": Record(
        UMABW(),
        summary="losses of any size, sign and offset, in a world that may change; nothing to tune",
        reference="umab, docs/changing.md",
    ),
    "umab-r": Record(
        UMABR(),
        summary="losses of any size, sign and offset, in services whose options fail and return; no bound",
        reference="umab, docs/algorithms/umab-r.md",
    ),
    "centred(umab-s)": Record(
        Centred(UMABS()),
        summary="losses of any size, sign and offset; umab-s, centred",
        reference="umab, docs/recommended.md",
    ),
    "umab-l": Record(
        LocallyCentred(UMABS()),
        summary="losses of any size, sign and offset whose level may move; umab-s, locally centred",
        reference="umab, docs/recommended.md",
    ),
    "umab-s": Record(
        UMABS(),
        summary="losses of any size and sign; strictly scale-free, learns as fast as it can pay for",
        reference="umab, docs/recommended.md",
    ),
    "centred(umab-sh)": Record(
        Centred(UMABSh()),
        summary="losses of any size, sign and offset; umab-sh, centred",
        reference="umab, docs/algorithms/umab-sh.md",
    ),
    "umab-sh": Record(
        UMABSh(),
        summary="losses of any size and sign whose best arm changes; a bound for every number of changes",
        reference="umab, docs/algorithms/umab-sh.md",
    ),
    "umab-nn": Record(
        UMABNN(),
        summary="losses of any size that are never negative; strictly scale-free",
        reference="Chen & Zhang 2023, Algorithm 1",
        published=True,
        rate_in_norms="√(n Σ‖ℓ_t‖²∞)",
    ),
    "umab-g": Record(
        UMABG(),
        summary="losses of any size and sign; exploration fixed by the horizon",
        reference="Chen & Zhang 2023, Algorithms 2 and 3",
        published=True,
        also_compared=_IN_THE_FIGURES,
        rate_in_norms="ℓ⁻∞ √(nT) + √(n Σ‖ℓ_t‖²∞)",
    ),
    "umab-g-a": Record(
        UMABGA(),
        summary="losses of any size and sign; exploration adapts to what it costs",
        reference="Chen & Zhang 2023, Algorithms 2 and 3",
        published=True,
        also_compared=_IN_THE_FIGURES,
        rate_in_norms="(1 + ℓ∞) √(n Σ‖ℓ_t‖∞) + √(n Σ‖ℓ_t‖²∞)",
    ),
    "umab-g-anytime": Record(
        UMABG(exploration="anytime"),
        summary="losses of any size and sign; exploration falls with time",
        reference="Chen & Zhang 2023, Algorithms 2 and 3",
    ),
    "umab-g-none": Record(
        UMABG(exploration="none"),
        summary="UMAB-G without its extra exploration, for study",
        reference="Chen & Zhang 2023, Algorithms 2 and 3",
    ),
    "umab-g-maintext": Record(
        UMABGA(exploration="maintext"),
        summary="UMAB-G-A as its main text prints it, for study: linear regret",
        reference="Chen & Zhang 2023, Algorithms 2 and 3",
    ),
    "sf-mab": Record(
        SFMAB(exploration="anytime"),
        summary="losses of any size and sign; uniform exploration falls with time",
        reference="Putta & Agrawal 2022",
        published=True,
        rate_in_norms="ℓ∞ √(nT) + √(n Σ‖ℓ_t‖²₂)",
    ),
    "sf-mab-a": Record(
        SFMAB(),
        summary="losses of any size and sign; uniform exploration adapts to what it costs",
        reference="Putta & Agrawal 2022",
        published=True,
        rate_in_norms="ℓ∞ √(n Σ‖ℓ_t‖₁) + √(n Σ‖ℓ_t‖²₂)",
    ),
    "ahb": Record(
        AHB(),
        summary="losses of any size, sign and offset; scale- and shift-free",
        reference="Hadiji & Stoltz 2023",
        published=True,
        rate_in_norms="ℓ∞ √(nT)",
    ),
    "banker-omd": Record(
        BankerOMD(),
        summary="losses of any size and sign; without a bound that holds",
        reference="Huang, Dai & Huang 2023, Algorithm 4",
        published=True,
    ),
    "banker-sftinf": Record(
        BankerSFTINF(),
        summary="losses of any size that are never negative and arrive late; a bound for delays of unknown length",
        reference="Huang, Dai & Huang 2023",
    ),
    "banker-sflbinf": Record(
        BankerSFLBINF(),
        summary="losses of any size and sign that arrive late; without a bound that holds",
        reference="Huang, Dai & Huang 2023",
    ),
    "scb": Record(
        SCB(),
        summary="losses of any size and sign; strictly scale-free, optimal in the worst case",
        reference="Chen & Zhang 2024, Algorithm 1",
        published=True,
        rate_in_norms="ℓ∞ √(nT)",
    ),
    "scb-ix": Record(
        SCBIX(),
        summary="losses of any size and sign; strictly scale-free, bounds with high probability",
        reference="Chen & Zhang 2024, Algorithm 2",
        published=True,
    ),
    "scb-d": Record(
        SCBD(),
        summary="losses of any size and sign that arrive late; a bound for delays of unknown length",
        reference="umab, docs/algorithms/scb-d.md",
    ),
    "htinf": Record(
        HTINF(),
        summary="losses with heavy tails; a moment of them must be known",
        reference="Huang, Dai & Huang 2022",
    ),
    "opttinf": Record(
        HTINF(alpha=2.0),
        summary="losses with heavy tails; HTINF as if their mean square were 1",
        reference="Huang, Dai & Huang 2022",
    ),
    "adatinf": Record(
        AdaTINF(),
        summary="losses with heavy tails; adapts to them, with a known horizon",
        reference="Huang, Dai & Huang 2022",
    ),
    "adatinf-anytime": Record(
        AdaTINF(anytime=True),
        summary="losses with heavy tails; adapts to them, in epochs",
        reference="Huang, Dai & Huang 2022",
    ),
    "exp3": Record(
        EXP3(),
        summary="losses in a known range; the classic, exploration fixed by the horizon",
        reference="Auer et al. 2002",
    ),
    "exp3-ix": Record(
        EXP3IX(),
        summary="losses in a known range; bounds with high probability",
        reference="Neu 2015",
    ),
    "exp3-p": Record(
        EXP3P(),
        summary="losses in a known range; upper confidence bounds, fixed by the horizon",
        reference="Auer et al. 2002",
    ),
    "exp3-s": Record(
        EXP3S(),
        summary="losses in a known range; follows a best arm that changes, fixed by the horizon",
        reference="Auer et al. 2002",
    ),
    "tsallis-inf": Record(
        TsallisINF(),
        summary="losses in a known range; optimal for adversarial and stochastic losses",
        reference="Zimmert & Seldin 2021",
    ),
    "tsallis-inf-d": Record(
        TsallisINFD(),
        summary="losses in a known range that arrive late; a bound for delays of unknown length",
        reference="Zimmert & Seldin 2020",
    ),
    "adahedge": Record(
        AdaHedge(),
        summary="sees the losses of all arms; scale- and shift-free",
        reference="de Rooij et al. 2014",
    ),
    "solo-ftrl": Record(
        SOLOFTRL(),
        summary="sees the losses of all arms; scale-free",
        reference="Orabona & Pál 2018",
    ),
    "uniform": Record(
        Uniform(),
        summary="every arm with the same probability; learns nothing",
    ),
}
_ADVISED: dict[str, Record] = {
    "umab-e": Record(
        UMABE(),
        summary="advice from experts, losses of any size, sign and offset; strictly scale-free",
        reference="umab, docs/algorithms/umab-e.md",
    ),
}
_entry_points_loaded = _loading = False
_lock = threading.RLock()


def records() -> dict[str, Record]:
    """Return what is registered of the policies, by name; those over experts are not among them."""
    _load_entry_points()
    return dict(_POLICIES)


def registered() -> dict[str, Policy]:
    """Return the registered policies by name, each with the parameters that its name stands for."""
    return {name: record.policy for name, record in records().items()}


def registered_advised() -> dict[str, Policy]:
    """Return the registered policies over experts by name."""
    _load_entry_points()
    return {name: record.policy for name, record in _ADVISED.items()}


def record_of(policy: Policy) -> Record:
    """Return what is registered of a policy with these or nearly these parameters; an empty record if nothing is.

    Of a wrapper that is not registered as it is, only the reference of the policy inside is known.
    """
    name = equal_to(policy) or nearest(policy)[0]
    found = {**_POLICIES, **_ADVISED}.get(name)
    if found is None and isinstance(policy, Wrapper):
        return Record(policy, reference=record_of(policy.policy).reference)
    return Record(policy) if found is None else dataclasses.replace(found, policy=policy)


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
    _load_entry_points()
    found = _ADVISED if checks.true_or_false("advised", advised) else _POLICIES
    return {name: record.summary for name, record in found.items()}


def register(name: str, policy: Policy | Record | type[Wrapper]) -> None:
    """Add a policy of your own to the names that `umab.policy` and `umab.policies` know.

    Parameters
    ----------
    name
        Its name: letters, digits and dashes. A class that was changed and defined again, as in a notebook, replaces
        its earlier definition.
    policy
        The policy that the name stands for; a `Record` of it, which also says where it was published and the like; or
        a subclass of `Wrapper`, for names of the form ``name(inner)``.
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum() or name == "recommended":
        rule = "consist of letters, digits and dashes and not be 'recommended'"
        raise ValueError(f"a policy's name must {rule}, but got {checks.shown(name)}")
    if isinstance(policy, Policy):
        policy = Record(policy)
    if isinstance(policy, Record):
        records = _ADVISED if isinstance(policy.policy, Advised) else _POLICIES
        _check_new(name, policy.policy, name in records)
        records[name] = policy
    elif isinstance(policy, type) and issubclass(policy, Wrapper):
        _check_new(name, policy, name in _WRAPPERS)
        _WRAPPERS[name] = policy
    else:
        raise TypeError(
            f"a registered policy must be a umab.Policy or a subclass of umab.Wrapper, but got {checks.shown(policy)}"
        )


def _check_new(name: str, policy: Policy | type[Wrapper], is_alike: bool) -> None:
    """Refuse a name that is taken, unless by the same class: a notebook may define it several times."""
    before = _all().get(name)
    if before is not None and not (is_alike and _origin(before) == _origin(policy)):
        raise ValueError(f"a policy's name must be new, but {name!r} already stands for {before!r}")


def _all() -> dict[str, Policy | type[Wrapper]]:
    """Return all that is registered so far."""
    return {**dict(_prototypes()), **_WRAPPERS}


def _origin(policy: Policy | type[Wrapper]) -> tuple[str, str]:
    """Return where a policy's class is defined."""
    kind = _kind_of(policy)
    return kind.__module__, kind.__qualname__


def _kind_of(known: Policy | type[Wrapper]) -> type[Policy]:
    return known if isinstance(known, type) else type(known)


def is_known(name: str) -> bool:
    """Whether a name is registered already; nothing is imported to find out."""
    return name in _all()


def look_up(name: object, text: str, allow_import: bool) -> Policy | type[Policy]:
    """Return the policy that a name stands for, a class of wrappers, or the class at ``module:Class``."""
    known = _all()
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
        found: object = importlib.import_module(module)
        for name in way.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"a policy must be registered or given as module:Class, but got {place!r}: {error}") from None
    if isinstance(found, type) and issubclass(found, Policy):
        return found
    made = _as_registered(found, repr(place))
    return made.policy if isinstance(made, Record) else made


def _as_registered(found: object, where: str) -> Policy | Record | type[Wrapper]:
    """Return what was found in the form in which it is registered: a policy, its record, or a class of wrappers."""
    if isinstance(found, Record) or (isinstance(found, type) and issubclass(found, Wrapper)):
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
    return [(name, record.policy) for name, record in {**_POLICIES, **_ADVISED}.items()]


def nearest(policy: Policy) -> tuple[str, dict[str, object] | None]:
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
