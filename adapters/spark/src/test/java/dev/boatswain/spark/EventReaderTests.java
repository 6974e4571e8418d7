package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

final class EventReaderTests {
    private static final class Seen implements EventReader.Listener {
        final List<String> events = new CopyOnWriteArrayList<>();
        volatile boolean doubtful;

        @Override
        public void connecting() {
            events.add("connecting");
        }

        @Override
        public void living(JsonNode living) throws ApiException {
            events.add("living");
            if (doubtful) {
                doubtful = false;
                throw new ApiException(503, "cannot be confirmed now", null);
            }
        }

        @Override
        public void event(JsonNode event) {
            events.add(event.path("event").asText());
            if (event.path("event").asText().equals("odd")) {
                throw new IllegalStateException("a handler that fails");
            }
        }
    }

    private static String event(String id, String name) {
        return "id: " + id + "\nevent: " + name + "\ndata: {\"event\":\"" + name + "\"}\n\n";
    }

    static void continuesAfterTheLastEventAlsoIfAHandlerFails() throws IOException, InterruptedException {
        AtomicInteger connections = new AtomicInteger();
        Seen seen = new Seen();
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> switch (connections.incrementAndGet()) {
            case 1 -> new FakeBoatswain.Answer(200, event("1-1", "living") + ":\n\n" + event("1-2", "odd") + event("1-3", "ready")
                    + "id: 1-4\nevent: cut\ndata: {\"event\"");
            case 2 -> new FakeBoatswain.Answer(503, "{}");
            default -> new FakeBoatswain.Answer(200, event("1-4", "ended"));
        }); EventReader reader = new EventReader(boatswain.api(), seen)) {
            reader.start();
            Check.eventually(() -> connections.get() >= 4);
            Check.equal(List.copyOf(seen.events).subList(0, 7),
                    List.of("connecting", "living", "odd", "ready", "connecting", "connecting", "ended"));
            Check.equal(boatswain.requests.get(0).last(), null);
            Check.equal(boatswain.requests.get(1).last(), "1-3");
            Check.equal(boatswain.requests.get(2).last(), "1-3");
        }
    }

    static void readsAListAgainThatCannotBeConfirmed() throws IOException, InterruptedException {
        AtomicInteger connections = new AtomicInteger();
        Seen seen = new Seen();
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> {
            boolean first = connections.incrementAndGet() == 1;
            seen.doubtful = !first && connections.get() == 2;
            return new FakeBoatswain.Answer(200, first ? event("1-7", "ready") : event("2-4", "living") + event("2-5", "ended"));
        }); EventReader reader = new EventReader(boatswain.api(), seen)) {
            reader.start();
            Check.eventually(() -> connections.get() >= 4);
            Check.equal(List.copyOf(seen.events).subList(0, 7),
                    List.of("connecting", "ready", "connecting", "living", "connecting", "living", "ended"));
            Check.equal(boatswain.requests.get(2).last(), "1-7");
            Check.equal(boatswain.requests.get(3).last(), "2-5");
        }
    }

    static void beginsAnewIfItsPlaceIsRefused() throws IOException, InterruptedException {
        Seen seen = new Seen();
        try (FakeBoatswain boatswain = new FakeBoatswain(request -> request.last() == null
                ? new FakeBoatswain.Answer(200, event("x", "living")) : new FakeBoatswain.Answer(400, "{}"));
                EventReader reader = new EventReader(boatswain.api(), seen)) {
            reader.start();
            Check.eventually(() -> seen.events.stream().filter("living"::equals).count() >= 2);
        }
    }
}
