"""Counts words on Spark in so many tasks (48): once undisturbed, then again and again until /tmp/stop exists.

Says on each line what came out, for run.py, and at the end which executors Spark has lost, and why.
"""

import json
import pathlib
import sys
import time

from pyspark.sql import SparkSession

TEXT = ["the quick brown fox", "jumps over the lazy dog"] * 500
TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 48
EVENTS = pathlib.Path("/tmp/events")
EVENTS.mkdir()


def slowly(lines):
    time.sleep(0.3)
    return lines


def count(context):
    lines = context.parallelize(TEXT, TASKS).mapPartitions(slowly)
    words = lines.flatMap(lambda line: line.split()).map(lambda word: (word, 1))
    return sorted(words.reduceByKey(lambda one, other: one + other, 4).collect())


def here(context):
    """The executors that Spark has registered."""
    ids = context._jsc.sc().getExecutorIds()
    return [ids.apply(number) for number in range(ids.size())]


def lost():
    """Spark's own record of it."""
    (log,) = EVENTS.iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return {event["Executor ID"]: event["Removed Reason"] for event in events if event["Event"] == "SparkListenerExecutorRemoved"}


session = (
    SparkSession.builder.appName("Word count")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", EVENTS.as_uri())
    .config("spark.eventLog.rolling.enabled", "false")
    .config("spark.eventLog.compress", "false")
    .getOrCreate()
)
undisturbed = count(session.sparkContext)
print("undisturbed", json.dumps(undisturbed), flush=True)
while not pathlib.Path("/tmp/stop").exists():
    print("equal" if count(session.sparkContext) == undisturbed else "DIFFERENT", flush=True)
    print("here", json.dumps(here(session.sparkContext)), flush=True)
session.stop()
print("lost", json.dumps(lost()), flush=True)
