"""Feedback: a loss, or a reward where the learner maximizes."""

from __future__ import annotations

from umab._support import checks
from umab.algorithms.base import Policy


def as_loss(maximize: bool, loss: object, reward: object) -> tuple[float, float]:
    """Return the feedback as given, and as a loss. Only here does a reward become a loss."""
    if maximize:
        if loss is not None or reward is None:
            raise TypeError(f"reward must be given, and not loss, if maximize=True, but got {both_shown(loss, reward)}")
        value = checks.real("reward", reward)
        return value, 0.0 - value  # not -value: a reward of 0 is a loss of 0, and not of -0
    if reward is not None or loss is None:
        raise TypeError(f"loss must be given, and reward only if maximize=True, but got {both_shown(loss, reward)}")
    value = checks.real("loss", loss)
    return value, value


def both_shown(loss: object, reward: object) -> str:
    """Return a loss and a reward as errors show them."""
    return f"loss={checks.shown(loss)}, reward={checks.shown(reward)}"


def refusal(policy: Policy, loss: float, arm: object, reward: object) -> ValueError:
    """Return the error for a loss that the policy refuses."""
    flipped = "" if reward is None else f"{reward=!r} is a loss of {loss!r}: "
    return ValueError(f"{flipped}{policy.refusal(loss, f'arm={arm!r}')}")
