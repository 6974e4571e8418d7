"""A job whose Python workers need far more memory than their executors have at first.

Says how much each of them had in the end.
"""

import json
import time

from pyspark.sql import SparkSession

WORKERS = 2
MIB = 1 << 20
NEEDED = 640 * MIB
STEP = 8 * MIB


def grow(numbers):
    """By 16 MiB a second: what grows faster than executors are resized is killed."""
    kept = []
    while len(kept) * STEP < NEEDED:
        kept.append(b"x" * STEP)
        time.sleep(0.5)
    yield sum(len(step) for step in kept) + sum(numbers)


context = SparkSession.builder.appName("Growth").getOrCreate().sparkContext
# Numbers of which each worker has one.
grown = context.parallelize(range(WORKERS), WORKERS).mapPartitions(grow).collect()
print("grown", json.dumps(sorted(grown)), flush=True)
assert sorted(grown) == [NEEDED + number for number in range(WORKERS)]
