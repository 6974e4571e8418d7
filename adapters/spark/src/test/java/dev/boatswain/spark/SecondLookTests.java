package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;

final class SecondLookTests {
    private static final String LIVING = "{\"executors\": [{\"executor\": 3, \"profile\": \"a\"}, {\"executor\": 4}]}";

    /** What a driver with this status and list says of executors 3 and 7. */
    private static List<Long> found(FakeBoatswain.Answer status, FakeBoatswain.Answer list) throws IOException, ApiException {
        try (FakeBoatswain boatswain = new FakeBoatswain(
                request -> request.line().endsWith("/v1/status") ? status : list)) {
            List<JsonNode> found = new SecondLook(boatswain.api(), Duration.ofMillis(1)).found(Set.of(3L, 7L));
            return found.stream().map(executor -> executor.path("executor").asLong()).toList();
        }
    }

    private static FakeBoatswain.Answer fine(String body) {
        return new FakeBoatswain.Answer(200, body);
    }

    static void findsThoseThatLiveNeverthelessAndBelievesTheLossOfTheOthers() throws IOException, ApiException {
        Check.equal(found(fine("{\"adopted\": true}"), fine(LIVING)), List.of(3L));
    }

    static void believesNoListFromBeforeTheAdoption() {
        Check.fails("not adopted", () -> found(fine("{\"adopted\": false}"), fine("{\"executors\": []}")));
    }

    static void believesNothingWithoutAnAnswer() {
        FakeBoatswain.Answer starting = new FakeBoatswain.Answer(503, "{\"message\": \"not adopted yet\"}");
        Check.fails("not adopted yet", () -> found(starting, fine("{\"executors\": []}")));
        Check.fails("not adopted yet", () -> found(fine("{\"adopted\": true}"), starting));
    }
}
