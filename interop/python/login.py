"""One record there and back: login.py CLIENT BOOTSTRAP LOG VALUE KEY=VALUE...

CLIENT is confluent or kafka-python. The pairs are settings by librdkafka's names.
"""
import io
import logging
import sys

client, bootstrap, log, value, *pairs = sys.argv[1:]
settings = dict(pair.split("=", 1) for pair in pairs)


def confluent():
    from confluent_kafka import Consumer, Producer, TopicPartition

    refused = []
    common = {"bootstrap.servers": bootstrap, "error_cb": refused.append, **settings}
    delivered = []
    p = Producer({**common, "message.timeout.ms": 20000})
    p.produce(log, value=value, on_delivery=lambda e, m: delivered.append(e or m.offset()))
    for _ in range(200):
        p.poll(0.1)
        if delivered:
            break
        # librdkafka logs in again and again: the first refusal is the answer.
        if any(e.name() == "_AUTHENTICATION" for e in refused):
            sys.exit(f"refused: {refused[-1]}")
    assert delivered and isinstance(delivered[0], int), (delivered, refused)
    c = Consumer({**common, "group.id": "logins", "enable.auto.commit": False})
    c.assign([TopicPartition(log, 0, delivered[0])])
    m = c.poll(20)
    assert m is not None and not m.error() and m.value() == value.encode(), m and m.error()
    c.close()


def kafka_python():
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError

    names = {
        "security.protocol": "security_protocol", "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile", "ssl.certificate.location": "ssl_certfile", "ssl.key.location": "ssl_keyfile",
    }
    common = {"bootstrap_servers": bootstrap, **{names[k]: v for k, v in settings.items()}}
    # It logs in again and again, and tells its log alone why that fails.
    said = io.StringIO()
    logging.basicConfig(stream=said, level=logging.WARNING)
    try:
        p = KafkaProducer(**common, max_block_ms=10000)
        offset = p.send(log, value=value.encode()).get(20).offset
    except KafkaError as e:
        if "SaslAuthenticationFailedError" in said.getvalue():
            sys.exit(f"refused: {e}")
        raise
    p.close()
    c = KafkaConsumer(**common, consumer_timeout_ms=20000)
    c.assign([TopicPartition(log, 0)])
    c.seek(TopicPartition(log, 0), offset)
    assert next(iter(c)).value == value.encode()
    c.close()


confluent() if client == "confluent" else kafka_python()
