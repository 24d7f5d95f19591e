"""What a learner warns about: uses that look like mistakes, and states that its owner may want to know about."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence, Sized

import numpy as np
import numpy.typing as npt

from umab.online.choice import Label, Open
from umab.online.counters import Tally

QUIET = 1000
"""After this many calls of `select` without any feedback, a learner warns."""

_ASSUMED, _CHANGES = 0.2, 8
"""The share of the feedback that was assumed, and the number of changes, from which on a learner warns."""

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

_SURE = 0.999
"""The probability of an arm above which a learner warns: the others are then tried once in a thousand rounds."""


class LearnerWarning(UserWarning):
    """Something that the owner of a learner may want to know about its use or its state."""


class Hints:
    """The warnings of one learner. All but the first are given once."""

    __slots__ = (
        "_may_warn_of_certainty",
        "_may_warn_of_expiry",
        "_may_warn_of_order",
        "foreign_feedback",
        "may_warn_of_labels",
    )

    def __init__(self) -> None:
        self._may_warn_of_certainty = True
        self._may_warn_of_expiry = True
        self._may_warn_of_order = True
        self.may_warn_of_labels = True
        self.foreign_feedback = False  # whether feedback for another learner's choice was refused

    def on_silence(self, n_open: int) -> None:
        """Warn that no feedback arrives."""
        _warn(
            f"no feedback has arrived for {QUIET} calls of select, and {n_open} choices are open; without feedback "
            "nothing is learned; if it goes to another process, see docs/service.md; if it never arrives, use "
            "learner.expire"
        )

    def on_certainty(self, labels: tuple[Label, ...], probabilities: npt.NDArray[np.float64]) -> None:
        """Warn, once, that almost every draw is the same arm."""
        likeliest = int(probabilities.argmax())
        probability = probabilities[likeliest]
        # The probability of a single arm, or while a policy plays each arm first, is not learned.
        learned = len(labels) > 1 and probabilities.min() > 0.0
        if self._may_warn_of_certainty and learned and probability > _SURE:
            self._may_warn_of_certainty = False
            _warn(
                f"the draw has become almost deterministic: arm={labels[likeliest]!r} has probability "
                f"{probability:.6f}; if another arm becomes better, the learner will notice late"
            )

    def on_label(self, label: Label, index: int, open_choices: Iterable[Open]) -> None:
        """Warn, once, that `update` got the label of an arm that has an open choice."""
        if any(where == index for _, where, *_ in open_choices):
            self.may_warn_of_labels = False
            _warn(
                f"update got arm={label!r}, which has an open choice; pass what select returned, not its arm: "
                "otherwise the choice stays open for ever, and the probability of its draw is not used"
            )

    def on_expiry(self, n_expired: int) -> None:
        """Warn, once, that arms are punished although feedback seems to go to other processes."""
        if self.foreign_feedback and self._may_warn_of_expiry:
            self._may_warn_of_expiry = False
            _warn(
                f"{n_expired} choices expired with an assumed loss, although feedback for other learners' choices came "
                "here: feedback for these may have gone to another process, and their arms are punished for it; pass "
                "forget=True, or let the other process learn it: update(..., foreign='learn')"
            )

    def on_changes(self, tallies: Sequence[Tally], changes: Callable[[], Sized]) -> None:
        """Warn, once, that the order in which feedback arrives may be what looks like changes."""
        if not self._may_warn_of_order:
            return
        assumed, arrived = sum(each.expired for each in tallies), sum(each.updates for each in tallies)
        if assumed >= _ASSUMED * (assumed + arrived) and len(changes()) >= _CHANGES:
            self._may_warn_of_order = False
            _warn(
                f"the policy has noticed many changes, and {assumed} of {assumed + arrived} losses or rewards were "
                "assumed when choices expired; if what arrives is better than what is assumed, the order of arrival "
                "looks like changes: take umab.recommended(changing=False), or report all feedback after the same wait"
            )


def _warn(message: str) -> None:
    # The line that called the learner, from however deep inside this package the warning comes.
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, LearnerWarning, stacklevel=level)
