// One record there and back: java -cp "lib/*" Login.java BOOTSTRAP LOG VALUE SETTINGS.properties

import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Login {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        try (var file = new FileReader(args[3])) {
            settings.load(file);
        }
        settings.put("bootstrap.servers", args[0]);
        long offset;
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            offset = producer.send(new ProducerRecord<>(args[1], 0, null, args[2])).get().offset();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof SaslAuthenticationException) {
                System.err.println("refused: " + e.getCause().getMessage());
                System.exit(1);
            }
            throw e;
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            var partition = new TopicPartition(args[1], 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            var found = consumer.poll(Duration.ofSeconds(20)).iterator().next();
            if (!found.value().equals(args[2])) {
                throw new AssertionError(found);
            }
        }
    }
}
