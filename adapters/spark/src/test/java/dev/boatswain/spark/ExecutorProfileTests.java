package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

final class ExecutorProfileTests {
    private static final String MASTER = "spark+boatswain://driver:7117";
    private static final ExecutorProfile.Size SIZE = new ExecutorProfile.Size(4, 2048, 2432, Map.of());

    private static ExecutorProfile.Application app() {
        return new ExecutorProfile.Application(
                "app-1", "spark://CoarseGrainedScheduler@10.0.0.1:7078", "ann",
                Map.of("spark.rpc.askTimeout", "$(X)"),
                List.of("-Dlog=/logs/{{APP_ID}}/{{EXECUTOR_ID}}"),
                Map.of("LANG", "C", "MODE", "spark"),
                Optional.of("/extra/*"), Optional.empty(), Optional.of("6"), "/home/ann/spark", "/jdk/bin/java");
    }

    private static List<String> words(JsonNode array) {
        List<String> words = new ArrayList<>();
        array.forEach(word -> words.add(word.asText()));
        return words;
    }

    static void runsOnThisMachineWithoutAnImage() {
        ObjectNode profile = ExecutorProfile.of(app(), SettingsTests.of(MASTER), SIZE, 3);
        List<String> command = words(profile.path("command"));
        Check.equal(command.subList(0, 2), List.of("/bin/sh", "-c"));
        Check.equal(command.get(2).contains("SPARK_LOCAL_DIRS"), true);
        Check.equal(command.subList(3, command.size()), List.of(
                "/jdk/bin/java", "-Xmx2048m", "-Dspark.rpc.askTimeout=$$(X)",
                "-Dlog=/logs/app-1/$(BOATSWAIN_EXECUTOR_ID)", "-cp", "/extra/*:/home/ann/spark/jars/*",
                "org.apache.spark.executor.CoarseGrainedExecutorBackend",
                "--driver-url", "spark://CoarseGrainedScheduler@10.0.0.1:7078",
                "--executor-id", "$(BOATSWAIN_EXECUTOR_ID)", "--cores", "4", "--app-id", "app-1",
                "--hostname", "$(BOATSWAIN_POD_IP)", "--resourceProfileId", "3"));
        Check.equal(profile.path("executors").asInt(-1), 0);
        Check.equal(profile.path("ttl").asText(), "60000ms");
    }

    static void usesTheImagesSparkAndJavaIfThereIsAnImage() {
        Settings settings = SettingsTests.of(MASTER, "image", "spark:4.3", "executor.agent", "/usr/bin/boatswain-agent");
        ObjectNode profile = ExecutorProfile.of(app(), settings, SIZE, 0);
        List<String> command = words(profile.path("command"));
        Check.equal(command.subList(0, 6),
                List.of("/usr/bin/boatswain-agent", "--decommission-command", "true", "--", "/bin/sh", "-c"));
        Check.equal(command.get(6).contains("JAVA_HOME"), true);
        Check.equal(command.get(6).contains("SPARK_LOCAL_DIRS"), false);
        Check.equal(command.contains("/extra/*:/opt/spark/jars/*"), true);
        Check.equal(profile.path("image").asText(), "spark:4.3");
        Check.equal(profile.path("env").path("SPARK_HOME").asText(), "/opt/spark");
    }

    static void requestsWhatSparkCounts() {
        ExecutorProfile.Size gpu = new ExecutorProfile.Size(4, 2048, 2432, Map.of("nvidia.com/gpu", 1L));
        ObjectNode profile = ExecutorProfile.of(app(), SettingsTests.of(MASTER), gpu, 0);
        Check.equal(profile.path("cpu").asText(), "4");
        Check.equal(profile.path("cpu_limit").asText(), "6");
        Check.equal(profile.path("memory").asText(), "2432Mi");
        Check.equal(profile.path("memory_limit").asText(), "2432Mi");
        Check.equal(profile.path("resources").path("nvidia.com/gpu").asInt(), 1);
    }

    static void keepsWhatTheGivenProfileSays() {
        String given = "{\"cpu\": \"500m\", \"env\": {\"MODE\": \"mine\"}, \"node_selector\": {\"disk\": \"ssd\"}}";
        ObjectNode profile = ExecutorProfile.of(app(), SettingsTests.of(MASTER, "profile", given), SIZE, 0);
        Check.equal(profile.path("cpu").asText(), "500m");
        Check.equal(profile.path("env").path("MODE").asText(), "mine");
        Check.equal(profile.path("env").path("LANG").asText(), "C");
        Check.equal(profile.path("node_selector").path("disk").asText(), "ssd");
    }

    static void refusesAGivenProfileThatCannotBe() {
        for (String given : List.of("{\"command\": []}", "{\"executors\": 3}", "[1]", "{")) {
            Check.fails("spark.boatswain.profile",
                    () -> ExecutorProfile.of(app(), SettingsTests.of(MASTER, "profile", given), SIZE, 0));
        }
    }
}
