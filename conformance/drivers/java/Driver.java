// A driver of Pulsar's Java client, for pulsar-conformance. docs/driver-protocol.md specifies the protocol.
//
// It is compiled against 2.11.0, and uses only the public API, so that one class runs with the jars of every release since.
// Sends are asynchronous and in the order of the requests; each other request runs on a thread of its own.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

public final class Driver {
    private static final List<Object> FEATURES = List.of(
            "abort", "ack-oldest-chunked", "batch-index-ack", "batching", "chunking", "compression", "cumulative-ack",
            "is-connected", "key-shared", "last-sequence-id", "max-pending-chunked", "nack", "ordering-key", "redeliver",
            "redelivery-count", "replicated-subscriptions", "sequence-id", "tls", "token");

    /** Errors whose names in Pulsar's protocol are not those of the exceptions. */
    private static final Map<String, String> CODES = Map.of(
            "BrokerMetadata", "MetadataError", "BrokerPersistence", "PersistenceError",
            "TopicTerminated", "TopicTerminatedError", "Authorization", "AuthorizationError",
            "Authentication", "AuthenticationError", "NotAllowed", "NotAllowedError",
            "TopicDoesNotExist", "TopicNotFound", "ConsumerAssign", "ConsumerAssignError",
            "Checksum", "ChecksumError", "InvalidMessage", "MessageTooBig");

    private static final class Received {
        final Consumer<byte[]> consumer;
        final List<MessageId> ids = Collections.synchronizedList(new ArrayList<>());

        Received(Consumer<byte[]> consumer) {
            this.consumer = consumer;
        }
    }

    private final PrintStream out;
    private final Map<String, PulsarClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Producer<byte[]>> producers = new ConcurrentHashMap<>();
    private final Map<String, Received> consumers = new ConcurrentHashMap<>();
    /** By the ids of receives; one without a thread has not begun. Guarded by itself. */
    private final Map<Long, Thread> receiving = new LinkedHashMap<>();
    private final ExecutorService others = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    private Driver(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // what a library prints is no message of the protocol
        Driver driver = new Driver(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            driver.take(new Json(line).object());
        }
        Runtime.getRuntime().halt(0);
    }

