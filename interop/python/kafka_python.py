"""kafka-python: kafka_python.py BOOTSTRAP LOG NODES"""
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

bootstrap, log, nodes = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

for codec in CODECS:
    p = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
    )
    sent = [p.send(log, value=f"{codec}-{i}".encode()) for i in range(20)]
    p.flush(30)
    for s in sent:
        s.get(10)
    p.close()
count = 3 + 20 * len(CODECS)


def consume(c):
    offsets = [m.offset for _, m in zip(range(count), c)]
    assert offsets == list(range(count)), offsets


c = KafkaConsumer(log, bootstrap_servers=bootstrap, group_id=log, auto_offset_reset="earliest", consumer_timeout_ms=30000)
consume(c)
c.commit()
c.close()

c = KafkaConsumer(bootstrap_servers=bootstrap, group_id=log, consumer_timeout_ms=30000)
tp = TopicPartition(log, 0)
assert c.committed(tp) == count
c.assign([tp])
c.seek_to_beginning(tp)
consume(c)
assert c.offsets_for_times({tp: int((time.time() - 3600) * 1000)})[tp].offset == 0
a = KafkaAdminClient(bootstrap_servers=bootstrap)
a.create_topics([NewTopic(log + "-more", 3, nodes)])
assert log + "-more" in a.list_topics()
a.delete_records({tp: 5})
assert c.beginning_offsets([tp])[tp] == 5
c.close()
a.close()
