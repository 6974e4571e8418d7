#!/usr/bin/env bash
set -euo pipefail
export NAMESPACE="${NAMESPACE:-etl}"
# Submits the nightly job.
exec "$SPARK_HOME/bin/spark-submit" \
  --master "k8s://$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}')" \
  --conf "spark.kubernetes.namespace=$NAMESPACE" \
  --conf spark.kubernetes.container.image="registry.example/etl:${TAG}" \
  --conf 'spark.executorEnv.GREETING=good evening' \
  --num-executors 12 --executor-cores 4 --executor-memory 8G \
  s3a://code/job.py --date "$1"
