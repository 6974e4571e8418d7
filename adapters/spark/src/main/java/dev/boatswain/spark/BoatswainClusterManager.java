package dev.boatswain.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** Spark finds this class through META-INF/services and asks it for each master URL that Spark itself does not know. */
public final class BoatswainClusterManager implements ExternalClusterManager {
    @Override
    public boolean canCreate(String master) {
        return Settings.isBoatswain(master);
    }

    @Override
    public TaskScheduler createTaskScheduler(SparkContext sc, String master) {
        return new TaskSchedulerImpl(sc);
    }

    @Override
    public SchedulerBackend createSchedulerBackend(SparkContext sc, String master, TaskScheduler scheduler) {
        Settings settings = Settings.of(master, key -> SparkValues.get(sc.conf(), key), System.getenv());
        return new BoatswainBackend((TaskSchedulerImpl) scheduler, sc, settings);
    }

    @Override
    public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
        ((TaskSchedulerImpl) scheduler).initialize(backend);
    }
}
