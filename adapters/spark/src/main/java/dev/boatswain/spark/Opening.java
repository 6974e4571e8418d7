package dev.boatswain.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;

/** The first request, which is awaited: an application that cannot get executors fails at its start. */
final class Opening {
    private static final long PAUSE_MS = 500;
    private final Api api;
    private final Duration most;

    Opening(Api api, Duration most) {
        this.api = api;
        this.most = most;
    }

    /** Adds a profile; fails with IllegalStateException if boatswain refuses it or does not answer in time. */
    void profile(String name, ObjectNode body) {
        long until = System.nanoTime() + most.toNanos();
        while (true) {
            try {
                api.call("PUT", "/v1/profiles/" + name, body);
                return;
            } catch (ApiException e) {
                if (!e.passingAtStart() || System.nanoTime() > until) {
                    throw new IllegalStateException(e.getMessage(), e);
                }
            }
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while boatswain was awaited", e);
            }
        }
    }
}
