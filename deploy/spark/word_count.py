"""Counts words: an ordinary Spark application, which knows nothing of boatswain. It takes about half a minute."""

import time

from pyspark.sql import SparkSession

TEXT = ["the quick brown fox", "jumps over the lazy dog"] * 500


def slowly(lines):
    time.sleep(1)
    return lines


session = SparkSession.builder.appName("Word count").getOrCreate()
words = session.sparkContext.parallelize(TEXT, 96).mapPartitions(slowly).flatMap(str.split)
counts = words.map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other, 4)
for word, count in sorted(counts.collect()):
    print(f"{count:6} {word}")
session.stop()
