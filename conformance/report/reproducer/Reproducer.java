/*
 * @text@
 */

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.ServerSocket;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.impl.ConsumerImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.client.impl.TypedMessageBuilderImpl;
import org.apache.pulsar.common.policies.data.ConsumerStats;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.protocol.Commands;

public class Reproducer {

    static final Map<String, String> SETTINGS = Map.of();
    static final int TRIES = 1;
    static final long TIMEOUT_MS = 10_000;

    static String serviceUrl = "pulsar://localhost:6650";
    static String adminUrl = "http://localhost:8080";
    static PulsarAdmin admin;
    static Broker broker;

    static final List<String> namespaces = new ArrayList<>();
    static final Map<String, String> topics = new HashMap<>();
    static final Map<String, PulsarClient> clients = new LinkedHashMap<>();
    static final Map<String, Producer<String>> producers = new HashMap<>();
    static final Map<String, Consumer<String>> consumers = new LinkedHashMap<>();
    static final Map<String, Reader<String>> readers = new HashMap<>();
    static final Map<String, MessageId> ids = new HashMap<>();
    static final Map<String, Map<String, Message<String>>> received = new HashMap<>();

    static void steps() throws Exception {
        // @steps@
    }

    /** The broker or the client does not do what the documentation says. */
    static class Found extends Exception {
        Found(String why) {
            super(why);
        }
    }

