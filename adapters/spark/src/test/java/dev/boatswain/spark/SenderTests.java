package dev.boatswain.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

final class SenderTests {
    private static final Duration LONG = Duration.ofSeconds(10);

    private static Sender sender(FakeBoatswain boatswain) {
        return new Sender(boatswain.api(), Duration.ofMinutes(2), Duration.ofHours(1));
    }

    private static ObjectNode body() {
        return Api.JSON.createObjectNode();
    }

    static void sendsProfilesBeforeTotalsBeforeKills() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE); Sender sender = sender(boatswain)) {
            sender.kill(List.of(7L, 3L));
            sender.decommission(List.of(9L));
            sender.profile("a-0", body());
            sender.totals(Map.of("a-0", 200_000));
            Check.equal(sender.awaitSent(LONG), true);
            List<String> targets = boatswain.requests.stream()
                    .filter(request -> request.line().equals("PUT /v1/targets")).map(FakeBoatswain.Request::body).toList();
            Check.equal(targets, List.of("{\"targets\":{\"a-0\":100000}}"));
            Check.equal(boatswain.lines().containsAll(List.of("PUT /v1/profiles/a-0", "POST /v1/executors/kill",
                    "POST /v1/executors/decommission")), true);
            Check.equal(boatswain.lines().indexOf("PUT /v1/profiles/a-0") < boatswain.lines().indexOf("PUT /v1/targets"), true);
            String kill = boatswain.requests.stream()
                    .filter(request -> request.line().endsWith("kill")).findFirst().orElseThrow().body();
            Check.equal(kill, "{\"by\":\"Spark\",\"executors\":[3,7],\"force\":true,\"replace\":true}");
        }
    }

    static void repeatsUntilThereIsAnAnswerAndForgetsOldTotals() throws IOException, InterruptedException {
        AtomicInteger failures = new AtomicInteger(2);
        CountDownLatch more = new CountDownLatch(1);
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> {
            try {
                more.await();
            } catch (InterruptedException e) {
                return null;
            }
            return failures.getAndDecrement() > 0 ? new FakeBoatswain.Answer(503, "{}") : FakeBoatswain.FINE;
        }); Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            for (int count = 1; count <= 100; count++) {
                sender.totals(Map.of("a-0", count));
            }
            more.countDown();
            Check.equal(sender.awaitSent(LONG), true);
            Check.equal(boatswain.lines(), List.of("PUT /v1/profiles/a-0", "PUT /v1/profiles/a-0", "PUT /v1/profiles/a-0",
                    "PUT /v1/targets"));
            Check.equal(boatswain.requests.get(3).body(), "{\"targets\":{\"a-0\":100}}");
        }
    }

    static void aRefusedProfileDoesNotKeepOthersFromTheirExecutors() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> request.line().endsWith("/bad-1")
                ? new FakeBoatswain.Answer(422, "{\"message\": \"no\"}") : FakeBoatswain.FINE);
                Sender sender = sender(boatswain)) {
            for (int time = 1; time <= 2; time++) {
                sender.profile("bad-1", body());
                sender.profile("good-0", body());
                sender.totals(Map.of("bad-1", 1, "good-0", time));
                Check.equal(sender.awaitSent(LONG), true);
            }
            Check.equal(boatswain.requests.get(boatswain.requests.size() - 1).body(), "{\"targets\":{\"good-0\":2}}");
            Check.equal(boatswain.lines().stream().filter(line -> line.endsWith("/bad-1")).count(), 1L);
        }
    }

    static void aMissingTotalIsZero() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE); Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            sender.totals(Map.of("a-0", 4));
            sender.awaitSent(LONG);
            sender.totals(Map.of());
            sender.awaitSent(LONG);
            Check.equal(boatswain.requests.get(boatswain.requests.size() - 1).body(), "{\"targets\":{\"a-0\":0}}");
        }
    }

    static void sparesAreAProfileOfTheirOwnAsLongAsExecutorsAreWanted() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE); Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            sender.spares("a-0", body(), 2);
            sender.totals(Map.of("a-0", 4));
            sender.awaitSent(LONG);
            Check.equal(boatswain.lines(),
                    List.of("PUT /v1/profiles/a-0", "PUT /v1/profiles/a-0-spares", "PUT /v1/targets"));
            Check.equal(boatswain.requests.get(2).body(), "{\"targets\":{\"a-0\":4,\"a-0-spares\":2}}");
            sender.totals(Map.of());
            sender.awaitSent(LONG);
            Check.equal(boatswain.requests.get(3).body(), "{\"targets\":{\"a-0\":0,\"a-0-spares\":0}}");
        }
    }

    static void removesItsProfilesAfterTheLastKill() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE); Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            sender.profile("a-1", body());
            sender.totals(Map.of("a-0", 4));
            sender.awaitSent(LONG);
            boatswain.requests.clear();
            sender.kill(List.of(7L));
            sender.removeProfiles();
            sender.repeat();
            sender.awaitSent(LONG);
            Check.equal(boatswain.lines(),
                    List.of("POST /v1/executors/kill", "DELETE /v1/profiles/a-0", "DELETE /v1/profiles/a-1"));
        }
    }

    static void sendsAllAgainWhenAnotherBoatswainTakesOver() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE); Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            sender.totals(Map.of("a-0", 4));
            sender.awaitSent(LONG);
            boatswain.requests.clear();
            sender.repeat();
            sender.awaitSent(LONG);
            Check.equal(boatswain.lines(), List.of("PUT /v1/profiles/a-0", "PUT /v1/targets"));
        }
    }

    static void readsTheTokenAgainWhenItIsRefused() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> request.token().equals("Bearer second")
                ? FakeBoatswain.FINE : new FakeBoatswain.Answer(request.line().startsWith("GET") ? 200 : 401, "{}"))) {
            Api api = boatswain.api();
            api.get("/v1/targets");
            Files.writeString(boatswain.tokenFile, "second\n");
            api.call("PUT", "/v1/targets", body());
            Check.equal(boatswain.requests.get(2).token(), "Bearer second");
            Files.writeString(boatswain.tokenFile, "third\n");
        } catch (ApiException e) {
            throw new AssertionError(e);
        }
    }

    static void namesAFileThatCannotBeUsed() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE)) {
            Files.writeString(boatswain.tokenFile, "only-this read\n");
            Check.fails("has no token that may change anything", () -> new Opening(boatswain.api(), LONG).profile("a", body()));
            Files.delete(boatswain.tokenFile);
            Check.fails("the token file " + boatswain.tokenFile, () -> new Opening(boatswain.api(), LONG).profile("a", body()));
        }
    }

    static void doesNotWaitForEverWithoutAnAnswer() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> new FakeBoatswain.Answer(503, "{}"));
                Sender sender = sender(boatswain)) {
            sender.kill(List.of(1L));
            Check.equal(sender.awaitSent(Duration.ofMillis(300)), false);
        }
    }

    static void aProfileThatIsStillBeingRemovedIsAddedAgainOnceItIsGone() throws IOException {
        AtomicInteger left = new AtomicInteger(2);
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> left.getAndDecrement() > 0
                ? new FakeBoatswain.Answer(409, "{\"code\": \"being-removed\"}") : FakeBoatswain.FINE);
                Sender sender = sender(boatswain)) {
            sender.profile("a-0", body());
            sender.totals(Map.of("a-0", 4));
            Check.equal(sender.awaitSent(LONG), true);
            Check.equal(boatswain.lines(), List.of("PUT /v1/profiles/a-0", "PUT /v1/profiles/a-0", "PUT /v1/profiles/a-0",
                    "PUT /v1/targets"));
        }
    }

    static void renewsItsProfilesRegularly() throws IOException, InterruptedException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> FakeBoatswain.FINE);
                Sender sender = new Sender(boatswain.api(), LONG, Duration.ofMillis(20))) {
            sender.profile("a-0", body());
            Check.eventually(() -> boatswain.lines().stream().filter("PUT /v1/profiles/a-0"::equals).count() > 3);
        }
    }

    static void saysAtTheStartWhatIsWrong() throws IOException {
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> new FakeBoatswain.Answer(422,
                "{\"message\": \"no image\", \"field\": \"image\", \"hint\": \"name one\"}"))) {
            Check.fails("image: no image (name one)", () -> new Opening(boatswain.api(), LONG).profile("a-0", body()));
        }
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> new FakeBoatswain.Answer(401,
                "{\"message\": \"it is for another audience\"}"))) {
            Check.fails("refused PUT /v1/profiles/a-0 with 401: it is for another audience; the token is the one in",
                    () -> new Opening(boatswain.api(), LONG).profile("a-0", body()));
        }
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> new FakeBoatswain.Answer(503, "{}"))) {
            Check.fails("with 503", () -> new Opening(boatswain.api(), Duration.ofMillis(1)).profile("a-0", body()));
        }
    }
}
