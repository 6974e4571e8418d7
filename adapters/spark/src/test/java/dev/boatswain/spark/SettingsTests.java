package dev.boatswain.spark;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

final class SettingsTests {
    /** Settings for a master URL; pairs of keys (without spark.boatswain.) and values. */
    static Settings of(String master, String... pairs) {
        Map<String, String> conf = new HashMap<>(Map.of("spark.boatswain.tokenFile", "/token"));
        for (int at = 0; at < pairs.length; at += 2) {
            conf.put(Settings.PREFIX + pairs[at], pairs[at + 1]);
        }
        return Settings.of(master, key -> Optional.ofNullable(conf.get(key)), Map.of());
    }

    static void takesThreeFormsOfTheMasterUrlWithOrWithoutTls() {
        for (String before : new String[] {"", "spark+", "local-cluster+"}) {
            Check.equal(of(before + "boatswain://driver:7117").api(), Optional.of(URI.create("http://driver:7117")));
            Check.equal(of(before + "boatswain+https://driver:1").api(), Optional.of(URI.create("https://driver:1")));
            Check.equal(of(before + "boatswain://local").local(), true);
        }
        Check.equal(of("spark+boatswain://[::1]:7117").api(), Optional.of(URI.create("http://[::1]:7117")));
        for (String other : new String[] {"local[2]", "spark://host:7077", "k8s://https://host", "yarn", "xboatswain://h:1"}) {
            Check.equal(Settings.isBoatswain(other), false);
        }
    }

    static void refusesMasterUrlsThatAreIncomplete() {
        for (String rest : new String[] {"", "driver", "driver:x", "driver:7117/v1", "me@driver:7117", "driver:7117?a=b", "a b:1"}) {
            Check.fails("is none of spark+boatswain://HOST:PORT", () -> of("spark+boatswain://" + rest));
        }
    }

    static void refusesValuesAndNamesTheSetting() {
        String master = "spark+boatswain://driver:7117";
        Check.fails("spark.boatswain.local: \"yes\"", () -> of(master, "local", "yes"));
        Check.fails("spark.boatswain.decommission.within", () -> of(master, "decommission.within", "soon"));
        Check.fails("spark.boatswain.lossReason.timeout", () -> of(master, "lossReason.timeout", "0s"));
        Check.fails("spark.boatswain.tokenFile", () -> Settings.of(master, key -> Optional.empty(), Map.of()));
    }

    static void readsTheTokenFromTheVariableThatTheCommandsRead() {
        Settings settings = Settings.of("spark+boatswain://driver:7117", key -> Optional.empty(),
                Map.of("BOATSWAIN_TOKEN_FILE", "/t", "BOATSWAIN_CA_FILE", "/ca"));
        Check.equal(settings.tokenFile(), Optional.of(Path.of("/t")));
        Check.equal(settings.caFile(), Optional.of(Path.of("/ca")));
    }

    static void hasDefaults() {
        Settings settings = of("spark+boatswain://driver:7117");
        Check.equal(settings.decommissionWithin(), Duration.ofMinutes(2));
        Check.equal(settings.lossReasonTimeout(), Duration.ofSeconds(10));
        Check.equal(settings.lastRequests(), Duration.ofSeconds(30));
        Check.equal(settings.callEvery(), Duration.ofSeconds(20));
        // Less than half of the local boatswain's ttl.
        Check.equal(of("spark+boatswain://local").callEvery(), Duration.ofSeconds(5));
        Check.equal(of("boatswain://driver:7117", "local", "true").local(), true);
        Check.equal(of("boatswain://driver:7117", "decommission.within", "90s").decommissionWithin(), Duration.ofSeconds(90));
    }

    static void takesTheFirstTokenThatMayDoEverything() {
        Check.equal(Api.firstToken("\nreader read\n full \nother\n"), Optional.of("full"));
        Check.equal(Api.firstToken("reader read\n"), Optional.empty());
        Check.equal(Api.firstToken(""), Optional.empty());
    }

    static void namesProfilesSoThatBoatswainTakesThem() {
        for (String app : new String[] {"", "Word count", "Ünï-3", "9lives", "-", "x".repeat(200), "PySparkShell"}) {
            String name = Profiles.prefix(app, System.currentTimeMillis(), 0) + Integer.MAX_VALUE;
            Check.equal(name.matches("[a-z][a-z0-9-]{0,62}"), true);
        }
        Check.equal(Profiles.prefix("Word count!", 36, 35), "word-count-1000z-");
    }

    static void startsALocalBoatswainThatEndsWithoutCalls() {
        String config = LocalBoatswain.configuration(of("spark+boatswain://local"), Path.of("/tmp/a \"b\""));
        Check.equal(config.contains("ttl = \"30000ms\""), true);
        Check.equal(config.contains("token_file = \"/tmp/a \\\"b\\\"/token\""), true);
        Check.equal(config.contains("scale_down = \"pending-only\""), true);
    }
}
