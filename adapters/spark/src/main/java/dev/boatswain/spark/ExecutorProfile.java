package dev.boatswain.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A profile of boatswain's for executors of one size: the command and the resources. Pure. */
final class ExecutorProfile {
    private static final String SPARES = "spares";
    private static final List<String> OURS = List.of("executors", "command", "args");
    /** Some calls may be late or lost. */
    private static final int CALLS_IN_TTL = 3;
    private static final long SHORTEST_TTL_MS = 1_000;

    private ExecutorProfile() {}

    /** The size of an executor; memory in MiB: of the heap, and of everything together. */
    record Size(int cores, long heapMiB, long totalMiB, Map<String, Long> resources) {}

    /**
     * What all executors of an application have in common.
     *
     * @param javaOptions may contain {{APP_ID}} and {{EXECUTOR_ID}}, as Spark documents for extraJavaOptions
     * @param driverSparkHome where Spark is on the driver's machine, which executors without an image share
     */
    record Application(
            String appId,
            String driverUrl,
            String user,
            Map<String, String> startupSettings,
            List<String> javaOptions,
            Map<String, String> environment,
            Optional<String> extraClassPath,
            Optional<String> cpuRequest,
            Optional<String> cpuLimit,
            String driverSparkHome,
            String driverJava) {}

    /** Fails with IllegalArgumentException if {@code spark.boatswain.profile} cannot be used. */
    static ObjectNode of(Application app, Settings settings, Size size, int resourceProfile) {
        ObjectNode profile = given(settings);
        settings.image().ifPresent(image -> profile.put("image", image));
        boolean hasImage = profile.has("image");
        String home = settings.sparkHome().orElse(hasImage ? "/opt/spark" : app.driverSparkHome());

        profile.put("executors", 0);
        ifMissing(profile, "ttl", Math.max(CALLS_IN_TTL * settings.callEvery().toMillis(), SHORTEST_TTL_MS) + "ms");
        ArrayNode command = profile.putArray("command");
        start(app, settings, hasImage).forEach(command::add);
        arguments(app, settings, home, size, resourceProfile).forEach(command::add);
        environment(app, settings, home, profile.withObject("/env"));

        ifMissing(profile, "cpu", app.cpuRequest().orElse(String.valueOf(size.cores())));
        app.cpuLimit().ifPresent(limit -> ifMissing(profile, "cpu_limit", limit));
        ifMissing(profile, "memory", size.totalMiB() + "Mi");
        ifMissing(profile, "memory_limit", size.totalMiB() + "Mi");
        if (!size.resources().isEmpty()) {
            ObjectNode resources = profile.withObject("/resources");
            size.resources().forEach(resources::put);
        }
        return profile;
    }

    /** How many executors of each profile are kept ready, whose programs are held back. */
    static int spares(Settings settings) {
        JsonNode spares = read(settings).path(SPARES);
        if (spares.isMissingNode()) {
            return 0;
        }
        if (!spares.canConvertToInt() || spares.asInt() < 0) {
            throw new IllegalArgumentException(Settings.PREFIX + "profile: spares has to be a number of executors");
        }
        return spares.asInt();
    }

    private static ObjectNode given(Settings settings) {
        ObjectNode given = read(settings);
        // They are a profile of their own.
        given.remove(SPARES);
        return given;
    }

    private static ObjectNode read(Settings settings) {
        String key = Settings.PREFIX + "profile";
        JsonNode given;
        try {
            given = Api.JSON.readTree(settings.profile().orElse("{}"));
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(key + " is no JSON: " + e.getOriginalMessage(), e);
        }
        if (!given.isObject()) {
            throw new IllegalArgumentException(key + " has to be a JSON object with keys of a profile of boatswain's");
        }
        for (String ours : OURS) {
            if (given.has(ours)) {
                throw new IllegalArgumentException(key + " must not set " + ours + ": Spark sets it");
            }
        }
        return (ObjectNode) given;
    }

