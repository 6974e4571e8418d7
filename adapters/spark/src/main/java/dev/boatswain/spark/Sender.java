package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends to boatswain what Spark wants: profiles, then the newest totals, then kills and decommissionings, then removals of
 * profiles. A request that gets no answer is repeated for ever, with a growing pause. Older totals that were not sent are
 * forgotten.
 *
 * <p>Threads: one, its own, has all the state. The public methods hand it a task and return at once, so that Spark's
 * threads can call them while they hold Spark's locks; only {@link #awaitSent} waits.
 */
final class Sender implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Sender.class);
    private static final long SHORTEST_MS = 200;
    private static final long LONGEST_MS = 10_000;
    /** What boatswain accepts as a target. */
    private static final int HIGHEST_TARGET = 100_000;
    /** How the names of profiles end whose executors are spares. */
    static final String SPARES = "-spares";

    private final Api api;
    private final String decommissionWithin;
    private final ScheduledThreadPoolExecutor thread;

    // All of these belong to the thread.
    private final Map<String, ObjectNode> profiles = new TreeMap<>();
    private final Map<String, Integer> spares = new TreeMap<>();
    private final TreeSet<String> unsentProfiles = new TreeSet<>();
    private final TreeSet<String> refused = new TreeSet<>();
    private Map<String, Integer> totals = new TreeMap<>();
    private boolean totalsUnsent;
    private final TreeSet<Long> kills = new TreeSet<>();
    private final TreeSet<Long> decommissions = new TreeSet<>();
    private final TreeSet<String> removals = new TreeSet<>();
    private final List<CompletableFuture<Void>> waiting = new ArrayList<>();
    private long pause = SHORTEST_MS;
    private boolean scheduled;

    Sender(Api api, Duration decommissionWithin, Duration callEvery) {
        this.api = api;
        this.decommissionWithin = decommissionWithin.toMillis() + "ms";
        thread = new ScheduledThreadPoolExecutor(1, runnable -> {
            Thread made = new Thread(runnable, "boatswain-sender");
            made.setDaemon(true);
            return made;
        });
        thread.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy());
        long every = callEvery.toMillis();
        thread.scheduleWithFixedDelay(this::renew, every, every, TimeUnit.MILLISECONDS);
    }

    /** Adds a profile, unless one of this name was added before. */
    void profile(String name, ObjectNode body) {
        change(() -> {
            if (!refused.contains(name) && profiles.putIfAbsent(name, body) == null) {
                unsentProfiles.add(name);
            }
        });
    }

    /** Adds the profile of the spares of another one, which is like it. So many are wanted as long as executors of it are. */
    void spares(String of, ObjectNode body, int count) {
        String name = of + SPARES;
        profile(name, body);
        change(() -> spares.put(name, count));
    }

    private int wanted(String name, Map<String, Integer> newest) {
        Integer count = spares.get(name);
        if (count == null) {
            return Math.min(newest.getOrDefault(name, 0), HIGHEST_TARGET);
        }
        String of = name.substring(0, name.length() - SPARES.length());
        return newest.getOrDefault(of, 0) > 0 ? Math.min(count, HIGHEST_TARGET) : 0;
    }

    /** How many executors of each profile are wanted from now on; none of a profile that is missing. */
    void totals(Map<String, Integer> newest) {
        change(() -> {
            Map<String, Integer> wanted = new TreeMap<>();
            // Without a profile that was refused: boatswain takes all targets or none.
            profiles.keySet().forEach(name -> wanted.put(name, wanted(name, newest)));
            if (!wanted.equals(totals)) {
                totals = wanted;
                totalsUnsent = true;
            }
        });
    }

    /** Kills executors, busy ones too. The totals stay: Spark sets them itself. */
    void kill(Collection<Long> ids) {
        change(() -> kills.addAll(ids));
    }

    void decommission(Collection<Long> ids) {
        change(() -> decommissions.addAll(ids));
    }

    /** Removes all profiles, after everything else was sent: boatswain keeps no more than 32. */
    void removeProfiles() {
        change(() -> {
            removals.addAll(profiles.keySet());
            profiles.clear();
            unsentProfiles.clear();
            totals.clear();
            totalsUnsent = false;
        });
    }

    /** Sends profiles and totals again: another boatswain may have taken over, or an operator changed a target. */
    void repeat() {
        change(() -> {
            unsentProfiles.addAll(profiles.keySet());
            totalsUnsent = !totals.isEmpty();
        });
    }

    /** Waits until everything that was asked for so far has been sent; returns whether it was. */
    boolean awaitSent(Duration most) {
        CompletableFuture<Void> sent = new CompletableFuture<>();
        change(() -> waiting.add(sent));
        try {
            sent.get(most.toMillis(), TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException | ExecutionException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    @Override
    public void close() {
        thread.shutdownNow();
    }

    private void change(Runnable change) {
        thread.execute(() -> {
            change.run();
            schedule(0);
        });
    }

    private void schedule(long delayMs) {
        if (!scheduled) {
            scheduled = true;
            thread.schedule(this::send, delayMs, TimeUnit.MILLISECONDS);
        }
    }

    /** Sends one request; the changes that arrived meanwhile come before the next. */
    private void send() {
        scheduled = false;
        try {
            if (sendNext()) {
                pause = SHORTEST_MS;
                schedule(0);
            } else {
                waiting.forEach(sent -> sent.complete(null));
                waiting.clear();
            }
        } catch (ApiException e) {
            LOG.debug("a request is repeated in {} ms: {}", pause, e.getMessage());
            if (e.status() == 401 && pause == SHORTEST_MS) {
                LOG.error("{}", e.getMessage());
            }
            schedule(pause);
            pause = Math.min(2 * pause, LONGEST_MS);
        } catch (RuntimeException e) {
            LOG.error("a request to boatswain failed and is repeated in {} ms", LONGEST_MS, e);
            schedule(LONGEST_MS);
        }
    }

    private boolean sendNext() throws ApiException {
        if (!unsentProfiles.isEmpty()) {
            String name = unsentProfiles.first();
            if (!accepted("PUT", "/v1/profiles/" + name, profiles.get(name))) {
                refused.add(name);
                profiles.remove(name);
                totals.remove(name);
            }
            unsentProfiles.remove(name);
        } else if (totalsUnsent) {
            ObjectNode body = Api.JSON.createObjectNode();
            ObjectNode targets = body.putObject("targets");
            totals.forEach(targets::put);
            accepted("PUT", "/v1/targets", body);
            totalsUnsent = false;
        } else if (!kills.isEmpty()) {
            accepted("POST", "/v1/executors/kill", ids(kills).put("force", true).put("replace", true));
            kills.clear();
        } else if (!decommissions.isEmpty()) {
            ObjectNode body = ids(decommissions).put("replace", true).put("within", decommissionWithin);
            accepted("POST", "/v1/executors/decommission", body);
            decommissions.clear();
        } else if (!removals.isEmpty()) {
            accepted("DELETE", "/v1/profiles/" + removals.first(), null);
            removals.pollFirst();
        } else {
            return false;
        }
        return true;
    }

    /** Returns false, and reports, if repeating the request would not help; fails if it would. */
    private boolean accepted(String method, String path, JsonNode body) throws ApiException {
        try {
            api.call(method, path, body);
            return true;
        } catch (ApiException e) {
            if (e.passing()) {
                throw e;
            }
            LOG.error("{}", e.getMessage());
            return false;
        }
    }

    private static ObjectNode ids(Collection<Long> ids) {
        ObjectNode body = Api.JSON.createObjectNode().put("by", "Spark");
        ArrayNode list = body.putArray("executors");
        ids.forEach(list::add);
        return body;
    }

    /** Boatswain removes profiles that nobody renews, and with app.ttl ends an application that makes no calls. */
    private void renew() {
        unsentProfiles.addAll(profiles.keySet());
        schedule(0);
    }
}
