package dev.boatswain.spark;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.network.util.JavaUtils;

/**
 * The master URL and the settings {@code spark.boatswain.*}, as docs/spark.md lists them. Pure: reads no files.
 *
 * @param api where boatswain's API is; empty with {@code local}, until that boatswain has started
 */
record Settings(
        boolean local,
        Optional<URI> api,
        Optional<Path> tokenFile,
        Optional<Path> caFile,
        Optional<String> profile,
        Optional<String> image,
        Optional<String> sparkHome,
        Optional<String> java,
        Optional<String> classPath,
        Optional<String> agent,
        String hostname,
        Duration decommissionWithin,
        Duration lossReasonTimeout,
        Duration callEvery,
        Duration lastRequests,
        Duration connectTimeout,
        String binary,
        Optional<Path> localDir,
        Duration localTtl) {

    static final String PREFIX = "spark.boatswain.";
    private static final Pattern MASTER =
            Pattern.compile("(?:spark\\+|local-cluster\\+)?boatswain(\\+https)?://(.*)");
    private static final String FORMS = "spark+boatswain://HOST:PORT, spark+boatswain+https://HOST:PORT or spark+boatswain://local";

    static boolean isBoatswain(String master) {
        return MASTER.matcher(master).matches();
    }

    /** Fails with IllegalArgumentException, whose message names the setting and what it has to be. */
    static Settings of(String master, Function<String, Optional<String>> conf, Map<String, String> env) {
        Matcher matched = MASTER.matcher(master);
        if (!matched.matches()) {
            throw new IllegalArgumentException("the master URL " + master + " is none of " + FORMS);
        }
        Function<String, Optional<String>> own = key -> conf.apply(PREFIX + key).filter(text -> !text.isBlank());
        boolean local = matched.group(2).equals("local") || flag(own, "local");
        Optional<URI> api = local ? Optional.empty() : Optional.of(api(master, matched));
        Optional<Path> token = own.apply("tokenFile").or(() -> Optional.ofNullable(env.get("BOATSWAIN_TOKEN_FILE"))).map(Path::of);
        if (!local && token.isEmpty()) {
            throw new IllegalArgumentException("set spark.boatswain.tokenFile (or BOATSWAIN_TOKEN_FILE) to the file with"
                    + " boatswain's token: what its api.token_file names, or a service account's token");
        }
        return new Settings(
                local,
                api,
                token,
                own.apply("caFile").or(() -> Optional.ofNullable(env.get("BOATSWAIN_CA_FILE"))).map(Path::of),
                own.apply("profile"),
                own.apply("image"),
                own.apply("executor.sparkHome"),
                own.apply("executor.java"),
                own.apply("executor.classPath"),
                own.apply("executor.agent"),
                own.apply("executor.hostname").orElse("$(BOATSWAIN_POD_IP)"),
                time(own, "decommission.within", "2m"),
                time(own, "lossReason.timeout", "10s"),
                time(own, "callEvery", local ? "5s" : "20s"),
                time(own, "lastRequests", "30s"),
                time(own, "connectTimeout", "30s"),
                own.apply("binary").orElse("boatswain"),
                own.apply("local.dir").map(Path::of),
                time(own, "local.ttl", "30s"));
    }

    private static URI api(String master, Matcher matched) {
        String wrong = "the master URL " + master + " is none of " + FORMS;
        try {
            URI api = new URI((matched.group(1) == null ? "http://" : "https://") + matched.group(2));
            boolean more = !api.getRawPath().isEmpty() || api.getRawQuery() != null || api.getRawFragment() != null;
            if (api.getHost() == null || api.getPort() < 1 || api.getRawUserInfo() != null || more) {
                throw new IllegalArgumentException(wrong);
            }
            return api;
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException(wrong, e);
        }
    }

    private static boolean flag(Function<String, Optional<String>> own, String key) {
        String text = own.apply(key).orElse("false");
        if (!text.equals("true") && !text.equals("false")) {
            throw new IllegalArgumentException(PREFIX + key + ": \"" + text + "\" is neither true nor false");
        }
        return text.equals("true");
    }

    private static Duration time(Function<String, Optional<String>> own, String key, String otherwise) {
        String text = own.apply(key).orElse(otherwise);
        long ms;
        try {
            ms = JavaUtils.timeStringAsMs(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(PREFIX + key + ": \"" + text + "\" is no time such as 30s or 2m", e);
        }
        if (ms < 1) {
            throw new IllegalArgumentException(PREFIX + key + ": \"" + text + "\" has to be longer than nothing");
        }
        return Duration.ofMillis(ms);
    }
}
