cd /opt/job && spark-submit --properties-file conf/prod.conf --conf spark.executor.instances=9 \
  --conf spark.kubernetes.container.image=job:7 job.py
