package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.scheduler.ExecutorDecommission;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import org.apache.spark.scheduler.cluster.SchedulerBackendUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.concurrent.Future;
import scala.concurrent.Future$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's scheduler backend whose executors boatswain keeps alive. Spark says how many and which to kill; boatswain says
 * how each one ended.
 *
 * <p>Threads: Spark's threads call the overridden methods, some of them with Spark's locks held; these methods leave a
 * task to {@link Sender} and return. The thread of {@link EventReader} reports ends and drains to Spark, and may wait for
 * Spark's locks. The timer's thread gives up executors whose end boatswain does not explain. None of the adapter's
 * threads holds a lock while it calls Spark.
 */
final class BoatswainBackend extends CoarseGrainedSchedulerBackend implements EventReader.Listener {
    private static final Logger LOG = LoggerFactory.getLogger(BoatswainBackend.class);
    private static final double REGISTERED_RATIO = 0.8;

    private final TaskSchedulerImpl scheduler;
    private final SparkContext sc;
    private final Settings settings;
    private final Profiles profiles;
    private final int initialExecutors;
    private final ScheduledExecutorService timer;
    /** Ids of executors that have ended. */
    private final Set<String> ended = ConcurrentHashMap.newKeySet();
    /** Ids of executors that are to terminate. */
    private final Set<String> leaving = ConcurrentHashMap.newKeySet();
    /** Ids of our executors that live, as far as the events say. Only the reader's thread changes it, until stop(). */
    private final Set<Long> living = ConcurrentHashMap.newKeySet();
    /** The executors that were registered before the reader connected. Belongs to the reader's thread. */
    private List<String> registeredBefore = List.of();

    private Optional<LocalBoatswain> local = Optional.empty();
    private Api api;
    private Sender sender;
    private SecondLook secondLook;
    private EventReader events;
    private volatile boolean stopping;
    /** Why the application has failed; null: it has not. */
    private volatile String failure;

    BoatswainBackend(TaskSchedulerImpl scheduler, SparkContext sc, Settings settings) {
        super(scheduler, sc.env().rpcEnv());
        this.scheduler = scheduler;
        this.sc = sc;
        this.settings = settings;
        profiles = new Profiles(sc, settings, applicationId());
        initialExecutors = SchedulerBackendUtils.getInitialTargetExecutorNumber(sc.conf(), 2);
        timer = Executors.newSingleThreadScheduledExecutor(runnable -> {
            Thread made = new Thread(runnable, "boatswain-timer");
            made.setDaemon(true);
            return made;
        });
    }

    /** Fails if boatswain cannot be reached or refuses the profile; then Spark stops the context, and this backend. */
    @Override
    public void start() {
        super.start();
        if (settings.local()) {
            local = Optional.of(LocalBoatswain.start(settings));
            api = local.get().api(settings.connectTimeout());
            local.get().onUnexpectedEnd(code -> fail("the local boatswain has ended with " + code));
        } else {
            api = new Api(settings.api().orElseThrow(), settings.tokenFile().orElseThrow(), settings.caFile());
        }
        ResourceProfile profile = sc.resourceProfileManager().defaultResourceProfile();
        new Opening(api, settings.connectTimeout()).profile(profiles.name(profile), profiles.body(profile));
        sender = new Sender(api, settings.decommissionWithin(), settings.callEvery());
        add(profile);
        sender.totals(Map.of(profiles.name(profile), initialExecutors));
        secondLook = new SecondLook(api, SecondLook.AFTER);
        events = new EventReader(api, this);
        events.start();
    }

    private void add(ResourceProfile profile) {
        String name = profiles.name(profile);
        sender.profile(name, profiles.body(profile));
        int spares = ExecutorProfile.spares(settings);
        if (spares > 0) {
            sender.spares(name, profiles.body(profile), spares);
        }
    }

