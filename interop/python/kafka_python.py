"""kafka-python: kafka_python.py BOOTSTRAP LOG NODES"""
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from expected import CODECS, COUNT, LAST, PER_CODEC, between, from_offset

bootstrap, log, nodes = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])


def produce(codec):
    p = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
    )
    sent = [p.send(log, value=f"{codec}-{i}".encode()) for i in range(PER_CODEC)]
    p.flush(30)
    for s in sent:
        s.get(10)
    p.close()


def consume(c, first):
    want = from_offset(first)
    seen = [(m.offset, m.value) for _, m in zip(want, c)]
    assert seen == want, seen


for codec in CODECS:
    before_last = between()
    produce(codec)

c = KafkaConsumer(
    log, bootstrap_servers=bootstrap, group_id=log, auto_offset_reset="earliest", consumer_timeout_ms=30000,
)
consume(c, 0)
c.commit()
c.close()

c = KafkaConsumer(bootstrap_servers=bootstrap, group_id=log, consumer_timeout_ms=30000)
tp = TopicPartition(log, 0)
assert c.committed(tp) == COUNT
c.assign([tp])
c.seek_to_beginning(tp)
consume(c, 0)
found = c.offsets_for_times({tp: before_last})[tp].offset
assert found == LAST, found
c.seek(tp, found)
consume(c, LAST)

a = KafkaAdminClient(bootstrap_servers=bootstrap)
a.create_topics([NewTopic(log + "-more", 3, nodes)])
assert log + "-more" in a.list_topics()
assert len(c.partitions_for_topic(log + "-more")) == 3
a.delete_records({tp: 5})
assert c.beginning_offsets([tp])[tp] == 5
c.close()
a.close()
