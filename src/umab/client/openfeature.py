"""A provider for the OpenFeature SDK that also takes feedback (extra ``[openfeature]``).

The official OFREP provider evaluates flags of the decision service without this. But OpenFeature says what came of an
evaluation by `track`, and a provider must know which decision that is about.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Any

from umab._support.extras import extra
from umab.client.queue import AT_EXIT, FeedbackCounts
from umab.client.synchronous import Client

with extra("openfeature", "umab.client.openfeature"):
    from openfeature.contrib.provider.ofrep import OFREPProvider
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagResolutionDetails
    from openfeature.provider import Metadata
    from openfeature.track import TrackingEventDetails

__all__ = ["UmabProvider"]

logger = logging.getLogger("umab.client")


class UmabProvider(OFREPProvider):
    """The official OFREP provider, with feedback: ``client.track("checkout", ...)`` updates the experiment checkout.

    It remembers the last decision for each flag and targeting key. `track` with the name of the flag and the same
    targeting key gives its value to that decision: as a reward if the experiment maximizes, as a loss otherwise. It is
    sent in the background, and `track` never raises: what goes wrong is logged and counted.

    Parameters
    ----------
    url
        Where the server is.
    key
        A key with the role decide.
    timeout
        How long an evaluation may take, in seconds. After that, the SDK returns the default value.
    remembered
        How many decisions to remember; the oldest are forgotten first.
    **options
        Passed on to `umab.client.Client`, which sends the feedback.

    Attributes
    ----------
    n_missed
        How many times `track` was called without a decision that it could be about, or without a value.

    Examples
    --------
    ::

        provider = UmabProvider("http://127.0.0.1:8080", key)
        openfeature.api.set_provider(provider)
        client, visitor = openfeature.api.get_client(), EvaluationContext("visitor-1")
        arm = client.get_string_value("checkout", "one page", visitor)
        client.track("checkout", visitor, TrackingEventDetails(value=3.2))
    """

    def __init__(self, url: str, key: str, *, timeout: float = 1.0, remembered: int = 10_000, **options: Any) -> None:
        super().__init__(url, headers_factory=lambda: {"Authorization": f"Bearer {key}"}, timeout=timeout)
        self._client, self._most = Client(url, key, **options), remembered
        self._known: OrderedDict[tuple[str, str], tuple[str, bool]] = OrderedDict()
        self._lock = threading.Lock()
        self.n_missed = 0

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata(name="umab")

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Evaluate a flag, and remember the decision."""
        found = super().resolve_string_details(flag_key, default_value, evaluation_context)
        target, metadata = _target(evaluation_context), found.flag_metadata
        if target and "decisionId" in metadata:
            with self._lock:
                self._known[flag_key, target] = str(metadata["decisionId"]), bool(metadata.get("maximize"))
                self._known.move_to_end((flag_key, target))
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        return found

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Give the value of the details to the last decision of this flag and targeting key.

        The attribute ``key`` names the part, if the experiment learns sums.
        """
        target = _target(evaluation_context)
        with self._lock:
            known = self._known.get((tracking_event_name, target))
        if known is None:
            self._miss(f"it must come after an evaluation with a targeting key, but {tracking_event_name!r} did not")
            return
        details = tracking_event_details or TrackingEventDetails()
        if details.value is None:
            self._miss(f"it must have a value, but {tracking_event_name!r} has none")
            return
        (identity, maximize), key = known, details.attributes.get("key")
        loss, reward = (None, details.value) if maximize else (details.value, None)
        part = None if key is None else str(key)
        try:
            experiment = self._client.experiment(tracking_event_name)
            experiment.update(identity, loss=loss, reward=reward, key=part, background=True)
        except (ValueError, TypeError, RuntimeError) as error:
            self._miss(str(error))

    def feedback(self) -> FeedbackCounts:
        """Return what became of the feedback."""
        return self._client.feedback()

    def flush(self, timeout: float = AT_EXIT) -> bool:
        """Wait until all feedback is sent, for at most so many seconds; return whether it is."""
        return self._client.flush(timeout)

    def shutdown(self) -> None:
        """Send the feedback that waits, and stop."""
        super().shutdown()
        self._client.close()

    def _miss(self, why: str) -> None:
        self.n_missed += 1
        if self.n_missed == 1:
            logger.warning("what was tracked is not sent: %s; this is said once, and counted", why)


def _target(context: EvaluationContext | None) -> str:
    """Return whom an evaluation is for."""
    return (context.targeting_key if context is not None else None) or ""
