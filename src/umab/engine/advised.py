"""Whether a policy and the advice for it fit together."""

from __future__ import annotations

from umab.algorithms.advised import Advised
from umab.algorithms.base import Policy
from umab.tables.advice import Advice
from umab.tables.losses import Losses, refuse_away


def advice_for(policy: Policy, advice: Advice | None, losses: Losses, device: str = "cpu") -> Policy:
    """Return the policy that takes this advice, or raise an error that says why it cannot."""
    if not isinstance(policy, Advised):
        if advice is not None:
            raise ValueError(f"advice must be given to a policy over experts, such as umab-e, but got {policy.name}")
        return policy
    if advice is None:
        raise ValueError(f"{policy.name} must be told what experts advise; pass advice=...")
    if device != "cpu":
        raise ValueError(f"a policy over experts must run on the processor, but got device={device!r}")
    refuse_away(losses, f"{policy.name}, whose experts must not advise arms that are away,")
    return policy.for_experts(advice.n_experts)
