pyspark --master k8s://https://api:6443 --conf spark.kubernetes.container.image=py:1 \
  --packages io.delta:delta-spark_2.13:3.2.0 --repositories https://maven.example \
  --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --verbose
