"""Clients of the decision service, `umab serve` (extra ``[client]``).

`Client` and `AsyncClient` feel like a `umab.Learner` that several programs share: `select` an arm, `update` with what
it cost. Requests carry ids that the client makes, so they are repeated without being done twice.
`umab.client.openfeature` has a provider for the OpenFeature SDK.
"""

from umab._support.extras import extra

with extra("client", "umab.client"):
    from umab.client.asynchronous import AsyncClient, AsyncExperiment
    from umab.client.queue import FeedbackCounts
    from umab.client.synchronous import Client, Experiment
    from umab.client.wire import Decision, Refused, Unavailable

__all__ = [
    "AsyncClient",
    "AsyncExperiment",
    "Client",
    "Decision",
    "Experiment",
    "FeedbackCounts",
    "Refused",
    "Unavailable",
]
