"""The errors that programs handle in different ways. All of them are ValueErrors.

Three are of choices that a learner cannot learn from: feedback that arrived twice or too late (`ClosedChoiceError`),
feedback that belongs to another process (`ForeignChoiceError`), and a choice that was changed on its way
(`AlteredChoiceError`). One is of theory: no bound applies (`NoBoundError`).
"""

from __future__ import annotations


class ChoiceError(ValueError):
    """A choice that a learner cannot learn from."""


class ClosedChoiceError(ChoiceError):
    """The choice was closed before: its feedback has arrived, or it has expired, or it was forgotten."""


class ForeignChoiceError(ChoiceError):
    """Another learner has made the choice, perhaps in another process, or a copy of this one before it was copied."""


class AlteredChoiceError(ChoiceError):
    """The choice did not come back as it was made."""


class NoBoundError(ValueError):
    """No regret bound applies: to the policy, to its parameters, or to the losses. The message names the condition."""
