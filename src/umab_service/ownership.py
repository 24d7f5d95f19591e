"""Which experiments this server owns, where several servers share a database, and where the others are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from umab_service import statements as sql
from umab_service.leases import LEASE_SECONDS, Leases
from umab_service.problems import not_found
from umab_service.recovery import recovered
from umab_service.storage import DatabaseError

if TYPE_CHECKING:
    from umab_service.service import Service

RENEW_EVERY = LEASE_SECONDS / 10
"""How often the lease is renewed and what others have done is looked up, in seconds."""
HANDED_OVER_AT_ONCE = 100
MOST_PLACES = 20_000
"""How many experiments of other servers are remembered with their addresses."""

logger = logging.getLogger("umab_service")


class Elsewhere(Exception):
    """An experiment is not here, or not any more: look up where it is, and try again."""


class Ownership:
    """Owns experiments: claims those that nobody owns, loads them, and hands over what is more than its share."""

    def __init__(self, service: Service, storage: Any, address: str) -> None:
        self._service, self._storage, self._address = service, storage, address
        self._leases: Leases = storage.leases
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._reserved: dict[str, int] = {}
        self._places: OrderedDict[str, tuple[int | None, str]] = OrderedDict()
        self._leaving: set[str] = set()
        """What is on its way to another server: it must not be loaded again before it is there."""
        self.tasks: list[asyncio.Task[None]] = []

    # A life.

    async def begin(self) -> None:
        """Get a lease, and own a share of the experiments."""
        await self._storage.start(self._address)
        self.tasks = [asyncio.create_task(self._hold())]  # what follows may take longer than a lease
        await self.look_around()
        self.tasks.append(asyncio.create_task(self._watch()))

    async def begin_again(self) -> None:
        """Start over after a failure: with what is owned, or with a new lease if it was lost.

        To renew a lease waits for a commit that is still on its way, so that what is read next has it.
        """
        self._service.forget_experiments()
        if await self._leases.renew():
            await self._leases.release_reserved()
            await self._storage.reconnect()
        else:
            await self._storage.start(self._address)
        self._reserved.clear()  # last: a request may have come back with a number that is gone now

    async def announce(self, address: str) -> None:
        """Tell other servers where this one is, now that it answers."""
        self._address = address
        await self._leases.announce(address)

    async def end(self) -> None:
        """Give up everything, so that others need not wait for the end of the lease."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        for loading in self._loading.values():
            loading.cancel()
        await self._storage.stop()

    async def _hold(self) -> None:
        """Renew the lease, again and again, whatever else takes its time."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                if not await self._leases.renew():
                    self._service.lose_lease()
            except Exception as error:
                logger.warning("the lease could not be renewed: %s", error)

    async def _watch(self) -> None:
        """See what there is to own, again and again."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                if not self._service.recovering:
                    await self.look_around()
            except Exception as error:
                logger.warning("what there is to own could not be seen: %s", error)

    async def look_around(self) -> None:
        """End leases that are overdue, own a fair share, hand over what is more, and load what is owned."""
        await self._leases.end_overdue()
        servers = await self._leases.servers()
        self._places = OrderedDict((name, place) for name, place in self._places.items() if place[0] in servers)
        mine = servers.get(self._leases.me, 0)
        n_free = servers.pop(None, 0)
        fair = -(-(sum(servers.values()) + n_free) // max(len(servers), 1))
        if n_free and mine < fair:
            await self._leases.claim(fair - mine)
        elif mine > fair:
            await self._hand_over(mine - fair, servers, fair)
        await self._load_mine()

    async def _load_mine(self) -> None:
        """Load the experiments that are owned and not in memory, since waits must end without requests, too."""
        service, epoch = self._service, self._leases.me
        for number, name in await self._leases.owned():
            if epoch != self._leases.me or service.recovering:
                return
            if number not in service.by_id:
                try:
                    await self._loaded(number, name)
                except Elsewhere:
                    continue
                except DatabaseError as error:  # the others must not wait for it
                    logger.error("an experiment could not be loaded: %s", error)

    async def _hand_over(self, n_experiments: int, servers: dict[int | None, int], fair: int) -> None:
        """Give experiments to the servers that own the fewest."""
        service = self._service
        for found in list(service.experiments.values())[-min(n_experiments, HANDED_OVER_AT_ONCE) :]:
            to = min(servers, key=lambda each: servers[each])
            if servers[to] >= fair or service.recovering:
                return
            if service.by_id.get(found.id) is not found:
                continue
            servers[to] += 1
            if found.n_since:
                service.snapshot(found)
            service.take_out(found)
            service.statements.append((sql.HAND_OVER, (to, found.id, self._leases.me)))
            self._leaving.add(found.name)
            try:
                await service.stored()
            finally:
                self._leaving.discard(found.name)

    @property
    def held(self) -> bool:
        """Whether the lease has not ended for sure, so that nobody else owns what is owned here."""
        return time.monotonic() < self._leases.until

    # Where an experiment is.

    async def locate(self, name: str, *, create: Callable[[], Awaitable[None]] | None = None) -> str | None:
        """Return the address of the server that owns an experiment; None if it is here, in memory.

        With `create`, a name that does not exist is reserved here, unless that raises: what is refused must leave no
        name behind. Raise `Elsewhere` to have it tried again.
        """
        service = self._service
        if name in service.experiments:
            return None
        service.check_recovered()
        if "\0" in name:  # which PostgreSQL does not take, so that none has it
            raise not_found("an experiment", name)
        if name in self._leaving:
            raise Elsewhere(name)
        known = self._places.get(name)
        if known is not None:
            return known[1]
        owner = await self._leases.owner(name)
        if owner is None:
            if create is None:
                raise not_found("an experiment", name)
            await create()
            number = await self._leases.reserve(name)
            if number is None:
                raise Elsewhere(name)
            self._reserved[name] = number
            return None
        if owner.server == self._leases.me:
            if owner.created:
                await self._loaded(owner.experiment, name)
            elif create is not None:
                self._reserved[name] = owner.experiment
            else:
                raise not_found("an experiment", name)
            return None
        if owner.alive and owner.address:
            self._places[name] = owner.server, owner.address
            if len(self._places) > MOST_PLACES:
                self._places.popitem(last=False)
            return owner.address
        if owner.server is not None:
            await self._leases.end_overdue()
        await self._leases.claim(1, name)
        raise Elsewhere(name)  # whoever has claimed it is found by the next look

    def misplaced(self, name: str) -> None:
        """Forget where an experiment was."""
        self._places.pop(name, None)

    def reserved(self, name: str) -> int:
        """Return the number that was reserved for a name."""
        if name not in self._reserved:
            raise Elsewhere(name)
        return self._reserved.pop(name)

    async def _loaded(self, number: int, name: str) -> None:
        """Bring an experiment into memory; whoever asks for it meanwhile waits for the same."""
        loading = self._loading.get(name)
        if loading is None:
            loading = self._loading[name] = asyncio.create_task(self._load(number, name, self._leases.me))
            loading.add_done_callback(lambda _: self._loading.pop(name, None))
        await asyncio.shield(loading)

    async def _load(self, number: int, name: str, epoch: int) -> None:
        service = self._service
        found = await asyncio.to_thread(recovered, self._storage, False, [number])
        owner = await self._leases.owner(name)
        if owner is None or owner.server != self._leases.me:  # another request has loaded it, and it was handed over
            raise Elsewhere(name)
        if epoch != self._leases.me or service.recovering:
            raise DatabaseError("the server has lost its lease while it read the log; try again")
        for each in found:
            if each.id not in service.by_id:
                service.put(each)
