package dev.boatswain.spark;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkConf$;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/** Reads Scala's values from Java. */
final class SparkValues {
    private SparkValues() {}

    static Optional<String> get(SparkConf conf, String key) {
        return OptionConverters.toJava(conf.getOption(key));
    }

    /** The settings that an executor needs before it can talk to the driver; the others come by RPC. */
    static Map<String, String> startupSettings(SparkConf conf) {
        Map<String, String> found = new TreeMap<>();
        for (Tuple2<String, String> setting : conf.getAll()) {
            if (SparkConf$.MODULE$.isExecutorStartupConf(setting._1())) {
                found.put(setting._1(), setting._2());
            }
        }
        return found;
    }

    /** One executor to decommission, and why. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static Tuple2<String, ExecutorDecommissionInfo>[] decommissioning(String id, String why) {
        return new Tuple2[] {new Tuple2<>(id, new ExecutorDecommissionInfo(why, Option.empty()))};
    }

    /** Spark's ids as boatswain's. */
    static List<Long> numbers(Collection<String> ids) {
        return ids.stream().map(Long::valueOf).toList();
    }

    /** The variables of {@code spark.executorEnv.*}. */
    static Map<String, String> executorEnvironment(SparkConf conf) {
        Map<String, String> found = new TreeMap<>();
        for (Tuple2<String, String> variable : CollectionConverters.asJava(conf.getExecutorEnv())) {
            found.put(variable._1(), variable._2());
        }
        return found;
    }
}
