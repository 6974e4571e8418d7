spark-submit --class com.example.Main --supervise \
  --conf spark.dynamicAllocation.enabled=true --conf spark.dynamicAllocation.initialExecutors=4 \
  --conf spark.dynamicAllocation.minExecutors=2 --conf spark.dynamicAllocation.maxExecutors=40 \
  --conf spark.kubernetes.container.image=main:2 --conf spark.kubernetes.executor.podTemplateFile=/opt/executor.yaml \
  main.jar