    interface Request {
        void perform() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 2) {
            serviceUrl = arguments[0];
            adminUrl = arguments[1];
        } else {
            broker = new Broker();
            try {
                broker.start();
            } catch (Exception error) {
                System.out.println("The steps could not be performed: " + error);
                System.exit(2);
            }
        }
        admin = PulsarAdmin.builder().serviceHttpUrl(adminUrl).build();
        int status = run();
        admin.close();
        System.exit(status);
    }

    static int run() throws Exception {
        for (int attempt = 0; attempt < TRIES; attempt++) {
            try {
                steps();
            } catch (Found found) {
                System.out.println("It is there: " + found.getMessage() + ".");
                return 1;
            } catch (Exception error) {
                System.out.println("The steps could not be performed: " + error);
                return 2;
            } finally {
                cleanUp();
            }
        }
        System.out.println("It is not there.");
        Map<String, String> actual = admin.brokers().getRuntimeConfigurations();
        SETTINGS.forEach((name, value) -> {
            if (!actual.getOrDefault(name, value).equals(value)) {
                String shown = name + "=" + actual.get(name);
                System.out.println("The broker has " + shown + "; it was found with " + value + ".");
            }
        });
        return 0;
    }

    /** A standalone broker of the release on the class path, with the settings, on ports and data of its own. */
    static class Broker {
        final int servicePort = freePort();
        final int adminPort = freePort();
        final int bookiePort = freePort();
        final int zookeeperPort = freePort();
        final Path folder;
        Process process;

        Broker() throws Exception {
            folder = Files.createTempDirectory("pulsar");
            Runtime.getRuntime().addShutdownHook(new Thread(this::remove));
            String jar = System.getProperty("java.class.path").split(System.getProperty("path.separator"))[0];
            Path shipped = Paths.get(jar).toAbsolutePath().getParent().resolveSibling("conf").resolve("standalone.conf");
            Map<String, String> settings = new HashMap<>(SETTINGS);
            settings.put("clusterName", "standalone");
            settings.put("bindAddress", "127.0.0.1");
            settings.put("advertisedAddress", "127.0.0.1");
            settings.put("brokerServicePort", String.valueOf(servicePort));
            settings.put("webServicePort", String.valueOf(adminPort));
            settings.put("allowLoopback", "true");
            settings.put("allowEphemeralPorts", "true");
            List<String> lines = new ArrayList<>(Files.readAllLines(shipped));
            lines.removeIf(line -> settings.containsKey(line.split("=")[0].trim()));
            settings.forEach((name, value) -> lines.add(name + "=" + value));
            Files.write(folder.resolve("standalone.conf"), lines);
            serviceUrl = "pulsar://127.0.0.1:" + servicePort;
            adminUrl = "http://127.0.0.1:" + adminPort;
        }

        /** Start it on the data that it has, and wait until it answers. */
        void start() throws Exception {
            List<String> command = new ArrayList<>(List.of(
                    Paths.get(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx512m",
                    "-XX:MaxDirectMemorySize=256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
            for (String opened : List.of("java.base/java.io", "java.base/java.util.zip", "java.base/java.nio",
                    "java.base/jdk.internal.misc", "java.base/jdk.internal.platform",
                    "java.management/sun.management", "jdk.management/com.sun.management.internal")) {
                command.addAll(List.of("--add-opens", opened + "=ALL-UNNAMED"));
            }
            command.addAll(List.of("-cp", System.getProperty("java.class.path"),
                    "org.apache.pulsar.PulsarStandaloneStarter",
                    "--config", folder.resolve("standalone.conf").toString(), "--no-functions-worker",
                    "--no-stream-storage", "--advertised-address", "127.0.0.1",
                    "--bookkeeper-dir", folder.resolve("bookkeeper").toString()));
            if (hasOption("--bookkeeper-port")) {
                command.addAll(List.of("--bookkeeper-port", String.valueOf(bookiePort)));
            }
            command.addAll(hasOption("--metadata-dir")
                    ? List.of("--metadata-dir", folder.resolve("metadata").toString())
                    : List.of("--zookeeper-port", String.valueOf(zookeeperPort),
                            "--zookeeper-dir", folder.resolve("zookeeper").toString()));
            process = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile())).start();
            long deadline = System.currentTimeMillis() + 300_000;
            while (!isReady()) {
                if (!process.isAlive() || System.currentTimeMillis() > deadline) {
                    List<String> log = Files.readAllLines(folder.resolve("log"));
                    throw new IllegalStateException("the broker does not start: "
                            + String.join("\n", log.subList(Math.max(0, log.size() - 20), log.size())));
                }
                Thread.sleep(200);
            }
        }

        void kill() throws Exception {
            process.destroyForcibly().waitFor();
        }

        boolean isReady() {
            return answers("lookup/v2/topic/persistent/public/default/ready").contains("brokerUrl")
                    && answers("admin/v2/namespaces/public").contains("public/default");
        }

        String answers(String path) {
            try (var body = new URL(adminUrl + "/" + path).openStream()) {
                return new String(body.readAllBytes());
            } catch (IOException error) {
                return "";
            }
        }

        /** Whether the command line of this release has an option. */
        static boolean hasOption(String option) throws Exception {
            String file = "org/apache/pulsar/PulsarStandalone.class";
            try (var bytes = Reproducer.class.getClassLoader().getResourceAsStream(file)) {
                return new String(bytes.readAllBytes(), "ISO-8859-1").contains(option);
            }
        }

        static int freePort() {
            try (ServerSocket socket = new ServerSocket(0)) {
                return socket.getLocalPort();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        void remove() {
            if (process != null) {
                process.destroyForcibly();
                process.onExit().join();
            }
            try (var files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            } catch (IOException error) {
                System.out.println(folder + " is left: " + error.getMessage());
            }
        }
    }

    /** End all clients without closing what they use, kill the broker (SIGKILL), and start it again on the same data. */
    static void killBroker() throws Exception {
        if (broker == null) {
            throw new IllegalStateException("it kills the broker, so it needs one of its own: run it without addresses");
        }
        for (String name : new ArrayList<>(clients.keySet())) {
            crash(name);
        }
        broker.kill();
        broker.start();
    }

    static String namespaceOf(String topic) {
        String[] parts = topics.get(topic).split("/");
        return parts[2] + "/" + parts[3];
    }

    /** Create a topic in a namespace of its own. */
    static void createTopic(String topic, Boolean deduplication, boolean isTrimmed, int partitions) throws Exception {
        String namespace = "public/reproducer-" + System.nanoTime() + "-" + topic;
        admin.namespaces().createNamespace(namespace);
        namespaces.add(namespace);
        int kept = isTrimmed ? 0 : -1;
        admin.namespaces().setRetention(namespace, new RetentionPolicies(kept, kept));
        if (deduplication != null) {
            admin.namespaces().setDeduplicationStatus(namespace, deduplication);
        }
        topics.put(topic, "persistent://" + namespace + "/" + topic);
        if (partitions > 0) {
            admin.topics().createPartitionedTopic(topics.get(topic), partitions);
        } else {
            admin.topics().createNonPartitionedTopic(topics.get(topic));
        }
        for (int number = 0; number < partitions; number++) {
            topics.put(topic + "-partition-" + number, topics.get(topic) + "-partition-" + number);
        }
    }

    /** How often a cursor is persisted at most; 0: with every ack. */
    static void setPersistence(String topic, double mostPerS) throws Exception {
        admin.namespaces().setPersistence(namespaceOf(topic), new PersistencePolicies(1, 1, 1, mostPerS));
    }

    /** Recovery reads all entries of the topic again, as no snapshot is taken by time. */
    static void takeNoSnapshots(String topic) throws Exception {
        admin.namespaces().setDeduplicationSnapshotInterval(namespaceOf(topic), 0);
    }

    static void setLimits(String topic, int consumers, int unacknowledged, int inAll) throws Exception {
        admin.namespaces().setMaxConsumersPerSubscription(namespaceOf(topic), consumers);
        admin.namespaces().setMaxUnackedMessagesPerConsumer(namespaceOf(topic), unacknowledged);
        admin.namespaces().setMaxUnackedMessagesPerSubscription(namespaceOf(topic), inAll);
    }

    static void setNamespaceDeduplication(String topic, boolean isOn) throws Exception {
        admin.namespaces().setDeduplicationStatus(namespaceOf(topic), isOn);
    }

    static void setTopicDeduplication(String topic, boolean isOn) throws Exception {
        admin.topicPolicies().setDeduplicationStatus(topics.get(topic), isOn);
    }

    static void unload(String topic) throws Exception {
        admin.topics().unload(topics.get(topic));
    }

    static void terminate(String topic) throws Exception {
        admin.topics().terminateTopic(topics.get(topic));
    }

    static void trim(String topic) throws Exception {
        admin.topics().trimTopic(topics.get(topic));
    }

    static void createSubscription(String topic, String subscription, String start) throws Exception {
        MessageId at = start.equals("earliest") ? MessageId.earliest : MessageId.latest;
        admin.topics().createSubscription(topics.get(topic), subscription, at);
    }

    static void deleteSubscription(String topic, String subscription, boolean byForce) throws Exception {
        admin.topics().deleteSubscription(topics.get(topic), subscription, byForce);
    }

    static void skip(String topic, String subscription, int count) throws Exception {
        admin.topics().skipMessages(topics.get(topic), subscription, count);
    }

    static void skipAll(String topic, String subscription) throws Exception {
        admin.topics().skipAllMessages(topics.get(topic), subscription);
    }

    static void expireUpTo(String topic, String subscription, String message) throws Exception {
        admin.topics().expireMessages(topics.get(topic), subscription, ids.get(message), false);
    }

    static void expireOlder(String topic, String subscription, int seconds) throws Exception {
        admin.topics().expireMessages(topics.get(topic), subscription, seconds);
    }

    static void expireOlderOfAll(String topic, int seconds) throws Exception {
        admin.topics().expireMessagesForAllSubscriptions(topics.get(topic), seconds);
    }

    static void setTtl(String topic, int seconds) throws Exception {
        admin.topicPolicies().setMessageTTL(topics.get(topic), seconds);
    }

    /** Reset to a message, or, without a name, to the earliest. */
    static void resetCursor(String topic, String subscription, String message, boolean isAfter) throws Exception {
        MessageId to = message.isEmpty() ? MessageId.earliest : ids.get(message);
        admin.topics().resetCursor(topics.get(topic), subscription, to, isAfter);
    }

    static void peek(String topic, String subscription, int nth) throws Exception {
        if (admin.topics().peekMessages(topics.get(topic), subscription, nth).size() < nth) {
            throw new IllegalStateException("there is no such message");
        }
    }

    static void analyzeBacklog(String topic, String subscription) throws Exception {
        admin.topics().analyzeSubscriptionBacklog(topics.get(topic), subscription, Optional.empty());
    }

    static void examine(String topic, int nth, boolean fromEnd) throws Exception {
        admin.topics().examineMessage(topics.get(topic), fromEnd ? "latest" : "earliest", nth);
    }

    /** Read the entry of a message, or one that is later in its ledger by so many. */
    static void readMessage(String topic, String message, int later) throws Exception {
        MessageIdAdv at = (MessageIdAdv) ids.get(message);
        admin.topics().getMessageById(topics.get(topic), at.getLedgerId(), at.getEntryId() + later);
    }

    static SubscriptionStats stats(String topic, String subscription) {
        try {
            return admin.topics().getStats(topics.get(topic)).getSubscriptions().get(subscription);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A client for each producer, consumer and reader, so that each has a connection of its own. */
    static PulsarClient client(String name) throws Exception {
        clients.put(name, PulsarClient.builder().serviceUrl(serviceUrl).build());
        return clients.get(name);
    }

    static void openProducer(String session, String topic, String name, boolean isBatching, String access)
            throws Exception {
        producers.put(session, client(session).newProducer(Schema.STRING)
                .topic(topics.get(topic))
                .producerName(name)
                .enableBatching(isBatching)
                .batchingMaxPublishDelay(60, TimeUnit.SECONDS)
                .accessMode(ProducerAccessMode.valueOf(access))
                .create());
    }

    /** A message that is not sent yet. */
    static class Outgoing {
        final String name;
        final long sequenceId;
        String key;
        String orderingKey;
        int size;
        int delay;
        String chunkOf;
        int chunkId;
        int chunks;

        Outgoing(String name, long sequenceId) {
            this.name = name;
            this.sequenceId = sequenceId;
        }

        Outgoing key(String key) {
            this.key = key;
            return this;
        }

        Outgoing orderingKey(String orderingKey) {
            this.orderingKey = orderingKey;
            return this;
        }

        Outgoing size(int size) {
            this.size = size;
            return this;
        }

        Outgoing delay(int delay) {
            this.delay = delay;
            return this;
        }

        Outgoing chunkOf(String uuid) {
            this.chunkOf = uuid;
            return this;
        }

        Outgoing chunkId(int chunkId) {
            this.chunkId = chunkId;
            return this;
        }

        Outgoing chunks(int chunks) {
            this.chunks = chunks;
            return this;
        }

        CompletableFuture<MessageId> sendWith(Producer<String> producer) {
            String value = size > name.length() ? String.format("%-" + size + "s", name) : name;
            TypedMessageBuilder<String> message = producer.newMessage().value(value).sequenceId(sequenceId);
            if (key != null) {
                message.key(key);
            }
            if (orderingKey != null) {
                message.orderingKey(orderingKey.getBytes());
            }
            if (delay > 0) {
                message.deliverAfter(delay, TimeUnit.MILLISECONDS);
            }
            if (chunkOf != null) {
                ((TypedMessageBuilderImpl<String>) message).getMetadataBuilder().setUuid(chunkOf).setChunkId(chunkId)
                        .setNumChunksFromMsg(chunks).setTotalChunkMsgSize(chunks * value.length());
            }
            return message.sendAsync();
        }
    }

    static Outgoing message(String name, long sequenceId) {
        return new Outgoing(name, sequenceId);
    }

    /** What becomes one entry of the log: a message, or a batch. */
    static List<Outgoing> entry(Outgoing... messages) {
        return Arrays.asList(messages);
    }

    /** Send entries, all in flight at once. */
    @SafeVarargs
    static void send(String session, List<Outgoing>... entries) throws Exception {
        Producer<String> producer = producers.get(session);
        Map<String, CompletableFuture<MessageId>> sent = new LinkedHashMap<>();
        for (List<Outgoing> one : entries) {
            for (Outgoing message : one) {
                sent.put(message.name, message.sendWith(producer));
            }
            producer.flushAsync();
        }
        for (Map.Entry<String, CompletableFuture<MessageId>> one : sent.entrySet()) {
            ids.putIfAbsent(one.getKey(), one.getValue().get(30, TimeUnit.SECONDS));
        }
    }

    static void subscribe(String consumer, String topic, String subscription, String kind, String start, int queue)
            throws Exception {
        consumers.put(consumer, newConsumer(consumer, topic, subscription, kind, start)
                .receiverQueueSize(queue)
                .subscribe());
    }

    static ConsumerBuilder<String> newConsumer(
            String consumer, String topic, String subscription, String kind, String start) throws Exception {
        received.put(consumer, new HashMap<>());
        return client(consumer).newConsumer(Schema.STRING)
                .topic(topics.get(topic))
                .subscriptionName(subscription)
                .subscriptionType(SubscriptionType.valueOf(kind))
                .subscriptionInitialPosition(start.equals("earliest")
                        ? SubscriptionInitialPosition.Earliest : SubscriptionInitialPosition.Latest)
                .consumerName(consumer)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .isAckReceiptEnabled(true)
                .enableBatchIndexAcknowledgment(true)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS);
    }

    /** What is due depends on the implementation of Key_Shared: with draining hashes, or the one before 4.0. */
    static void demandDrainingHashes(boolean wanted) throws Exception {
        String classic = admin.brokers().getRuntimeConfigurations()
                .getOrDefault("subscriptionKeySharedUseClassicPersistentImplementation", "false");
        String tracker = "org/apache/pulsar/broker/service/DrainingHashesTracker.class";
        boolean isInJars = Reproducer.class.getClassLoader().getResource(tracker) != null;
        if ((isInJars && !Boolean.parseBoolean(classic)) != wanted) {
            throw new IllegalStateException("the broker has another implementation of Key_Shared than the one it was "
                    + "found with, whose consumers may receive other messages");
        }
    }

    /** Subscribe a consumer that is paused: the broker has no permits for it but those of `permit`. */
    static void subscribePaused(
            String consumer, String topic, String subscription, String kind, String start, KeySharedPolicy policy)
            throws Exception {
        ConsumerBuilder<String> builder = newConsumer(consumer, topic, subscription, kind, start)
                .receiverQueueSize(1000)
                .startPaused(true);
        consumers.put(consumer, (policy == null ? builder : builder.keySharedPolicy(policy)).subscribe());
    }

    /** For these hashes: pairs of the first and the last one. */
    static KeySharedPolicy hashRanges(int... ends) {
        List<Range> ranges = new ArrayList<>();
        for (int number = 0; number < ends.length; number += 2) {
            ranges.add(Range.of(ends[number], ends[number + 1]));
        }
        return KeySharedPolicy.stickyHashRange().ranges(ranges);
    }

    static KeySharedPolicy outOfOrder() {
        return KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true);
    }

    /** Give the broker permits for so many more messages. */
    static void permit(String consumer, int count) throws Exception {
        ConsumerImpl<String> one = (ConsumerImpl<String>) consumers.get(consumer);
        Field id = ConsumerImpl.class.getDeclaredField("consumerId");
        id.setAccessible(true);
        one.getClientCnx().ctx().writeAndFlush(Commands.newFlow(id.getLong(one), count));
    }

    /** Request the redelivery of messages at once. */
    static void redeliver(String consumer, String... messages) throws Exception {
        Set<MessageId> entries = new HashSet<>();
        for (String name : messages) {
            MessageIdImpl id = (MessageIdImpl) received.get(consumer).get(name).getMessageId();
            entries.add(new MessageIdImpl(id.getLedgerId(), id.getEntryId(), id.getPartitionIndex()));
        }
        ((ConsumerImpl<String>) consumers.get(consumer)).redeliverUnacknowledgedMessages(entries);
    }

    /** Let the broker dispatch what it dispatches by itself. */
    static void settle() throws Exception {
        Thread.sleep(500);
    }

    /** Receive until the consumer has these messages. */
    static void receive(String consumer, String... messages) throws Exception {
        Set<String> missing = new TreeSet<>(Arrays.asList(messages));
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!missing.isEmpty()) {
            String name = receiveOne(consumer, deadline);
            if (name == null) {
                throw new IllegalStateException(consumer + " does not receive " + String.join(", ", missing));
            }
            missing.remove(name);
        }
    }

    static String receiveOne(String consumer, long deadline) throws Exception {
        long left = Math.max(1, deadline - System.currentTimeMillis());
        Message<String> one = consumers.get(consumer).receive((int) left, TimeUnit.MILLISECONDS);
        if (one == null) {
            return null;
        }
        String name = one.getValue().trim();
        received.get(consumer).put(name, one);
        return name;
    }

    /** Acknowledge messages, and wait until the broker confirms the acks. */
    static void acknowledge(String consumer, String... messages) throws Exception {
        for (String name : messages) {
            consumers.get(consumer).acknowledge(received.get(consumer).get(name));
        }
    }

    static void acknowledgeUpTo(String consumer, String message) throws Exception {
        consumers.get(consumer).acknowledgeCumulative(received.get(consumer).get(message));
    }

    static void negativelyAcknowledge(String consumer, String... messages) {
        for (String name : messages) {
            consumers.get(consumer).negativeAcknowledge(received.get(consumer).get(name));
        }
    }

    static void redeliverUnacknowledged(String consumer) {
        consumers.get(consumer).redeliverUnacknowledgedMessages();
    }

    /** Seek to a message, or, without a name, to the earliest. */
    static void seek(String consumer, String message) throws Exception {
        consumers.get(consumer).seek(message.isEmpty() ? MessageId.earliest : ids.get(message));
    }

    static void unsubscribe(String consumer) throws Exception {
        consumers.get(consumer).unsubscribe();
    }

    static void close(String name) throws Exception {
        producers.remove(name);
        consumers.remove(name);
        clients.remove(name).close();
    }

    /** End the connection without closing what uses it. */
    static void crash(String name) throws Exception {
        producers.remove(name);
        consumers.remove(name);
        clients.remove(name).shutdown();
    }

    /** Open a reader at a message, or, without a name, at the earliest or latest. */
    static void openReader(String reader, String topic, String start, String message, boolean isInclusive, int queue)
            throws Exception {
        MessageId beginning = start.equals("earliest") ? MessageId.earliest : MessageId.latest;
        var builder = client(reader).newReader(Schema.STRING)
                .topic(topics.get(topic))
                .startMessageId(message.isEmpty() ? beginning : ids.get(message))
                .receiverQueueSize(queue);
        readers.put(reader, (isInclusive ? builder.startMessageIdInclusive() : builder).create());
    }

    static String readOne(String reader) throws Exception {
        Message<String> one = readers.get(reader).readNext((int) TIMEOUT_MS, TimeUnit.MILLISECONDS);
        return one == null ? "nothing" : one.getValue().trim();
    }

    /** Read so many messages, which are these. */
    static void read(String reader, String... messages) throws Exception {
        for (String name : messages) {
            String one = readOne(reader);
            if (!one.equals(name)) {
                throw new IllegalStateException(reader + " reads " + one + " instead of " + name);
            }
        }
    }

    static void wait(int seconds) throws Exception {
        Thread.sleep(1000L * seconds);
    }

    /** Whether something is so, in the end. */
    static boolean becomes(BooleanSupplier condition) throws Exception {
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > deadline) {
                return false;
            }
            Thread.sleep(200);
        }
        return true;
    }

    static void awaitBacklog(String topic, String subscription, int expected) throws Exception {
        if (!becomes(() -> stats(topic, subscription).getMsgBacklog() == expected)) {
            long shown = stats(topic, subscription).getMsgBacklog();
            throw new IllegalStateException(
                    subscription + " has a backlog of " + shown + " entries instead of " + expected);
        }
    }

    static void expectBacklog(String topic, String subscription, int expected) throws Exception {
        if (!becomes(() -> stats(topic, subscription).getMsgBacklog() == expected)) {
            long shown = stats(topic, subscription).getMsgBacklog();
            throw new Found("subscription " + subscription + " has a backlog of " + shown + " entries, and "
                    + expected + " are unacknowledged");
        }
    }

    static long unacknowledgedByStats(String topic, String subscription, String consumer) {
        SubscriptionStats shown = stats(topic, subscription);
        if (consumer.isEmpty()) {
            return shown.getUnackedMessages();
        }
        return shown.getConsumers().stream()
                .filter(one -> one.getConsumerName().equals(consumer))
                .mapToLong(ConsumerStats::getUnackedMessages)
                .sum();
    }

    /** The count of unacknowledged messages at a consumer, or, without a name, at all of them. */
    static void expectUnacknowledged(String topic, String subscription, String consumer, int expected)
            throws Exception {
        if (!becomes(() -> unacknowledgedByStats(topic, subscription, consumer) == expected)) {
            long shown = unacknowledgedByStats(topic, subscription, consumer);
            throw new Found("by the stats " + shown + " messages are unacknowledged at "
                    + (consumer.isEmpty() ? subscription : consumer) + ", and " + expected + " are");
        }
    }

    /** Wait until a consumer has so many unacknowledged messages: a chunk counts as one. */
    static void awaitUnacknowledged(String topic, String subscription, String consumer, int expected)
            throws Exception {
        if (!becomes(() -> unacknowledgedByStats(topic, subscription, consumer) == expected)) {
            throw new IllegalStateException(unacknowledgedByStats(topic, subscription, consumer)
                    + " messages are unacknowledged at " + consumer + " instead of " + expected);
        }
    }

    /** Receive whatever the broker has for any consumer: the name of a message, or null. */
    static String receiveOfAny() throws Exception {
        for (String consumer : new ArrayList<>(consumers.keySet())) {
            String name = receiveOne(consumer, System.currentTimeMillis() + 100);
            if (name != null) {
                return name;
            }
        }
        return null;
    }

    static void expectMore(String consumer) throws Exception {
        if (receiveOne(consumer, System.currentTimeMillis() + TIMEOUT_MS) == null) {
            throw new Found(consumer + " receives nothing, although it has permits and there are messages for it");
        }
    }

    static void expectDelivered(String... messages) throws Exception {
        Set<String> missing = new TreeSet<>(Arrays.asList(messages));
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!missing.isEmpty() && System.currentTimeMillis() < deadline) {
            String name = receiveOfAny();
            if (name != null) {
                missing.remove(name);
            }
        }
        if (!missing.isEmpty()) {
            throw new Found("the broker does not dispatch " + String.join(", ", missing)
                    + ", although the consumer of its key has permits, and no consumer has a message of that key");
        }
    }

    /** The consumers receive the first message before the later one. */
    static void expectBefore(String first, String later) throws Exception {
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (System.currentTimeMillis() < deadline) {
            String name = receiveOfAny();
            if (first.equals(name)) {
                return;
            }
            if (later.equals(name)) {
                throw new Found(later + " is delivered before " + first + ", an earlier message of its key");
            }
        }
        throw new IllegalStateException("neither " + first + " nor " + later + " is delivered");
    }

    /** The consumer receives these messages, and none of them twice: it neither acknowledges nor returns them. */
    static void expectOnce(String consumer, String... messages) throws Exception {
        Set<String> missing = new TreeSet<>(Arrays.asList(messages));
        Set<String> there = new HashSet<>();
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        for (String name = receiveOne(consumer, deadline); name != null; name = receiveOne(consumer, deadline)) {
            if (!there.add(name)) {
                throw new Found(name + " is delivered twice to " + consumer + ", which did not return it");
            }
            missing.remove(name);
            deadline = System.currentTimeMillis() + (missing.isEmpty() ? TIMEOUT_MS / 5 : TIMEOUT_MS);
        }
        if (!missing.isEmpty()) {
            throw new IllegalStateException(consumer + " does not receive " + String.join(", ", missing));
        }
    }

    static void expectReceived(String consumer, String... messages) throws Exception {
        Set<String> missing = new TreeSet<>(Arrays.asList(messages));
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        String name = "";
        while (!missing.isEmpty() && name != null) {
            name = receiveOne(consumer, deadline);
            if (name != null) {
                missing.remove(name);
            }
        }
        if (!missing.isEmpty()) {
            throw new Found(
                    consumer + " does not receive " + String.join(", ", missing) + ", which no consumer has");
        }
    }

    /** A new consumer receives exactly these messages, once the others are closed. */
    static void expectAllReceived(String topic, String subscription, String kind, String... messages)
            throws Exception {
        for (String one : new ArrayList<>(consumers.keySet())) {
            close(one);
        }
        subscribe("last", topic, subscription, kind, "earliest", 1000);
        Set<String> missing = new TreeSet<>(Arrays.asList(messages));
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        for (String name = ""; name != null; name = receiveOne("last", deadline)) {
            if (!name.isEmpty() && !Arrays.asList(messages).contains(name)) {
                throw new Found(name + " is delivered again, although it was acknowledged");
            }
            missing.remove(name);
            if (missing.isEmpty()) {
                deadline = Math.min(deadline, System.currentTimeMillis() + TIMEOUT_MS / 5);
            }
        }
        if (!missing.isEmpty()) {
            throw new Found(String.join(", ", missing) + " is not delivered, although nobody acknowledged it");
        }
    }

    static void expectNext(String reader, String... messages) throws Exception {
        for (String name : messages) {
            String one = readOne(reader);
            if (!one.equals(name)) {
                throw new Found(reader + " reads " + one + ", and passes " + name + " over");
            }
        }
    }

    static void expectMessageAvailable(String reader) throws Exception {
        if (!readers.get(reader).hasMessageAvailable()) {
            throw new Found(reader + " has no message available, although there is one");
        }
    }

    /** The names of all messages that are stored. */
    static List<String> log(String topic) throws Exception {
        openReader("reader of " + topic, topic, "earliest", "", true, 1000);
        Reader<String> reader = readers.get("reader of " + topic);
        List<String> stored = new ArrayList<>();
        Message<String> one = reader.readNext(2, TimeUnit.SECONDS);
        while (one != null) {
            stored.add(one.getValue().trim());
            one = reader.readNext(2, TimeUnit.SECONDS);
        }
        return stored;
    }

    static void expectStored(String topic, String... messages) throws Exception {
        List<String> stored = log(topic);
        for (String name : messages) {
            if (!stored.contains(name)) {
                throw new Found(name + " was confirmed and is not stored");
            }
        }
    }

    static void expectStoredOnce(String topic, String... messages) throws Exception {
        List<String> stored = log(topic);
        for (String name : messages) {
            long copies = stored.stream().filter(name::equals).count();
            if (copies > 1) {
                throw new Found(name + " is stored " + copies + " times");
            }
        }
    }

    static void expectLastSequenceId(String session, long expected) throws Exception {
        long shown = producers.get(session).getLastSequenceId();
        if (shown != expected) {
            throw new Found("the last sequence id of the producer is " + shown + ", and " + expected
                    + " is the highest that is confirmed");
        }
    }

    static String deduplicationOf(String topic) {
        try {
            return admin.topics().getStats(topics.get(topic)).getDeduplicationStatus();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static void expectDeduplication(String topic, String expected) throws Exception {
        if (!becomes(() -> expected.equals(deduplicationOf(topic)))) {
            throw new Found("deduplication of " + topic + " stays " + deduplicationOf(topic) + ", and " + expected
                    + " was asked for");
        }
    }

    /** The broker answers with success, or with an error that is documented. */
    static void expectAnswer(Request request) throws Found {
        try {
            request.perform();
        } catch (Exception error) {
            int code = error instanceof PulsarAdminException ? ((PulsarAdminException) error).getStatusCode() : 500;
            if (code >= 500 || code == 412) {
                throw new Found("a legal request fails (" + code + "): " + error);
            }
        }
    }

    static void expectAnyAnswer(Request request) throws Exception {
        try {
            request.perform();
        } catch (PulsarAdminException.TimeoutException | PulsarAdminException.ConnectException error) {
            throw new Found("a request is not answered: " + error.getMessage());
        } catch (PulsarAdminException error) {
            return;
        }
    }

    static void expectRefused(Request request) throws Found {
        try {
            request.perform();
        } catch (Exception error) {
            return;
        }
        throw new Found("what must be refused is done");
    }

    /** What was refused when it was found. */
    static void attempt(Request request) {
        try {
            request.perform();
        } catch (Exception error) {
            System.out.println("(refused: " + error.getMessage() + ")");
        }
    }

    static void cleanUp() throws Exception {
        for (PulsarClient client : clients.values()) {
            client.shutdown();
        }
        clients.clear();
        producers.clear();
        consumers.clear();
        readers.clear();
        received.clear();
        ids.clear();
        if (broker != null) {
            return;
        }
        for (String namespace : namespaces) {
            try {
                for (String topic : admin.topics().getPartitionedTopicList(namespace)) {
                    admin.topics().deletePartitionedTopic(topic, true);
                }
                for (String topic : admin.topics().getList(namespace)) {
                    admin.topics().delete(topic, true);
                }
                admin.namespaces().deleteNamespace(namespace);
            } catch (Exception error) {
                System.out.println(namespace + " is left: " + error.getMessage());
            }
        }
        namespaces.clear();
    }
}