    @Override
    public void stop() {
        if (stopping) {
            return;
        }
        stopping = true;
        if (sender != null) {
            // Before the executors stop: boatswain would replace them.
            sender.totals(Map.of());
            awaitLast("that no executors are wanted any more: it may replace those that stop now");
        }
        super.stop();
        if (events != null) {
            events.close();
        }
        if (sender != null) {
            sender.kill(List.copyOf(living));
            sender.removeProfiles();
            awaitLast("to remove the profiles of this application");
            sender.close();
        }
        timer.shutdownNow();
        local.ifPresent(started -> started.stop(Optional.ofNullable(api)));
    }

    private void awaitLast(String what) {
        if (!sender.awaitSent(settings.lastRequests())) {
            LOG.warn("boatswain could not be told within {} s {}. It removes them when nobody has renewed them for their ttl",
                    settings.lastRequests().toSeconds(), what);
        }
    }

    @Override
    public double minRegisteredRatio() {
        boolean set = conf().contains("spark.scheduler.minRegisteredResourcesRatio");
        return set ? super.minRegisteredRatio() : REGISTERED_RATIO;
    }

    /** Fails with the reason if boatswain gives no executors: the SparkContext that waits for them fails with it. */
    @Override
    public boolean sufficientResourcesRegistered() {
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
        return totalRegisteredExecutors().get() >= initialExecutors * minRegisteredRatio();
    }

    @Override
    public Future<Object> doRequestTotalExecutors(scala.collection.immutable.Map<ResourceProfile, Object> totals) {
        Map<String, Integer> wanted = new HashMap<>();
        CollectionConverters.asJava(totals).forEach((profile, count) -> {
            add(profile);
            wanted.put(profiles.name(profile), (Integer) count);
        });
        sender.totals(wanted);
        return Future$.MODULE$.successful(true);
    }

    @Override
    public Future<Object> doKillExecutors(Seq<String> ids) {
        sender.kill(SparkValues.numbers(CollectionConverters.asJava(ids)));
        return Future$.MODULE$.successful(true);
    }

    @Override
    public Seq<String> decommissionExecutors(
            Tuple2<String, ExecutorDecommissionInfo>[] wanted, boolean adjustTarget, boolean byExecutor) {
        Seq<String> accepted = super.decommissionExecutors(wanted, adjustTarget, byExecutor);
        sender.decommission(SparkValues.numbers(CollectionConverters.asJava(accepted)));
        return accepted;
    }

    /** Refuses registrations that come too late: of executors that have ended or are about to. */
    @Override
    public boolean isExecutorExcluded(String id, String host) {
        return ended.contains(id) || leaving.contains(id);
    }

    @Override
    public DriverEndpoint createDriverEndpoint() {
        return new Endpoint();
    }

    /** Runs inside the constructor of the base class: it uses no field of the backend before an executor disconnects. */
    private final class Endpoint extends DriverEndpoint {
        /** The connection breaks some milliseconds before boatswain knows why: the executor's tasks wait for the reason. */
        @Override
        public void onDisconnected(RpcAddress address) {
            Option<String> found = addressToExecutorId().get(address);
            if (found.isEmpty() || stopping) {
                return;
            }
            String id = found.get();
            if (isDraining(id)) {
                lost(id, new ExecutorDecommission(Option.empty(), "it has finished and exited"));
            } else if (disableExecutor(id)) {
                timer.schedule(() -> giveUp(id), settings.lossReasonTimeout().toMillis(), TimeUnit.MILLISECONDS);
            }
        }
    }

    /** Also one whose end came just before it was registered, and therefore was not reported to Spark. */
    private void giveUp(String id) {
        if (isRegistered(id) && !stopping) {
            ended.add(id);
            removeExecutor(id, Losses.unknown("its connection was lost, and boatswain has not said why for "
                    + settings.lossReasonTimeout().toSeconds() + " s"));
            sender.kill(SparkValues.numbers(List.of(id)));
        }
    }

    private synchronized boolean isDraining(String id) {
        return executorsPendingDecommission().contains(id);
    }

    private boolean isRegistered(String id) {
        return getExecutorResourceProfileId(id) != ResourceProfile.UNKNOWN_RESOURCE_PROFILE_ID();
    }

