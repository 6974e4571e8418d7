package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ThreadLocalRandom;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads boatswain's stream of events and continues after the last one when the connection was lost, for ever.
 *
 * <p>Threads: one, its own; the listener is called by it alone. {@link #close} may be called by any thread.
 */
final class EventReader implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(EventReader.class);
    private static final long SHORTEST_MS = 200;
    private static final long LONGEST_MS = 10_000;

    /** What happens to the events. An exception is logged, and the next event follows. */
    interface Listener {
        /** Before a connection is opened. */
        void connecting();

        /**
         * All executors that are alive: at the beginning, and where events were missed. If it fails with an ApiException,
         * the message counts as not read, and the stream is opened again.
         */
        void living(JsonNode living) throws ApiException;

        void event(JsonNode event);
    }

    private final Api api;
    private final Listener listener;
    private final Thread thread;
    private String last;
    private long pause = SHORTEST_MS;
    private boolean reportedAway;
    private volatile boolean closed;

    EventReader(Api api, Listener listener) {
        this.api = api;
        this.listener = listener;
        thread = new Thread(this::run, "boatswain-events");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Returns at once. A thread that is reading ends with the next line: boatswain sends a comment each 15 s. */
    @Override
    public void close() {
        closed = true;
        thread.interrupt();
    }

    private void run() {
        while (!closed) {
            try {
                listener.connecting();
                try (InputStream stream = api.events(last)) {
                    readAll(new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8)));
                }
                away("boatswain closed the stream of events");
            } catch (ApiException e) {
                if (e.status() == 400) {
                    last = null;
                }
                away(e.getMessage());
            } catch (IOException e) {
                away("the stream of events broke: " + e);
            } catch (RuntimeException e) {
                LOG.warn("boatswain's events cannot be followed at the moment", e);
            }
            sleep();
        }
    }

    private void away(String why) {
        if (closed || reportedAway) {
            return;
        }
        reportedAway = true;
        LOG.warn("boatswain is away; jobs go on with the executors that are there ({})", why);
    }

    private void readAll(BufferedReader lines) throws IOException, ApiException {
        String id = null;
        StringBuilder data = new StringBuilder();
        for (String line = lines.readLine(); line != null && !closed; line = lines.readLine()) {
            if (line.startsWith("id:")) {
                id = line.substring(3).strip();
            } else if (line.startsWith("data:")) {
                data.append(line.substring(5).strip()).append('\n');
            } else if (line.isEmpty() && data.length() > 0) {
                handle(data.toString());
                last = id != null ? id : last;
                data.setLength(0);
            }
        }
    }

    private void handle(String text) throws IOException, ApiException {
        JsonNode event = Api.JSON.readTree(text);
        if (reportedAway) {
            LOG.warn("boatswain is back");
            reportedAway = false;
        }
        pause = SHORTEST_MS;
        try {
            if (event.path("event").asText().equals("living")) {
                listener.living(event);
            } else {
                listener.event(event);
            }
        } catch (RuntimeException e) {
            LOG.warn("an event of boatswain could not be handled: {}", text.strip(), e);
        }
    }

    private void sleep() {
        if (closed) {
            return;
        }
        try {
            Thread.sleep(pause / 2 + ThreadLocalRandom.current().nextLong(pause));
        } catch (InterruptedException e) {
            // Only close() interrupts; the loop ends.
        }
        pause = Math.min(2 * pause, LONGEST_MS);
    }
}
