"""Counts the words of a file, with a module, a file and an archive of the submitter's: cluster_mode.py.

    cluster_mode_app.py SECONDS     that many for each of the 32 parts
"""

import os
import sys
import time

from pyspark import SparkFiles
from pyspark.sql import SparkSession

import splitting


def words(lines):
    time.sleep(SECONDS)
    assert os.environ["MODE"] == "count"
    with open(SparkFiles.get("stop/words.txt"), encoding="utf-8") as file:
        stop = file.read().split()
    for line in lines:
        yield from (word for word in splitting.split(line) if word not in stop)


SECONDS = float(sys.argv[1])
session = SparkSession.builder.getOrCreate()
assert session.sparkContext.appName == "Count words"
assert session.sparkContext._jvm.System.getProperty("who") == "driver"
with open(SparkFiles.get("text.txt"), encoding="utf-8") as text:
    lines = text.read().splitlines()
found = session.sparkContext.parallelize(lines, 32).mapPartitions(words)
counts = found.map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other, 4)
for word, count in sorted(counts.collect()):
    print(f"{count:6} {word}")
session.stop()
