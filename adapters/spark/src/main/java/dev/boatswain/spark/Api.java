package dev.boatswain.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocketFactory;

/**
 * boatswain's HTTP API. All calls may be repeated safely, and none is repeated here, except once after a 401, because
 * tokens are renewed. HttpURLConnection, because java.net.http has no time limit for reading a stream.
 *
 * <p>Threads: each thread may call. The cached token and socket factory are volatile; two threads that renew them at the
 * same time read the same files.
 */
final class Api {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration CONNECT = Duration.ofSeconds(5);
    private static final Duration ANSWER = Duration.ofSeconds(10);
    /** boatswain sends a comment each 15 s; without three of them the connection is dead. */
    private static final Duration SILENCE = Duration.ofSeconds(45);
    private static final int LONGEST_ERROR = 16_384;

    private final URI base;
    private final Path tokenFile;
    private final Optional<Path> caFile;
    private volatile String token;
    private volatile SSLSocketFactory sockets;

    Api(URI base, Path tokenFile, Optional<Path> caFile) {
        this.base = base;
        this.tokenFile = tokenFile;
        this.caFile = caFile;
    }

    URI base() {
        return base;
    }

    JsonNode get(String path) throws ApiException {
        return call("GET", path, null);
    }

    /** Returns the answer's body; fails with what boatswain says is wrong, and what to do. */
    JsonNode call(String method, String path, JsonNode body) throws ApiException {
        HttpURLConnection connection = answered(method, path, body, ANSWER, null);
        try (InputStream answer = connection.getInputStream()) {
            JsonNode read = JSON.readTree(answer);
            return read == null ? MissingNode.getInstance() : read;
        } catch (IOException e) {
            throw unanswered(method, path, e);
        }
    }

    /** The stream of events after {@code last}, or from the executors that are alive. Reading fails after 45 s of silence. */
    InputStream events(String last) throws ApiException {
        HttpURLConnection connection = answered("GET", "/v1/events", null, SILENCE, last);
        try {
            return connection.getInputStream();
        } catch (IOException e) {
            throw unanswered("GET", "/v1/events", e);
        }
    }

    private HttpURLConnection answered(String method, String path, JsonNode body, Duration silence, String last)
            throws ApiException {
        try {
            boolean cached = token != null;
            HttpURLConnection connection = sent(method, path, body, silence, last);
            int status = connection.getResponseCode();
            if (status == 401 && cached) {
                token = null;
                discard(connection);
                connection = sent(method, path, body, silence, last);
                status = connection.getResponseCode();
            }
            if (status == 401 && body != null) {
                // Java drops what such an answer to a request with a body says. To another request it says the same.
                HttpURLConnection other = sent("GET", "/v1/status", null, silence, null);
                connection = other.getResponseCode() == 401 ? other : connection;
            }
            if (status / 100 != 2) {
                throw refused(method, path, status, connection);
            }
            return connection;
        } catch (SSLException e) {
            sockets = null;
            throw unanswered(method, path, e);
        } catch (IOException e) {
            throw unanswered(method, path, e);
        }
    }

    private HttpURLConnection sent(String method, String path, JsonNode body, Duration silence, String last)
            throws IOException, ApiException {
        HttpURLConnection connection = (HttpURLConnection) new URL(base + path).openConnection();
        if (connection instanceof HttpsURLConnection && caFile.isPresent()) {
            ((HttpsURLConnection) connection).setSSLSocketFactory(authorities());
        }
        connection.setConnectTimeout((int) CONNECT.toMillis());
        connection.setReadTimeout((int) silence.toMillis());
        connection.setInstanceFollowRedirects(false);
        connection.setRequestMethod(method);
        connection.setRequestProperty("Authorization", "Bearer " + token());
        if (last != null) {
            connection.setRequestProperty("Last-Event-ID", last);
        }
        if (body != null) {
            connection.setDoOutput(true);
            connection.setRequestProperty("Content-Type", "application/json");
            byte[] bytes = JSON.writeValueAsBytes(body);
            connection.setFixedLengthStreamingMode(bytes.length);
            connection.getOutputStream().write(bytes);
        }
        return connection;
    }

    private String token() throws ApiException {
        try {
            String known = token;
            if (known == null) {
                known = firstToken(Files.readString(tokenFile))
                        .orElseThrow(() -> new IOException("it has no token that may change anything"));
                token = known;
            }
            return known;
        } catch (IOException e) {
            throw ApiException.unusable("the token file " + tokenFile, e);
        }
    }

    private SSLSocketFactory authorities() throws ApiException {
        Path file = caFile.orElseThrow();
        try {
            SSLSocketFactory known = sockets;
            if (known == null) {
                known = Certificates.trusting(file);
                sockets = known;
            }
            return known;
        } catch (IOException e) {
            throw ApiException.unusable("the CA file " + file, e);
        }
    }

    /** The first token of a token file that may do everything: a line without {@code read} behind it. */
    static Optional<String> firstToken(String text) {
        return text.lines()
                .map(line -> line.strip().split("\\s+"))
                .filter(words -> !words[0].isEmpty() && words.length == 1)
                .map(words -> words[0])
                .findFirst();
    }

    private ApiException refused(String method, String path, int status, HttpURLConnection connection) {
        String text = "";
        String code = "";
        try (InputStream error = connection.getErrorStream()) {
            text = error == null ? "" : new String(error.readNBytes(LONGEST_ERROR), StandardCharsets.UTF_8);
            JsonNode said = JSON.readTree(text);
            code = said.path("code").asText("");
            String field = said.path("field").asText("");
            String hint = said.path("hint").asText("");
            text = (field.isEmpty() ? "" : field + ": ") + said.path("message").asText(text)
                    + (hint.isEmpty() ? "" : " (" + hint + ")");
        } catch (IOException e) {
            // What is no JSON is reported as it is.
        }
        String advice = status == 401 ? "; the token is the one in " + tokenFile : "";
        return new ApiException(status, code, "boatswain at " + base + " refused " + method + " " + path + " with " + status + ": "
                + text + advice, null);
    }

    private ApiException unanswered(String method, String path, IOException e) {
        String what = "no answer of boatswain at " + base + " to " + method + " " + path + ": " + e;
        return new ApiException(0, what, e);
    }

    private static void discard(HttpURLConnection connection) throws IOException {
        try (InputStream error = connection.getErrorStream()) {
            if (error != null) {
                error.readNBytes(LONGEST_ERROR);
            }
        }
    }
}
