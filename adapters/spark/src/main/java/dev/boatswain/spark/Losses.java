package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
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

    /** From what boatswain knows of an executor (GET /v1/executors/ID); null while the executor lives. */
    static ExecutorLossReason ofHistory(JsonNode history) {
        for (JsonNode event : history.path("events")) {
            if (event.path("event").asText().equals("ended")) {
                return of(event);
            }
        }
        return history.path("now").isObject() ? null : unknown("boatswain does not know how it ended");
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
