package dev.boatswain.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A plugin of Spark's ({@code spark.plugins}) that gives boatswain's agent the figures by which Spark on Kubernetes rolls
 * executors; boatswain's {@code roll.metric} names one of them. Without an agent it does nothing.
 *
 * <p>Threads: the tasks' threads count; a thread of its own writes the file.
 */
public final class ExecutorMetrics implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return null;
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new OfExecutor();
    }

    /** What an executor has done so far; times in milliseconds, the others in bytes. */
    record Totals(
            long running,
            long finished,
            long failed,
            long duration,
            long garbageCollection,
            long peakHeap,
            long peakOffHeap,
            long shuffleWritten) {

        /** As the agent reads it. */
        ObjectNode json() {
            long tasks = finished + failed;
            ObjectNode json = new ObjectMapper().createObjectNode().put("busy_slots", running);
            json.putObject("metrics")
                    .put("tasks", running + tasks)
                    .put("failed_tasks", failed)
                    .put("total_duration", duration)
                    .put("average_duration", tasks == 0 ? 0 : duration / tasks)
                    .put("total_gc_time", garbageCollection)
                    .put("peak_jvm_onheap_memory", peakHeap)
                    .put("peak_jvm_offheap_memory", peakOffHeap)
                    .put("total_shuffle_write", shuffleWritten);
            return json;
        }
    }

    private static final class OfExecutor implements ExecutorPlugin {
        private static final Logger LOG = LoggerFactory.getLogger(ExecutorMetrics.class);
        private static final long EVERY_MS = 2_000;

        private final AtomicLong running = new AtomicLong();
        private final AtomicLong finished = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private final AtomicLong duration = new AtomicLong();
        private final AtomicLong shuffleWritten = new AtomicLong();
        private final ThreadLocal<Long> began = new ThreadLocal<>();
        private ScheduledExecutorService timer;
        private boolean complained;

        @Override
        public void init(PluginContext context, Map<String, String> extraConf) {
            String file = System.getenv("BOATSWAIN_STATUS_FILE");
            if (file == null) {
                return;
            }
            timer = Executors.newSingleThreadScheduledExecutor(runnable -> {
                Thread made = new Thread(runnable, "boatswain-metrics");
                made.setDaemon(true);
                return made;
            });
            timer.scheduleWithFixedDelay(() -> write(Path.of(file)), 0, EVERY_MS, TimeUnit.MILLISECONDS);
        }

        @Override
        public void onTaskStart() {
            running.incrementAndGet();
            // When a task has succeeded its context is gone.
            TaskContext.get().addTaskCompletionListener(new TaskCompletionListener() {
                @Override
                public void onTaskCompletion(TaskContext task) {
                    TaskMetrics metrics = task.taskMetrics();
                    shuffleWritten.addAndGet(metrics.shuffleWriteMetrics().bytesWritten());
                }
            });
            began.set(System.nanoTime());
        }

        @Override
        public void onTaskSucceeded() {
            ended(finished);
        }

        @Override
        public void onTaskFailed(TaskFailedReason reason) {
            ended(failed);
        }

        private void ended(AtomicLong how) {
            how.incrementAndGet();
            running.decrementAndGet();
            duration.addAndGet((System.nanoTime() - began.get()) / 1_000_000);
        }

        @Override
        public void shutdown() {
            if (timer != null) {
                timer.shutdownNow();
            }
        }

        /** The agent never sees half of it. */
        private void write(Path file) {
            Path beside = file.resolveSibling(file.getFileName() + ".new");
            try {
                Files.writeString(beside, totals().json().toString());
                Files.move(beside, file, StandardCopyOption.ATOMIC_MOVE);
                complained = false;
            } catch (IOException e) {
                if (!complained) {
                    LOG.warn("boatswain's agent gets no metrics: {} cannot be written: {}", file, e.toString());
                }
                complained = true;
            }
        }

        private Totals totals() {
            return new Totals(
                    running.get(),
                    finished.get(),
                    failed.get(),
                    duration.get(),
                    ManagementFactory.getGarbageCollectorMXBeans().stream()
                            .mapToLong(GarbageCollectorMXBean::getCollectionTime).sum(),
                    peak(MemoryType.HEAP),
                    peak(MemoryType.NON_HEAP),
                    shuffleWritten.get());
        }

        private static long peak(MemoryType type) {
            return ManagementFactory.getMemoryPoolMXBeans().stream()
                    .filter(pool -> pool.getType() == type)
                    .map(MemoryPoolMXBean::getPeakUsage)
                    .mapToLong(usage -> usage == null ? 0 : usage.getUsed()).sum();
        }
    }
}
