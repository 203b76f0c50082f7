// A client of a grid in Java, with nothing but the JDK: a job with four processes, its events, files, and a tuple space.
//
//     export PHALANX_TOKEN=$(phalanx token --for 1h)
//     java Grid.java https://10.0.0.5:8443 $(phalanx token --authority) /srv/data/java

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Grid {
    private final HttpClient http;
    private final String url;
    private final String token;

    public static void main(String[] words) throws Exception {
        Grid grid = new Grid(words[0], Path.of(words[1]), System.getenv("PHALANX_TOKEN"));
        String folder = words[2];
        System.out.println("this is the grid as " + get(grid.ask("GET", "/me", null), "user") + " sees it");

        // A job: four processes, each with its own index.
        Object job = get(grid.ask("POST", "/jobs", Map.of(
            "command", List.of("sh", "-c", "echo $((PHALANX_INDEX * PHALANX_INDEX)) > square"),
            "first", 1, "count", 4, "outputs", List.of("square"))), "id");
        grid.events("/jobs/" + job + "/events", event -> System.out.println("job " + job + " is " + get(event, "state")));

        // Each output goes into a tuple space, and into a file of the hub's machine.
        StringBuilder squares = new StringBuilder();
        for (int index = 1; index <= 4; index++) {
            String square = grid.text("/jobs/" + job + "/processes/" + index + "/outputs/square");
            grid.ask("POST", "/spaces/open.java/out", Map.of("tuple", List.of("square", Long.parseLong(square.strip()))));
            squares.append(square);
        }
        grid.write(folder + "/squares.txt", squares.toString());
        System.out.print(grid.text("/files" + folder + "/squares.txt"));

        // Taken for ten seconds: if this program died here, the tuple would go back.
        long sum = 0;
        Map<String, ?> template = Map.of("template", List.of("square", Map.of("type", "integer")), "timeout", 5, "lease", 10);
        for (int count = 0; count < 4; count++) {
            Object found = grid.ask("POST", "/spaces/open.java/in", template);
            sum += (long) ((List<?>) get(found, "tuple")).get(1);
            grid.ask("POST", "/taken/" + get(found, "taken") + "/keep", null);
        }
        System.out.println("the sum of the squares from 1 to 4 is " + sum);
    }

    /** A grid whose hub is at this address. The file has the certificate by which the hub is known. */
    Grid(String url, Path authority, String token) throws Exception {
        KeyStore known = KeyStore.getInstance(KeyStore.getDefaultType());
        known.load(null, null);
        try (InputStream file = Files.newInputStream(authority)) {
            known.setCertificateEntry("grid", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(known);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        this.http = HttpClient.newBuilder().sslContext(context).build();
        this.url = url + "/phalanx/v1";
        this.token = token;
    }

    /** Asks with JSON, and returns the JSON of the answer. */
    Object ask(String method, String path, Object body) throws Exception {
        var sent = body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(write(body));
        return new Json(checked(http.send(request(path).method(method, sent).build(), BodyHandlers.ofString()))).read();
    }

    /** What a file, an output or a log has. */
    String text(String path) throws Exception {
        return checked(http.send(request(path).build(), BodyHandlers.ofString()));
    }

    /** Writes a file of the hub's machine. */
    void write(String path, String content) throws Exception {
        checked(http.send(request("/files" + path).PUT(BodyPublishers.ofString(content)).build(), BodyHandlers.ofString()));
    }

    /** Reads Server-Sent Events until they end. */
    void events(String path, Listener listener) throws Exception {
        HttpResponse<Stream<String>> answer = http.send(request(path).build(), BodyHandlers.ofLines());
        if (answer.statusCode() != 200) {
            throw new IOException(path + ": " + answer.body().collect(Collectors.joining()));
        }
        answer.body().filter(line -> line.startsWith("data: ")).forEach(line -> listener.hear(new Json(line.substring(6)).read()));
    }

    interface Listener {
        void hear(Object event);
    }

    private HttpRequest.Builder request(String path) {
        String encoded = Stream.of(path.split("/"))
            .map(part -> URLEncoder.encode(part, StandardCharsets.UTF_8).replace("+", "%20"))
            .collect(Collectors.joining("/"));
        return HttpRequest.newBuilder(URI.create(url + encoded)).header("Authorization", "Bearer " + token);
    }

    private static String checked(HttpResponse<String> answer) throws IOException {
        if (answer.statusCode() >= 400) {
            throw new IOException(answer.uri().getPath() + ": " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }

    static Object get(Object object, String name) {
        return ((Map<?, ?>) object).get(name);
    }

    /** Writes JSON. */
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(it -> write(it.getKey()) + ":" + write(it.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Grid::write).collect(Collectors.joining(",", "[", "]"));
        }
        if (!(value instanceof String text)) {
            return String.valueOf(value);
        }
        StringBuilder written = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            boolean isPlain = letter >= ' ' && letter != '"' && letter != '\\';
            written.append(isPlain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return written.append('"').toString();
    }

    /** Reads JSON: maps, lists, texts, Long, Double, Boolean and null. A program of yours takes a library for it. */
    private static class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object read() {
            char first = peek();
            return first == '{' ? map() : first == '[' ? list() : first == '"' ? string() : word();
        }

        private char peek() {
            while (Character.isWhitespace(text.charAt(at))) at++;
            return text.charAt(at);
        }

        /** Whether one more item follows, before the bracket that ends them. */
        private boolean goesOn(char end) {
            if (peek() == ',') at++;
            if (peek() != end) return true;
            at++;
            return false;
        }

        private Map<String, Object> map() {
            Map<String, Object> map = new LinkedHashMap<>();
            for (at++; goesOn('}');) {
                String name = string();
                peek();
                at++; // the colon
                map.put(name, read());
            }
            return map;
        }

        private List<Object> list() {
            List<Object> list = new ArrayList<>();
            for (at++; goesOn(']');) list.add(read());
            return list;
        }

        private String string() {
            StringBuilder read = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                if (text.charAt(at) != '\\') {
                    read.append(text.charAt(at));
                } else if (text.charAt(++at) == 'u') {
                    read.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    int known = "bfnrt".indexOf(text.charAt(at));
                    read.append(known < 0 ? text.charAt(at) : "\b\f\n\r\t".charAt(known));
                }
            }
            at++;
            return read.toString();
        }

        private Object word() {
            int start = at;
            while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(start, at);
            if (word.equals("null")) return null;
            if (word.equals("true") || word.equals("false")) return word.equals("true");
            if (word.matches("-?[0-9]+")) return Long.parseLong(word);
            return Double.parseDouble(word);
        }
    }
}
