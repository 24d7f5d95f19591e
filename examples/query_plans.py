"""Plans of one database query whose parameters change: ``python -m examples.query_plans``."""

from __future__ import annotations

import random
import sqlite3
import time
from typing import NamedTuple

from examples.command import main
from examples.demonstration import Demonstration, Record
from examples.page import amount

N_ORDERS, N_SHOPS, N_DAYS = 30_000, 2_500, 365
WHOLESALER = 0
OF_WHOLESALER = 0.6
"""The share of the orders that belong to one customer."""
DELIVERED, OPEN = 0, 1
IS_OPEN = 0.01
WEEK = 7

PLANS = {
    "planner": "",
    "by customer": "INDEXED BY by_customer",
    "by status": "INDEXED BY by_status",
    "by day": "INDEXED BY by_day",
    "scan": "NOT INDEXED",
}
QUERY = "SELECT count(*), sum(amount) FROM orders {plan} WHERE customer = ? AND status = ? AND day BETWEEN ? AND ?"

SITUATIONS = ("shops ask", "open orders", "last week")
ROUNDS_PER_SITUATION = 200
USUAL = 0.9
"""The share of the queries of a situation that are of its own kind; the others are of a random kind."""


class Service(NamedTuple):
    """The database, and the queries that it is asked."""

    database: sqlite3.Connection
    queries: list[tuple[int, int, int, int]]
    """The customer, the status, the first day and the last day of the query of every round."""

    def close(self) -> None:
        self.database.close()


def prepare(seed: int) -> Service:
    """Fill a database, and draw the query of every round."""
    rng = random.Random(seed)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (customer INTEGER, status INTEGER, day INTEGER, amount REAL, note TEXT)")
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", (_order(rng) for _ in range(N_ORDERS)))
    for column in ("customer", "status", "day"):
        database.execute(f"CREATE INDEX by_{column} ON orders ({column})")
    database.execute("ANALYZE")  # the statistics that the planner uses
    service = Service(database, [])
    for t in range(ROUNDS_PER_SITUATION * len(SITUATIONS)):
        usual = rng.random() < USUAL
        service.queries.append(_query(rng, situation(service, t) if usual else rng.choice(SITUATIONS)))
    return service


def _order(rng: random.Random) -> tuple[int, int, int, float, str]:
    customer = WHOLESALER if rng.random() < OF_WHOLESALER else rng.randint(1, N_SHOPS)
    status = OPEN if rng.random() < IS_OPEN else DELIVERED
    return customer, status, rng.randrange(N_DAYS), round(rng.expovariate(0.01), 2), "-" * 60


def _query(rng: random.Random, kind: str) -> tuple[int, int, int, int]:
    if kind == "shops ask":
        return rng.randint(1, N_SHOPS), DELIVERED, 0, N_DAYS - 1
    if kind == "open orders":
        return WHOLESALER, OPEN, 0, N_DAYS - 1
    first = rng.randrange(N_DAYS - WEEK)
    return WHOLESALER, DELIVERED, first, first + WEEK - 1


def measure(service: Service, t: int, plan: str) -> float:
    """Return the milliseconds of processor time that the query of the round takes with a plan."""
    query = QUERY.format(plan=PLANS[plan])
    start = time.process_time()
    service.database.execute(query, service.queries[t]).fetchall()
    return 1e3 * (time.process_time() - start)


def situation(service: Service, t: int) -> str:
    """Return which kind of query is usual in round `t`."""
    return SITUATIONS[t // ROUNDS_PER_SITUATION]


def remarks(record: Record) -> str:
    """Say how SQLite's own planner did."""
    totals = dict(zip(record.losses.arms, record.losses.table.sum(axis=0), strict=True))
    planner = float(totals.pop("planner"))
    others = [f"{plan} {amount(float(total))}" for plan, total in totals.items()]
    better = sum(total < planner for total in totals.values())
    return (
        f"SQLite's own planner spent {amount(planner)} milliseconds (the other plans: {', '.join(others)}). Of the "
        f"{len(totals)} plans that it can choose from, {better} did better when used all the time. The planner chooses "
        "a plan before it knows which customer is asked for, by the average number of orders per customer. An average "
        "does not show that one customer has most of the orders. A SQLite that was built to also keep samples of the "
        "values (STAT4) may choose better."
    )


DEMONSTRATION = Demonstration(
    name="query-plans",
    title="Query plans of a database",
    unit="milliseconds",
    arms=tuple(PLANS),
    n_rounds=ROUNDS_PER_SITUATION * len(SITUATIONS),
    prepare=prepare,
    measure=measure,
    situation=situation,
    about=f"""
A database can answer the same query in several ways, its plans: with one index or another, or by reading the whole
table. All plans give the same answer. Which one is fast depends on the data and on the parameters of the query. A
planner chooses by statistics, and they hold averages.

Here a table of {N_ORDERS:,} orders has an index on the customer, one on the status and one on the day. One customer, a
wholesaler, has {OF_WHOLESALER:.0%} of the orders, and {N_SHOPS:,} shops have the rest; {IS_OPEN:.0%} of the orders are
open. The same query is asked over and over: for the number and the sum of a customer's orders with a given status in a
range of days. What it asks for changes twice: first it is all delivered orders of a shop, then the open orders of the
wholesaler, then one week of the wholesaler's delivered orders. In each situation {1.0 - USUAL:.0%} of the
queries are of a random kind. The table and the queries were made up so that a different index is best in each
situation; the times are measured.

For each query, one of {len(PLANS)} plans has to be chosen: SQLite's own planner; one of the three indexes, by
`INDEXED BY`; or no index, by `NOT INDEXED`. The only feedback is how long that plan took. The loss is the processor
time of the query, in milliseconds. The database is in memory, its statistics are up to date, and the learner is not
told when the situation changes.
""",
    remarks=remarks,
)


if __name__ == "__main__":
    main(DEMONSTRATION)
