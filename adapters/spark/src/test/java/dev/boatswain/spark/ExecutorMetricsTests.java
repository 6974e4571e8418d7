package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;

final class ExecutorMetricsTests {
    private ExecutorMetricsTests() {}

    static void areThoseBySparkOnKubernetesRolls() {
        JsonNode said = new ExecutorMetrics.Totals(2, 3, 1, 400, 7, 1 << 20, 1 << 10, 99).json();
        Check.equal(said.toString(), "{\"busy_slots\":2,\"metrics\":{\"tasks\":6,\"failed_tasks\":1,\"total_duration\":400,"
                + "\"average_duration\":100,\"total_gc_time\":7,\"peak_jvm_onheap_memory\":1048576,"
                + "\"peak_jvm_offheap_memory\":1024,\"total_shuffle_write\":99}}");
    }

    static void anExecutorWithoutATaskHasNoAverage() {
        JsonNode said = new ExecutorMetrics.Totals(0, 0, 0, 0, 0, 0, 0, 0).json();
        Check.equal(said.path("metrics").path("average_duration").asLong(-1), 0L);
    }
}
