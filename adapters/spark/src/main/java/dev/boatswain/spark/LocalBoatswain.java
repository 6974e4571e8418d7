package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A boatswain with its embedded cluster, for this application alone: executors are processes of this machine. It ends
 * with the application; if this JVM is killed, {@code app.ttl} ends it.
 */
final class LocalBoatswain {
    private static final Logger LOG = LoggerFactory.getLogger(LocalBoatswain.class);
    private static final Duration END = Duration.ofSeconds(10);
    private static final int SHOWN_LINES = 5;

    private final Process process;
    private final Path directory;
    private final boolean temporary;
    private volatile boolean stopping;

    private LocalBoatswain(Process process, Path directory, boolean temporary) {
        this.process = process;
        this.directory = directory;
        this.temporary = temporary;
    }

    /** Fails with IllegalStateException, whose message has the last lines of boatswain's log. */
    static LocalBoatswain start(Settings settings) {
        Path binary = program(settings.binary()).orElseThrow(() -> new IllegalStateException("there is no program "
                + settings.binary() + "; set " + Settings.PREFIX + "binary to the path of boatswain, or add it to PATH"));
        try {
            Path directory = settings.localDir().isPresent()
                    ? Files.createDirectories(settings.localDir().get())
                    : Files.createTempDirectory("spark-boatswain-");
            Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
            Path config = directory.resolve("boatswain.toml");
            Files.writeString(config, configuration(settings, directory));
            List<String> command = new ArrayList<>(List.of(binary.toString(), "run", "--config", config.toString()));
            Optional<Path> setsid = program("setsid");
            // Ctrl-C in a shell stops a job of Spark's, not the executors.
            setsid.ifPresent(path -> command.add(0, path.toString()));
            Process process = new ProcessBuilder(command)
                    .redirectInput(new File("/dev/null"))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(directory.resolve("boatswain.log").toFile())
                    .start();
            return new LocalBoatswain(process, directory, settings.localDir().isEmpty());
        } catch (IOException e) {
            throw new IllegalStateException("boatswain could not be started: " + e.getMessage(), e);
        }
    }

    static String configuration(Settings settings, Path directory) {
        return String.join("\n",
                "app = { name = \"spark\", ttl = \"" + settings.localTtl().toMillis() + "ms\" }",
                "cluster.mode = \"embedded\"",
                "embedded.state_dir = " + quoted(directory.resolve("state")),
                "profiles.default = { executors = 0, command = [\"/bin/true\"] }",
                "allocation.scale_down = \"pending-only\"",
                "api = { listen = \"127.0.0.1:0\", token_file = " + quoted(directory.resolve("token")) + " }",
                "backend = { listen = \"127.0.0.1:0\", registration = \"optional\" }",
                "log.format = \"json\"",
                "");
    }

    private static String quoted(Path path) {
        return Api.JSON.valueToTree(path.toString()).toString();
    }

    /** Waits until its API listens. */
    Api api(Duration most) {
        long until = System.nanoTime() + most.toNanos();
        try {
            while (System.nanoTime() < until && process.isAlive()) {
                for (String line : Files.readAllLines(log())) {
                    JsonNode said = line.endsWith("}") ? Api.JSON.readTree(line) : Api.JSON.createObjectNode();
                    if (said.path("message").asText().equals("the API is listening")) {
                        URI base = URI.create("http://" + said.path("address").asText());
                        return new Api(base, directory.resolve("token"), Optional.empty());
                    }
                }
                Thread.sleep(50);
            }
        } catch (IOException e) {
            throw new IllegalStateException("the log of boatswain cannot be read: " + e, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        String end = lastLines();
        process.destroy();
        throw new IllegalStateException("boatswain did not start: " + end);
    }

    /** Calls with the exit code if it ends before {@link #stop}. */
    void onUnexpectedEnd(IntConsumer handler) {
        process.onExit().thenAccept(ended -> {
            if (!stopping) {
                LOG.error("the local boatswain has ended with {}: {}", ended.exitValue(), lastLines());
                handler.accept(ended.exitValue());
            }
        });
    }

    /** @param api empty if it never listened */
    void stop(Optional<Api> api) {
        stopping = true;
        try {
            if (api.isPresent()) {
                api.get().call("POST", "/v1/application/end", Api.JSON.createObjectNode());
            } else {
                process.destroy();
            }
        } catch (ApiException e) {
            process.destroy();
        }
        try {
            if (!process.waitFor(END.toMillis(), TimeUnit.MILLISECONDS)) {
                LOG.warn("the local boatswain does not end by itself and is killed");
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            process.destroy();
        }
        if (temporary) {
            remove(directory);
        }
    }

    private Path log() {
        return directory.resolve("boatswain.log");
    }

    private String lastLines() {
        try {
            List<String> lines = Files.readAllLines(log());
            return String.join("\n", lines.subList(Math.max(0, lines.size() - SHOWN_LINES), lines.size()));
        } catch (IOException e) {
            return "its log cannot be read: " + e;
        }
    }

    /** A path, or a name that is looked for in PATH. */
    private static Optional<Path> program(String program) {
        if (program.contains("/")) {
            return Optional.of(Path.of(program).toAbsolutePath()).filter(Files::isExecutable);
        }
        return Stream.of(Optional.ofNullable(System.getenv("PATH")).orElse("").split(File.pathSeparator))
                .map(folder -> Path.of(folder, program))
                .filter(Files::isExecutable)
                .findFirst();
    }

    private static void remove(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) {
                Files.deleteIfExists(path);
            }
        } catch (IOException | RuntimeException e) {
            LOG.warn("{} could not be removed: {}", directory, e.toString());
        }
    }
}
