package dev.boatswain.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.ExecutorProcessLost;

final class LossesTests {
    private static JsonNode json(String text) throws JsonProcessingException {
        return Api.JSON.readTree(text.replace('\'', '"'));
    }

    static void anOomIsTheApplicationsFaultAndAnEvictionIsNot() throws JsonProcessingException {
        Check.equal(
                Losses.of(json("{'reason': 'OomKilled', 'exit_code': 137, 'by_application': true, 'why': 'over 1Gi'}")),
                new ExecutorExited(137, true, "OomKilled: over 1Gi"));
        Check.equal(
                Losses.of(json("{'reason': 'Evicted', 'by_application': false, 'why': 'disk is full'}")),
                new ExecutorExited(-1, false, "Evicted: disk is full"));
    }

    static void anExitWithZeroIsNoFailure() throws JsonProcessingException {
        Check.equal(
                Losses.of(json("{'reason': 'Exited', 'exit_code': 0, 'by_application': true, 'why': 'ended'}")),
                new ExecutorExited(0, false, "Exited: ended"));
    }

    static void understandsAnEventThatSaysLittle() throws JsonProcessingException {
        Check.equal(Losses.of(json("{}")), new ExecutorExited(-1, false, "Unknown"));
    }

    static void findsTheEndsOfThoseWhoEndedWhileNobodyRead() throws JsonProcessingException {
        Check.equal(
                Losses.ofAll(json("[{'event': 'not-created', 'executor': 6},"
                        + " {'event': 'ended', 'executor': 7, 'reason': 'Exited', 'exit_code': 3, 'by_application': true}]")),
                Map.of("7", new ExecutorExited(3, true, "Exited")));
        Check.equal(((ExecutorProcessLost) Losses.unknown("away")).causedByApp(), false);
    }
}
