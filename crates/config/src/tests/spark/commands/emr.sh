aws emr-containers start-job-run \
  --virtual-cluster-id $VIRTUAL_CLUSTER_ID --name word_count \
  --execution-role-arn $ROLE --release-label emr-6.5.0-latest \
  --job-driver '{
    "sparkSubmitJobDriver": {
      "entryPoint": "s3://'${BUCKET}'/wordcount.py", "entryPointArguments": ["s3://reviews/parquet/"],
      "sparkSubmitParameters": "--conf spark.executor.memory=4G --conf spark.executor.cores=1"}}' \
  --configuration-overrides='{
    "applicationConfiguration": [
      {"classification": "spark-defaults",
       "properties": {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "30",
                      "spark.kubernetes.container.image": "etl:3"}}]}'
