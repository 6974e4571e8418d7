if [ "$MODE" = full ]; then
  spark-submit --conf spark.executor.instances=30 --conf spark.kubernetes.container.image=e:1 full.py
else
  spark-submit --conf spark.executor.instances=3 --conf spark.kubernetes.container.image=e:1 part.py
fi