    /** Spark would report a second removal too: an executor that has finished draining tells Spark itself. */
    private void lost(String id, ExecutorLossReason reason) {
        if (ended.add(id) && isRegistered(id)) {
            removeExecutor(id, reason);
        }
        leaving.remove(id);
    }

    @Override
    public void connecting() {
        registeredBefore = List.copyOf(CollectionConverters.asJava(getExecutorIds()));
    }

    @Override
    public void living(JsonNode event) throws ApiException {
        event.path("failed").properties().forEach(profile -> {
            if (profiles.has(profile.getKey())) {
                failed(profile.getKey(), profile.getValue().asText());
            }
        });
        sender.repeat();
        Map<String, ExecutorLossReason> ended = Losses.ofAll(event.path("ended"));
        Set<Long> now = ours(event.path("executors"));
        Set<Long> unexplained = new HashSet<>();
        for (String id : registeredBefore) {
            if (!now.contains(Long.parseLong(id)) && !ended.containsKey(id)) {
                unexplained.add(Long.parseLong(id));
            }
        }
        if (!unexplained.isEmpty()) {
            LOG.info("boatswain does not mention {} executors that are registered here: it is asked again", unexplained.size());
            now.addAll(ours(secondLook.found(unexplained)));
        }
        living.retainAll(now);
        living.addAll(now);
        for (String id : registeredBefore) {
            if (!now.contains(Long.parseLong(id))) {
                lost(id, ended.getOrDefault(id, Losses.unknown("boatswain does not know how it ended")));
            }
        }
    }

    /** The executors of this application; those that are to terminate are drained. */
    private Set<Long> ours(Iterable<JsonNode> executors) {
        Set<Long> ours = new HashSet<>();
        for (JsonNode executor : executors) {
            long id = executor.path("executor").asLong();
            if (profiles.has(executor.path("profile").asText())) {
                ours.add(id);
                if (executor.path("state").asText().equals("leaving")) {
                    drain(id, "it is to terminate");
                }
            }
        }
        return ours;
    }

    @Override
    public void event(JsonNode event) {
        String name = event.path("event").asText();
        long id = event.path("executor").asLong();
        if (event.has("profile") && !profiles.has(event.path("profile").asText())) {
            return;
        }
        switch (name) {
            case "began" -> sender.repeat();
            case "requested", "adopted", "promoted" -> living.add(id);
            case "not-created" -> living.remove(id);
            case "leaving" -> drain(id, event.path("why").asText());
            case "ended" -> {
                living.remove(id);
                lost(String.valueOf(id), Losses.of(event));
            }
            case "paused" -> LOG.warn("boatswain requests no executors of {} for now: {}",
                    event.path("profile").asText(), event.path("why").asText());
            case "removed" -> sender.repeat();
            case "failed" -> failed(event.path("profile").asText(), event.path("why").asText());
            case "held" -> LOG.warn("boatswain holds the application: jobs wait until it is resumed");
            case "ending" -> fail("boatswain has ended the application, with exit code "
                    + event.path("exit_code").asInt() + ": "
                    + event.path("why").asText("its log and `boatswain status` say why"));
            default -> LOG.debug("{}", event);
        }
    }

    /** An executor that is to terminate, and not because Spark asked: it gets no new tasks, and its blocks move. */
    private void drain(long number, String why) {
        String id = String.valueOf(number);
        leaving.add(id);
        if (!stopping && isExecutorActive(id)) {
            super.decommissionExecutors(SparkValues.decommissioning(id, "boatswain: " + why), false, false);
        }
    }

    /** No executors of it come any more, so jobs would wait for ever. Others of boatswain's go on. */
    private void failed(String profile, String why) {
        fail("the executors of profile " + profile + " fail too often, and boatswain requests no more: " + why);
    }

    /** As Spark's standalone backend when its application was removed: running jobs fail with this message. */
    private void fail(String message) {
        if (!stopping) {
            LOG.error("{}", message);
            failure = message;
            try {
                scheduler.error(message);
            } catch (Exception e) {
                // Spark throws this message if no job runs; the context is stopped all the same.
                LOG.debug("no job runs", e);
            }
            sc.stopInNewThread();
        }
    }
}
