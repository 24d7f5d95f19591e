"""Which theorem is about a policy, and where its proof is."""

from __future__ import annotations

from typing import TypeVar

from umab.algorithms.base import Policy
from umab.algorithms.centred import Centred
from umab.algorithms.guard import Guarded
from umab.algorithms.scb_d import SCBD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_g import ExtraExploration
from umab.algorithms.umab_nn import UMABNN
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.wrapper import layers

THEOREM_1, THEOREM_2 = "Theorem 1", "Theorem 2"
THEOREM_R, THEOREM_W, THEOREM_SH, THEOREM_E, THEOREM_D, THEOREM_G = (
    "Theorem R",
    "Theorem W",
    "Theorem Sh",
    "Theorem E",
    "Theorem D",
    "Theorem G",
)

P = TypeVar("P", bound=Policy)

_OF: dict[type[Policy], str] = {
    UMABNN: THEOREM_1,
    ExtraExploration: THEOREM_2,
    UMABS: THEOREM_R,
    UMABW: THEOREM_W,
    UMABSh: THEOREM_SH,
    UMABE: THEOREM_E,
    SCBD: THEOREM_D,
}
_ALSO_CENTRED = (THEOREM_R, THEOREM_SH, THEOREM_D)

PROVED_IN = {
    THEOREM_R: "docs/recommended.md",
    THEOREM_W: "docs/changing.md",
    THEOREM_SH: "docs/algorithms/umab-sh.md",
    THEOREM_E: "docs/algorithms/umab-e.md",
    THEOREM_D: "docs/algorithms/scb-d.md",
    THEOREM_G: "docs/guard.md",
}
"""The theorems of this project, and where their proofs are; the others are the paper's."""

LATE = "docs/late.md"
"""Where the proof of Theorem L is, on UMAB-S with late feedback."""


def theorem_of(policy: Policy) -> str:
    """Return the theorem behind the guarantee of a policy; empty if there is none in `umab.theory`.

    A policy that flips a coin where the one of the theorem does not is another one, also if it is derived from it.
    """
    if isinstance(policy, Centred):
        inside = theorem_of(policy.policy)
        return inside if inside in _ALSO_CENTRED else ""
    if isinstance(policy, Guarded):
        return THEOREM_G
    flips = policy.coin is not None
    found = (theorem for kind, theorem in _OF.items() if isinstance(policy, kind) and flips == (kind.coin is not None))
    return next(found, "")


def core_of(policy: Policy, kind: type[P]) -> P:
    """Return the policy that a proof is about, which is of this kind: the one inside all wrappers."""
    core = layers(policy)[-1]
    assert isinstance(core, kind)  # as the theorem says
    return core
