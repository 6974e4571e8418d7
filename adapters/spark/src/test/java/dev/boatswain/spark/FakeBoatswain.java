package dev.boatswain.spark;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.function.Function;

/** An HTTP server that records what it is asked and answers as the test says. */
final class FakeBoatswain implements AutoCloseable {
    record Request(String line, String body, String token, String last) {}

    record Answer(int status, String body) {}

    static final Answer FINE = new Answer(200, "{}");

    final List<Request> requests = new CopyOnWriteArrayList<>();
    final Path tokenFile;
    private final HttpServer server;

    FakeBoatswain(Function<Request, Answer> answers) throws IOException {
        tokenFile = Files.createTempFile("token", "");
        Files.writeString(tokenFile, "first\n");
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool(runnable -> {
            Thread made = new Thread(runnable);
            made.setDaemon(true);
            return made;
        }));
        server.createContext("/", exchange -> answer(exchange, answers));
        server.start();
    }

    private void answer(HttpExchange exchange, Function<Request, Answer> answers) throws IOException {
        Request request = new Request(
                exchange.getRequestMethod() + " " + exchange.getRequestURI(),
                new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8),
                exchange.getRequestHeaders().getFirst("Authorization"),
                exchange.getRequestHeaders().getFirst("Last-Event-ID"));
        Answer answer = answers.apply(request);
        requests.add(request);
        byte[] body = answer.body().getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(answer.status(), body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    Api api() {
        String host = server.getAddress().getAddress().getHostAddress();
        return new Api(URI.create("http://" + host + ":" + server.getAddress().getPort()), tokenFile, Optional.empty());
    }

    List<String> lines() {
        return requests.stream().map(Request::line).toList();
    }

    @Override
    public void close() throws IOException {
        server.stop(0);
        Files.deleteIfExists(tokenFile);
    }
}
