docker run --rm apache/spark:3.5.1 /opt/spark/bin/spark-submit \
  --master k8s://https://kubernetes.default.svc --name "Word count" \
  --conf spark.kubernetes.container.image=apache/spark:3.5.1 \
  --conf spark.kubernetes.executor.request.cores=0.5 --conf spark.kubernetes.executor.limit.cores=1 \
  local:///opt/word_count.py
