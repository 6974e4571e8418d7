./bin/spark-submit \
    --master k8s://https://10.0.0.1:6443 \
    --deploy-mode cluster \
    --name spark-pi \
    --class org.apache.spark.examples.SparkPi \
    --conf spark.executor.instances=5 \
    --conf spark.kubernetes.container.image=apache/spark:4.0.0 \
    local:///opt/spark/examples/jars/spark-examples.jar 1000
