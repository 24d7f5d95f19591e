"""Which theorem is about a policy, and where its proof is."""

from __future__ import annotations

from typing import Any

from umab.algorithms.base import Policy
from umab.algorithms.scb_d import SCBD
from umab.algorithms.umab_e import UMABE
from umab.algorithms.umab_s import UMABS
from umab.algorithms.umab_sh import UMABSh
from umab.algorithms.umab_w import UMABW
from umab.algorithms.wrapper import layers

PROVED_IN = {
    UMABS.theorem: "docs/recommended.md",
    UMABW.theorem: "docs/changing.md",
    UMABSh.theorem: "docs/algorithms/umab-sh.md",
    UMABE.theorem: "docs/algorithms/umab-e.md",
    SCBD.theorem: "docs/algorithms/scb-d.md",
}
"""The theorems of this project, and where their proofs are; the others are the paper's."""

LATE = "docs/late.md"
"""Where the proof of Theorem L is, on UMAB-S with late feedback."""


def core_of(policy: Policy) -> Any:
    """Return the policy that a proof is about: the one inside all wrappers."""
    return layers(policy)[-1]
