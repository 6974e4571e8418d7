package dev.boatswain.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfile$;
import org.apache.spark.util.Utils;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/**
 * A profile of boatswain's for each ResourceProfile of Spark's. Names are new with each start, because the command has the
 * driver's address and boatswain changes no profile. Immutable; each thread may call.
 */
final class Profiles {
    private static final int NAME_LENGTH = 30;
    private static final long MINIMUM_OVERHEAD_MIB = 384;
    private static final double OVERHEAD_FACTOR = 0.1;

    private final SparkContext sc;
    private final Settings settings;
    private final String appId;
    private final String prefix;

    Profiles(SparkContext sc, Settings settings, String appId) {
        this.sc = sc;
        this.settings = settings;
        this.appId = appId;
        prefix = prefix(sc.appName(), System.currentTimeMillis(), ThreadLocalRandom.current().nextInt(36 * 36 * 36));
        if (sc.conf().getBoolean("spark.authenticate", false)
                && !settings.profile().orElse("").contains("_SPARK_AUTH_SECRET")) {
            throw new IllegalArgumentException("spark.authenticate needs spark.boatswain.profile with the driver's"
                    + " spark.authenticate.secret from a Secret:"
                    + " {\"env\": {\"_SPARK_AUTH_SECRET\": {\"secret\": \"NAME\", \"key\": \"KEY\"}}}");
        }
    }

    /** At most 63 characters, with the number of the ResourceProfile behind it. */
    static String prefix(String appName, long millis, int random) {
        String name = appName.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "-");
        name = name.substring(0, Math.min(name.length(), NAME_LENGTH)).replaceAll("^[-0-9]+|-+$", "");
        String start = name.isEmpty() ? "spark" : name;
        return start + "-" + Long.toString(millis, 36) + String.format("%3s", Integer.toString(random, 36)).replace(' ', '0')
                + "-";
    }

    String name(ResourceProfile profile) {
        return prefix + profile.id();
    }

    /** Spares are not the application's before they are promoted. */
    boolean has(String name) {
        return name.startsWith(prefix) && !name.endsWith(Sender.SPARES);
    }

    ObjectNode body(ResourceProfile profile) {
        return ExecutorProfile.of(application(), settings, size(profile), profile.id());
    }

    private ExecutorProfile.Application application() {
        SparkConf conf = sc.conf();
        String host = conf.get("spark.driver.host");
        List<String> options = new ArrayList<>();
        for (String key : List.of("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")) {
            String text = conf.get(key, "");
            options.addAll(CollectionConverters.asJava(Utils.splitCommandString(text)));
        }
        return new ExecutorProfile.Application(
                appId,
                "spark://CoarseGrainedScheduler@" + host + ":" + conf.get("spark.driver.port"),
                sc.sparkUser(),
                SparkValues.startupSettings(conf),
                options,
                SparkValues.executorEnvironment(conf),
                SparkValues.get(conf, "spark.executor.extraClassPath"),
                SparkValues.get(conf, "spark.kubernetes.executor.request.cores"),
                SparkValues.get(conf, "spark.kubernetes.executor.limit.cores"),
                Optional.ofNullable(System.getenv("SPARK_HOME")).orElse("."),
                System.getProperty("java.home") + "/bin/java");
    }

    /** Memory is counted as `boatswain convert` and Spark on Kubernetes do. */
    private ExecutorProfile.Size size(ResourceProfile profile) {
        SparkConf conf = sc.conf();
        double factor = conf.getDouble("spark.executor.memoryOverheadFactor",
                conf.getDouble("spark.kubernetes.memoryOverheadFactor", OVERHEAD_FACTOR));
        long minimum = conf.getSizeAsMb("spark.executor.minMemoryOverhead", MINIMUM_OVERHEAD_MIB + "m");
        ResourceProfile.ExecutorResourcesOrDefaults wanted = ResourceProfile$.MODULE$.getResourcesForClusterManager(
                profile.id(), profile.executorResources(), minimum, factor, conf, true,
                scala.collection.immutable.Map$.MODULE$.empty());
        int cores = OptionConverters.toJava(wanted.cores())
                .map(found -> (Integer) found)
                .orElse(conf.getInt("spark.executor.cores", 1));
        Map<String, Long> resources = new TreeMap<>();
        CollectionConverters.asJava(wanted.customResources()).values().forEach(resource -> {
            String name = resource.resourceName();
            resources.put(resource.vendor().isEmpty() ? name : resource.vendor() + "/" + name, resource.amount());
        });
        return new ExecutorProfile.Size(cores, wanted.executorMemoryMiB(), wanted.totalMemMiB(), resources);
    }
}
