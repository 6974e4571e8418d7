spark-submit --master yarn --queue etl --num-executors=20 --executor-memory=6g --executor-cores=3 \
  --driver-memory 4g --driver-cores 2 --jars a.jar,b.jar --files log4j.properties --py-files deps.zip \
  --conf spark.yarn.executor.memoryOverhead=1024 --conf spark.sql.shuffle.partitions=600 main.py
