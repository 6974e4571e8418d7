package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.ExecutorProcessLost;
import scala.Option;

/** Why an executor ended, in Spark's terms. Pure. */
final class Losses {
    private Losses() {}

    /**
     * From an event {@code ended}. Running tasks count as failed attempts ({@code spark.task.maxFailures}) only if the
     * application caused the end: an OOM does, an eviction does not. Exit code 0 is no failure of a task either.
     */
    static ExecutorLossReason of(JsonNode ended) {
        int code = ended.path("exit_code").asInt(-1);
        boolean byApplication = ended.path("by_application").asBoolean(false) && code != 0;
        return new ExecutorExited(code, byApplication, text(ended));
    }

    /** By executor, from events of which some are {@code ended}. */
    static Map<String, ExecutorLossReason> ofAll(JsonNode events) {
        Map<String, ExecutorLossReason> reasons = new HashMap<>();
        for (JsonNode event : events) {
            if (event.path("event").asText().equals("ended")) {
                reasons.put(event.path("executor").asText(), of(event));
            }
        }
        return reasons;
    }

    /** An end without a known reason does not count as a failure of tasks. */
    static ExecutorLossReason unknown(String message) {
        return new ExecutorProcessLost(message, Option.empty(), false);
    }

    private static String text(JsonNode ended) {
        String reason = ended.path("reason").asText("Unknown");
        String why = ended.path("why").asText("");
        return why.isEmpty() ? reason : reason + ": " + why;
    }
}
