"""Counts the words of text files: an ordinary Spark application, which knows nothing of boatswain.

    spark-submit --master spark+boatswain://local … word_count.py FILE…
"""

import re
import sys
import time

from pyspark.sql import SparkSession

# Seconds that a piece of text takes, so that there is time to look, and to kill executors.
EFFORT = 0.5


def slowly(lines):
    time.sleep(EFFORT)
    return lines


session = SparkSession.builder.appName("Word count").getOrCreate()
lines = [line for name in sys.argv[1:] for line in open(name, encoding="utf-8")]
words = session.sparkContext.parallelize(lines, 64).mapPartitions(slowly).flatMap(lambda line: re.findall("[a-z]+", line.lower()))
counts = words.map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other, 8)
for word, count in counts.takeOrdered(10, key=lambda pair: (-pair[1], pair[0])):
    print(f"{count:6} {word}")
session.stop()