    private void take(Map<String, Object> request) {
        switch (text(request, "type")) {
            case "send":
                perform(request, () -> send(request));
                break;
            case "flush":
                perform(request, () -> producer(request).flushAsync().whenComplete((none, error) -> answer(request, error)));
                break;
            default:
                if (text(request, "type").equals("receive")) {
                    synchronized (receiving) {
                        receiving.put(number(request, "id", 0), null);
                    }
                }
                others.execute(() -> perform(request, () -> say(request, other(request))));
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private void perform(Map<String, Object> request, Work work) {
        try {
            work.run();
        } catch (Throwable error) {
            answer(request, error);
        }
    }

    private void send(Map<String, Object> request) {
        TypedMessageBuilder<byte[]> message = producer(request).newMessage()
                .value(Base64.getDecoder().decode(text(request, "payload")));
        if (request.get("sequence_id") != null) {
            message.sequenceId(number(request, "sequence_id", 0));
        }
        if (request.get("key") != null) {
            message.key(text(request, "key"));
        }
        if (request.get("ordering_key") != null) {
            message.orderingKey(text(request, "ordering_key").getBytes(StandardCharsets.UTF_8));
        }
        if (request.get("properties") instanceof Map<?, ?> properties) {
            properties.forEach((key, value) -> message.property((String) key, (String) value));
        }
        message.sendAsync().whenComplete((id, error) -> {
            if (error != null) {
                answer(request, error);
            } else {
                say(request, position(id, fields("type", "sent")));
            }
        });
    }

    /** Performs a request and returns its answer. */
    private Map<String, Object> other(Map<String, Object> request) throws Exception {
        switch (text(request, "type")) {
            case "hello":
                return fields("type", "hello", "protocol", 1L, "client", "java", "features", FEATURES,
                        "version", System.getProperty("driver.version", "unknown"));
            case "connect":
                clients.put(text(request, "client"), connected(request));
                break;
            case "open-producer":
                Producer<byte[]> opened = opened(request);
                producers.put(text(request, "producer"), opened);
                return fields("type", "opened", "name", opened.getProducerName(),
                        "last_sequence_id", opened.getLastSequenceId());
            case "last-sequence-id":
                return fields("type", "sequence-id", "last_sequence_id", producer(request).getLastSequenceId());
            case "subscribe":
                consumers.put(text(request, "consumer"), new Received(subscribed(request)));
                break;
            case "receive":
                return received(request);
            case "acknowledge":
                if (flag(request, "cumulative", false)) {
                    consumer(request).consumer.acknowledgeCumulativeAsync(id(request)).get();
                } else {
                    consumer(request).consumer.acknowledgeAsync(id(request)).get();
                }
                break;
            case "nack":
                consumer(request).consumer.negativeAcknowledge(id(request));
                break;
            case "redeliver":
                consumer(request).consumer.redeliverUnacknowledgedMessages();
                break;
            case "unsubscribe":
                consumer(request).consumer.unsubscribe();
                break;
            case "is-connected":
                return fields("type", "connected", "connected", consumer(request).consumer.isConnected());
            case "close":
                close(text(request, "name"));
                break;
            case "abort":
                PulsarClient client = clients.get(text(request, "client"));
                if (client != null && !client.isClosed()) {
                    client.shutdown();
                }
                break;
            case "cancel":
                cancel(number(request, "request", 0));
                break;
            default:
                return fields("type", "error", "message", "unknown request " + text(request, "type"));
        }
        return fields("type", "done");
    }

    private PulsarClient connected(Map<String, Object> request) throws Exception {
        int timeout = (int) number(request, "timeout_ms", 10_000);
        ClientBuilder builder = PulsarClient.builder().serviceUrl(text(request, "url")).ioThreads(1).listenerThreads(1)
                .operationTimeout(timeout, TimeUnit.MILLISECONDS).connectionTimeout(timeout, TimeUnit.MILLISECONDS);
        if (request.get("token") != null) {
            builder.authentication(AuthenticationFactory.token(text(request, "token")));
        }
        if (request.get("trust_certs_file") != null) {
            builder.tlsTrustCertsFilePath(text(request, "trust_certs_file"));
        }
        boolean insecure = flag(request, "allow_insecure", false);
        return builder.allowTlsInsecureConnection(insecure)
                .enableTlsHostnameVerification(!insecure && flag(request, "verify_hostname", true)).build();
    }

    private Producer<byte[]> opened(Map<String, Object> request) throws Exception {
        boolean batching = flag(request, "batching", false);
        ProducerBuilder<byte[]> builder = client(request).newProducer().topic(text(request, "topic"))
                .sendTimeout((int) number(request, "send_timeout_ms", 0), TimeUnit.MILLISECONDS)
                .enableBatching(batching).enableChunking(flag(request, "chunking", false));
        if (batching) {
            builder.batchingMaxPublishDelay(Math.max(1, number(request, "batch_delay_ms", 1)), TimeUnit.MILLISECONDS)
                    .batchingMaxMessages((int) number(request, "batch_messages", 1000));
        }
        if (request.get("name") != null) {
            builder.producerName(text(request, "name"));
        }
        if (request.get("initial_sequence_id") != null) {
            builder.initialSequenceId(number(request, "initial_sequence_id", 0));
        }
        switch (request.getOrDefault("compression", "none").toString()) {
            case "lz4":
                builder.compressionType(CompressionType.LZ4);
                break;
            case "zlib":
                builder.compressionType(CompressionType.ZLIB);
                break;
            default:
        }
        return builder.create();
    }

    private Consumer<byte[]> subscribed(Map<String, Object> request) throws Exception {
        boolean earliest = "earliest".equals(request.get("initial"));
        ConsumerBuilder<byte[]> builder = client(request).newConsumer().topic(text(request, "topic"))
                .subscriptionName(text(request, "subscription")).subscriptionType(type(text(request, "kind")))
                .subscriptionInitialPosition(
                        earliest ? SubscriptionInitialPosition.Earliest : SubscriptionInitialPosition.Latest)
                .receiverQueueSize((int) number(request, "queue", 1000))
                .negativeAckRedeliveryDelay(number(request, "nack_delay_ms", 60_000), TimeUnit.MILLISECONDS)
                .enableBatchIndexAcknowledgment(flag(request, "batch_index_ack", false))
                .maxPendingChunkedMessage((int) number(request, "max_pending_chunked", 10))
                .autoAckOldestChunkedMessageOnQueueFull(flag(request, "ack_oldest_chunked", false))
                .replicateSubscriptionState(flag(request, "replicated", false));
        if (request.get("name") != null) {
            builder.consumerName(text(request, "name"));
        }
        return builder.subscribe();
    }

    private static SubscriptionType type(String kind) {
        return kind.equals("Key_Shared") ? SubscriptionType.Key_Shared : SubscriptionType.valueOf(kind);
    }

    private Map<String, Object> received(Map<String, Object> request) throws Exception {
        Received from = consumer(request);
        long number = number(request, "id", 0);
        synchronized (receiving) {
            if (!receiving.containsKey(number)) {
                return fields("type", "cancelled");
            }
            receiving.put(number, Thread.currentThread());
        }
        Message<byte[]> message = null;
        boolean cancelled;
        try {
            message = from.consumer.receive((int) number(request, "timeout_ms", 0), TimeUnit.MILLISECONDS);
        } catch (PulsarClientException error) {
            if (!(error.getCause() instanceof InterruptedException)) {
                throw error;
            }
        } finally {
            synchronized (receiving) {
                cancelled = !receiving.containsKey(number);
                receiving.remove(number);
            }
        }
        if (message == null) {
            return fields("type", cancelled ? "cancelled" : "nothing");
        }
        Map<String, Object> answer = position(message.getMessageId(), fields("type", "message"));
        synchronized (from.ids) {
            answer.put("message", (long) from.ids.size());
            from.ids.add(message.getMessageId());
        }
        answer.put("payload", Base64.getEncoder().encodeToString(message.getData()));
        answer.put("topic", message.getTopicName());
        answer.put("producer", message.getProducerName());
        answer.put("properties", message.getProperties());
        answer.put("redelivery_count", (long) message.getRedeliveryCount());
        if (message.hasKey()) {
            answer.put("key", message.getKey());
        }
        if (message.hasOrderingKey()) {
            answer.put("ordering_key", new String(message.getOrderingKey(), StandardCharsets.UTF_8));
        }
        return answer;
    }

    private void cancel(long number) {
        synchronized (receiving) {
            Thread waits = receiving.remove(number);
            if (waits != null) {
                waits.interrupt();
            }
        }
    }

    private void close(String name) throws Exception {
        if (producers.containsKey(name)) {
            producers.remove(name).close();
        } else if (consumers.containsKey(name)) {
            consumers.remove(name).consumer.close();
        } else {
            clients.remove(name).close();
        }
    }

    /** Adds the position that an id has, read from its public form, which is a MessageIdData of Pulsar's protocol. */
    private static Map<String, Object> position(MessageId id, Map<String, Object> answer) {
        byte[] bytes = id.toByteArray();
        long[] values = {0, -1, -1, -1, -1};
        int at = 0;
        while (at < bytes.length) {
            long[] tag = varint(bytes, at);
            long[] value = varint(bytes, (int) tag[1]);
            at = (int) value[1] + ((tag[0] & 7) == 2 ? (int) value[0] : 0);
            int field = (int) (tag[0] >>> 3);
            if ((tag[0] & 7) == 0 && field < values.length) {
                values[field] = value[0];
            }
        }
        answer.put("ledger", values[1]);
        answer.put("entry", values[2]);
        answer.put("batch_index", (long) (int) values[4]);
        return answer;
    }

    /** A number of variable length, and where it ends. */
    private static long[] varint(byte[] bytes, int start) {
        long value = 0;
        int at = start;
        for (int shift = 0;; shift += 7) {
            byte next = bytes[at++];
            value |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return new long[] {value, at};
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------- answers

    /** Answers a request with what the client said no with, or {@code done}. */
    private void answer(Map<String, Object> request, Throwable thrown) {
        Throwable error = thrown;
        while ((error instanceof CompletionException || error instanceof ExecutionException) && error.getCause() != null) {
            error = error.getCause();
        }
        if (error == null) {
            say(request, fields("type", "done"));
        } else if (!(error instanceof PulsarClientException)) {
            say(request, fields("type", "error", "message", error.toString()));
        } else if (error instanceof PulsarClientException.TimeoutException) {
            say(request, fields("type", "gave-up", "why", "timeout", "message", message(error)));
        } else if (error instanceof PulsarClientException.AlreadyClosedException
                || error instanceof PulsarClientException.ConnectException
                || error instanceof PulsarClientException.NotConnectedException
                || error.getClass() == PulsarClientException.class) {
            say(request, fields("type", "gave-up", "why", "disconnected", "message", message(error)));
        } else {
            String name = error.getClass().getSimpleName().replaceAll("Exception$", "");
            say(request, fields("type", "refused", "code", CODES.getOrDefault(name, name), "message", message(error)));
        }
    }

    private static String message(Throwable error) {
        return String.valueOf(error.getMessage());
    }

    private void say(Map<String, Object> request, Map<String, Object> answer) {
        answer.put("id", request.get("id"));
        byte[] line = (Json.written(answer) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(line, 0, line.length);
            out.flush();
        }
    }

    private static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            made.put((String) pairs[at], pairs[at + 1]);
        }
        return made;
    }

    // ------------------------------------------------------------------------------------------------------ requests

    private PulsarClient client(Map<String, Object> request) {
        return named(clients, text(request, "client"));
    }

    private Producer<byte[]> producer(Map<String, Object> request) {
        return named(producers, text(request, "producer"));
    }

    private Received consumer(Map<String, Object> request) {
        return named(consumers, text(request, "consumer"));
    }

    private MessageId id(Map<String, Object> request) {
        return consumer(request).ids.get((int) number(request, "message", 0));
    }

    private static <T> T named(Map<String, T> all, String name) {
        T found = all.get(name);
        if (found == null) {
            throw new IllegalArgumentException("there is no " + name);
        }
        return found;
    }

    private static String text(Map<String, Object> request, String name) {
        return (String) request.get(name);
    }

    private static long number(Map<String, Object> request, String name, long otherwise) {
        return request.get(name) instanceof Long given ? given : otherwise;
    }

    private static boolean flag(Map<String, Object> request, String name, boolean otherwise) {
        return request.get(name) instanceof Boolean given ? given : otherwise;
    }

    /** Just enough JSON for the protocol: objects, lists, texts, whole numbers, true, false and null. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Map<String, Object> object() {
            Map<String, Object> made = new LinkedHashMap<>();
            expect('{');
            while (next() != '}') {
                String name = string();
                expect(':');
                made.put(name, value());
                if (next() == ',') {
                    at++;
                }
            }
            at++;
            return made;
        }

        private Object value() {
            char first = next();
            switch (first) {
                case '{':
                    return object();
                case '"':
                    return string();
                case 't':
                    at += 4;
                    return true;
                case 'f':
                    at += 5;
                    return false;
                case 'n':
                    at += 4;
                    return null;
                default:
                    int start = at;
                    while (at < text.length() && "-0123456789".indexOf(text.charAt(at)) >= 0) {
                        at++;
                    }
                    return Long.parseLong(text.substring(start, at));
            }
        }

        private String string() {
            StringBuilder made = new StringBuilder();
            expect('"');
            for (char one = text.charAt(at++); one != '"'; one = text.charAt(at++)) {
                if (one != '\\') {
                    made.append(one);
                    continue;
                }
                char escaped = text.charAt(at++);
                int plain = "nrtbf".indexOf(escaped);
                if (escaped == 'u') {
                    made.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    made.append(plain < 0 ? escaped : "\n\r\t\b\f".charAt(plain));
                }
            }
            return made.toString();
        }

        private char next() {
            while (Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            return text.charAt(at);
        }

        private void expect(char wanted) {
            if (next() != wanted) {
                throw new IllegalArgumentException("no " + wanted + " at " + at + " of " + text);
            }
            at++;
        }

        static String written(Object value) {
            StringBuilder made = new StringBuilder();
            if (value instanceof Map<?, ?> map) {
                map.forEach((key, one) ->
                        made.append(made.length() == 0 ? "" : ",").append(written(key)).append(':').append(written(one)));
                return "{" + made + "}";
            }
            if (value instanceof List<?> list) {
                list.forEach(one -> made.append(made.length() == 0 ? "" : ",").append(written(one)));
                return "[" + made + "]";
            }
            if (!(value instanceof String text)) {
                return String.valueOf(value);
            }
            for (char one : text.toCharArray()) {
                boolean plain = one >= ' ' && one != '"' && one != '\\';
                made.append(plain ? String.valueOf(one) : String.format("\\u%04x", (int) one));
            }
            return '"' + made.toString() + '"';
        }
    }
}
