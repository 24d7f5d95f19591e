"""Slowing down clients that keep failing to show a valid key."""

from __future__ import annotations

from collections import OrderedDict

FREE = 5
"""How many failures are answered at once."""
LONGEST = 60.0
"""The longest time that a client is kept waiting, in seconds."""
DOUBLINGS = 6
"""After how many doublings of a second that time is reached; more failures change nothing."""
MOST = 10_000
"""How many clients are remembered; the ones that failed longest ago are forgotten."""


class Throttle:
    """Counts failures by client; after a few, each one doubles the time until the next answer.

    A key that a client has shown before goes on working: others behind the same address must not lock it out.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, client: str, key: str | None, now: float) -> float:
        """Return for how many seconds a client has to wait that shows this valid key, or none; 0 if it need not."""
        if not self._failures or (key is not None and (client, key) in self._known):
            return 0.0
        _, until = self._failures.get(client, (0, 0.0))
        return max(0.0, until - now)

    def failed(self, client: str, now: float) -> None:
        """Note a failure."""
        count, until = self._failures.pop(client, (0, 0.0))
        if now - until > 10 * LONGEST:
            count = 0
        count = min(count + 1, FREE + DOUBLINGS)
        self._failures[client] = count, now + (min(LONGEST, 2.0 ** (count - FREE)) if count > FREE else 0.0)
        if len(self._failures) > MOST:
            self._failures.popitem(last=False)

    def passed(self, client: str, key: str) -> None:
        """Note that a client has shown a valid key."""
        if (client, key) not in self._known:
            self._failures.pop(client, None)
            self._known[client, key] = None
            if len(self._known) > MOST:
                self._known.popitem(last=False)