    /**
     * The command before Java's arguments: a shell that finds out what is known in the container only. With an agent,
     * executors have a session, so that boatswain does not delete one that drains; Spark itself drains it, hence the
     * command {@code true}.
     */
    private static List<String> start(Application app, Settings settings, boolean hasImage) {
        StringBuilder script = new StringBuilder();
        if (!hasImage) {
            // What a killed executor leaves behind goes with its pod's directory.
            script.append("export SPARK_LOCAL_DIRS=\"${SPARK_LOCAL_DIRS:-$PWD/spark-local}\"; ");
            script.append("set -- \"-Djava.io.tmpdir=$PWD\" \"$@\"; ");
        } else {
            // Files and archives of the application come into the working directory.
            script.append("[ -w . ] || cd \"`mktemp -d`\"; ");
        }
        if (settings.java().isEmpty() && hasImage) {
            script.append("java=\"${JAVA_HOME:+$JAVA_HOME/bin/}java\"; ");
        } else {
            script.append("java=\"$0\"; ");
        }
        // Only the embedded cluster sets BOATSWAIN_AGENT, and only if its driver listens for sessions.
        script.append("exec ${BOATSWAIN_AGENT:+\"$BOATSWAIN_AGENT\" agent --decommission-command true --} \"$java\" \"$@\"");
        List<String> command = new ArrayList<>();
        settings.agent().ifPresent(agent -> command.addAll(List.of(literal(agent), "--decommission-command", "true", "--")));
        command.addAll(List.of("/bin/sh", "-c", script.toString(), literal(settings.java().orElse(app.driverJava()))));
        return command;
    }

    private static List<String> arguments(Application app, Settings settings, String home, Size size, int resourceProfile) {
        List<String> arguments = new ArrayList<>();
        arguments.add("-Xmx" + size.heapMiB() + "m");
        app.startupSettings().forEach((key, value) -> arguments.add(literal("-D" + key + "=" + value)));
        app.javaOptions().forEach(option -> arguments.add(literal(option)
                .replace("{{APP_ID}}", app.appId())
                .replace("{{EXECUTOR_ID}}", "$(BOATSWAIN_EXECUTOR_ID)")));
        String jars = settings.classPath().orElse(home + "/jars/*");
        arguments.addAll(List.of("-cp", literal(app.extraClassPath().map(extra -> extra + ":" + jars).orElse(jars))));
        arguments.add("org.apache.spark.executor.CoarseGrainedExecutorBackend");
        arguments.addAll(List.of("--driver-url", literal(app.driverUrl())));
        arguments.addAll(List.of("--executor-id", "$(BOATSWAIN_EXECUTOR_ID)"));
        arguments.addAll(List.of("--cores", String.valueOf(size.cores())));
        arguments.addAll(List.of("--app-id", literal(app.appId())));
        arguments.addAll(List.of("--hostname", settings.hostname()));
        arguments.addAll(List.of("--resourceProfileId", String.valueOf(resourceProfile)));
        return arguments;
    }

    /** What spark.boatswain.profile sets stays, then spark.executorEnv. */
    private static void environment(Application app, Settings settings, String home, ObjectNode env) {
        app.environment().forEach((name, value) -> ifMissing(env, name, literal(value)));
        ifMissing(env, "SPARK_HOME", literal(home));
        ifMissing(env, "SPARK_USER", literal(app.user()));
        ifMissing(env, "SPARK_EXECUTOR_ATTRIBUTE_APP_ID", literal(app.appId()));
        ifMissing(env, "SPARK_EXECUTOR_ATTRIBUTE_EXECUTOR_ID", "$(BOATSWAIN_EXECUTOR_ID)");
        ifMissing(env, "SPARK_EXECUTOR_ATTRIBUTE_POD_NAME", "$(BOATSWAIN_POD_NAME)");
        if (settings.local()) {
            // The embedded cluster's log is beside the container's directory.
            ifMissing(env, "SPARK_LOG_URL_STDERR", "file://$(DEVCLUSTER_ROOT).log");
        }
    }

    private static void ifMissing(ObjectNode object, String key, String value) {
        if (!object.has(key)) {
            object.put(key, value);
        }
    }

    /** Kubernetes replaces $(NAME) in commands and environments; $$(NAME) stands for $(NAME). */
    static String literal(String text) {
        return text.replace("$(", "$$(");
    }
}
