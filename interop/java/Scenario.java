// The Java client: java -cp "lib/*" Scenario.java BOOTSTRAP LOG NODES

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Scenario {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    static final int PER_CODEC = 20;

    final String bootstrap;
    final String log;
    final TopicPartition partition;
    /** What the log holds, by offset. */
    final List<String> values = new ArrayList<>(List.of("grpc-0", "grpc-1", "grpc-2"));

    Scenario(String bootstrap, String log) {
        this.bootstrap = bootstrap;
        this.log = log;
        partition = new TopicPartition(log, 0);
    }

    public static void main(String[] args) throws Exception {
        var s = new Scenario(args[0], args[1]);
        long beforeLast = 0;
        for (String codec : CODECS) {
            beforeLast = between();
            s.produce(codec);
        }
        int last = s.values.size() - PER_CODEC;
        s.consumeInAGroup();
        s.consumeByAssignment(beforeLast, last);
        s.administer(Short.parseShort(args[2]));
    }

    void produce(String codec) throws Exception {
        // Idempotent, acks=all: the defaults.
        var p = settings("compression.type", codec);
        try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            var sent = new ArrayList<Future<RecordMetadata>>();
            int first = values.size();
            for (int i = 0; i < PER_CODEC; i++) {
                values.add(codec + "-" + i);
                sent.add(producer.send(new ProducerRecord<>(log, codec + "-" + i)));
            }
            for (int i = 0; i < PER_CODEC; i++) {
                equal(first + i, (int) sent.get(i).get().offset());
            }
        }
    }

    void consumeInAGroup() {
        var p = settings("group.id", log, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(log));
            read(consumer, 0);
            consumer.commitSync();
            equal((long) values.size(), consumer.committed(Set.of(partition)).get(partition).offset());
        }
    }

    void consumeByAssignment(long time, int offsetAtTime) {
        try (var consumer = new KafkaConsumer<>(settings(), new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            read(consumer, 0);
            long found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition).offset();
            equal((long) offsetAtTime, found);
            consumer.seek(partition, found);
            read(consumer, offsetAtTime);
        }
    }

    /** Reads to the end of what is expected, from an offset on. */
    void read(KafkaConsumer<String, String> consumer, int first) {
        long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        int next = first;
        while (next < values.size()) {
            if (System.nanoTime() > until) {
                throw new AssertionError("read up to " + next + " in 30 s");
            }
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofSeconds(1))) {
                equal((long) next, r.offset());
                equal(values.get(next), r.value());
                next++;
            }
        }
    }

    void administer(short nodes) throws Exception {
        try (var admin = Admin.create(settings())) {
            String more = log + "-more";
            admin.createTopics(List.of(new NewTopic(more, 3, nodes))).all().get();
            if (!admin.listTopics().names().get().containsAll(Set.of(log, more))) {
                throw new AssertionError("a topic is not listed");
            }
            equal(3, admin.describeTopics(List.of(more)).allTopicNames().get().get(more).partitions().size());
            var trimmed = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(5)));
            equal(5L, trimmed.lowWatermarks().get(partition).get().lowWatermark());
        }
    }

    /**
     * Waits for the clock, and returns a time in ms that is after every record so far and not after any that is yet to
     * be made.
     */
    static long between() throws InterruptedException {
        long time = System.currentTimeMillis() + 1;
        while (System.currentTimeMillis() < time) {
            Thread.sleep(1);
        }
        return time;
    }

    Properties settings(String... pairs) {
        var p = new Properties();
        p.setProperty("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            p.setProperty(pairs[i], pairs[i + 1]);
        }
        return p;
    }

    static void equal(Object want, Object got) {
        if (!want.equals(got)) {
            throw new AssertionError("want " + want + ", got " + got);
        }
    }
}
