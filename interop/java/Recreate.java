import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer live on while their topic is deleted and made again: the new one
 * begins at a lower leader epoch, which clients believe only because its id is another.
 */
public class Recreate {
    private static final String TOPIC = "recreated";

    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        common.put("bootstrap.servers", args[0]);
        common.put("metadata.max.age.ms", "1000");
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", "recreate");
        reading.put("auto.offset.reset", "earliest");
        try (Admin admin = Admin.create(common);
                KafkaProducer<String, String> producer = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            create(admin);
            consumer.subscribe(List.of(TOPIC));
            for (int life = 0; life < 3; life++) {
                send(producer, "life " + life);
                expect(consumer, "life " + life);
                consumer.commitSync();
                // Whoever runs this lets others lead meanwhile, so that clients know a high epoch.
                System.out.println("life " + life + " is over");
                System.in.read();
                send(producer, "changed");
                expect(consumer, "changed");
                consumer.commitSync();
                if (life < 2) {
                    admin.deleteTopics(List.of(TOPIC)).all().get(30, TimeUnit.SECONDS);
                    create(admin);
                    // Positions are kept, as the new topic's could be just as good.
                    consumer.seekToBeginning(consumer.assignment());
                }
            }
        }
        System.out.println("recreated and followed");
    }

    private static void create(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic(TOPIC, Optional.of(1), Optional.empty()))).all().get(30, TimeUnit.SECONDS);
    }

    /** Sends until it is taken: a batch on its way when the topic is deleted may be refused. */
    private static void send(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.send(new ProducerRecord<>(TOPIC, value)).get(60, TimeUnit.SECONDS);
    }

    private static void expect(KafkaConsumer<String, String> consumer, String value) {
        Instant until = Instant.now().plusSeconds(60);
        while (Instant.now().isBefore(until)) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.value().equals(value)) {
                    return;
                }
                throw new IllegalStateException("read " + record + ", expected " + value);
            }
        }
        throw new IllegalStateException("did not read " + value);
    }
}
