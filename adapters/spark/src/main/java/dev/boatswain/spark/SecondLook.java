package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Asks boatswain again for executors that the first message of a stream of events lacks and does not explain. A driver that
 * has just started, or one of an earlier release, may not know them yet, and whom Spark has removed it does not take back.
 */
final class SecondLook {
    static final Duration AFTER = Duration.ofSeconds(1);

    private final Api api;
    private final Duration after;

    SecondLook(Api api, Duration after) {
        this.api = api;
        this.after = after;
    }

    /** Those of the missing executors that are alive nevertheless; fails if boatswain cannot say that now. */
    List<JsonNode> found(Set<Long> missing) throws ApiException {
        try {
            Thread.sleep(after.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ApiException(0, "interrupted while boatswain was to be asked again", e);
        }
        // In this order: what is listed after the adoption is all that lives.
        if (!api.get("/v1/status").path("adopted").asBoolean(false)) {
            throw new ApiException(503, "boatswain at " + api.base() + " has not adopted its executors yet", null);
        }
        List<JsonNode> found = new ArrayList<>();
        for (JsonNode executor : api.get("/v1/executors").path("executors")) {
            if (missing.contains(executor.path("executor").asLong())) {
                found.add(executor);
            }
        }
        return found;
    }
}
