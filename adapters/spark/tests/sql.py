"""Queries in the manner of TPC-H over tables that Spark itself makes, the same in each run."""

import os
import signal

from harness import executor_pids, registered

# Whole numbers only: sums of fractions depend on their order.
TABLES = {
    "customer": "SELECT id AS custkey, id % 25 AS nation, id % 5 AS segment FROM range(0, 3000, 1, 4)",
    "orders": "SELECT id AS orderkey, abs(hash(id)) % 3000 AS custkey, id % 2400 AS day FROM range(0, 30000, 1, 6)",
    "lineitem": """SELECT abs(hash(id, 1)) % 30000 AS orderkey, id % 50 + 1 AS quantity, abs(hash(id, 2)) % 100000 AS price,
        abs(hash(id, 3)) % 11 AS discount, id % 3 AS flag, id % 2500 AS day FROM range(0, 120000, 1, 8)""",
}
QUERIES = [
    """SELECT flag, sum(quantity), sum(price * (100 - discount)), count(*) FROM lineitem WHERE day <= 2400
        GROUP BY flag ORDER BY flag""",
    """SELECT o.orderkey, o.day, sum(l.price * (100 - l.discount)) AS revenue FROM customer c
        JOIN orders o ON c.custkey = o.custkey JOIN lineitem l ON l.orderkey = o.orderkey
        WHERE c.segment = 1 AND o.day < 1200 GROUP BY o.orderkey, o.day ORDER BY revenue DESC, o.orderkey LIMIT 10""",
    """SELECT c.nation, sum(l.price) AS revenue FROM customer c JOIN orders o ON c.custkey = o.custkey
        JOIN lineitem l ON l.orderkey = o.orderkey GROUP BY c.nation ORDER BY revenue DESC, c.nation""",
    """SELECT * FROM (SELECT o.custkey, l.orderkey, sum(l.quantity) AS total,
        rank() OVER (PARTITION BY o.custkey % 10 ORDER BY sum(l.quantity) DESC, l.orderkey) AS place
        FROM orders o JOIN lineitem l ON l.orderkey = o.orderkey GROUP BY o.custkey, l.orderkey)
        WHERE place <= 3 ORDER BY custkey % 10, place""",
]


def session(sc):
    from pyspark.sql import SparkSession

    made = SparkSession(sc)
    for name, query in TABLES.items():
        made.sql(query).createOrReplaceTempView(name)
    return made


def run(made):
    return [[tuple(row) for row in made.sql(query).collect()] for query in QUERIES]


def kill_at_random(sc, chance, stopped, killed):
    """Kills one executor every few seconds, as long as three are registered: JVMs start slowly, and jobs must progress."""
    while not stopped.wait(chance.uniform(1, 5)):
        pids = executor_pids(sc)
        if registered(sc) >= 3:
            number = chance.choice(sorted(pids))
            try:
                os.kill(pids[number], signal.SIGKILL)
                killed.append(number)
            except ProcessLookupError:
                continue
