"""confluent-kafka: confluent.py BOOTSTRAP LOG NODES"""
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, log, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(codec, **more):
    failed = []
    p = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **more})
    for i in range(20):
        p.produce(log, value=f"{codec}-{i}", on_delivery=lambda e, m: failed.append(e) if e else None)
    assert p.flush(30) == 0
    assert not failed, failed


def consume(c, count):
    offsets, until = [], time.time() + 30
    while len(offsets) < count and time.time() < until:
        m = c.poll(1)
        if m is not None:
            assert not m.error(), m.error()
            offsets.append(m.offset())
    assert offsets == list(range(count)), offsets


for codec in CODECS:
    produce(codec, **{"enable.idempotence": True})
count = 3 + 20 * len(CODECS)

c = Consumer({"bootstrap.servers": bootstrap, "group.id": log, "auto.offset.reset": "earliest", "enable.auto.commit": False})
c.subscribe([log])
consume(c, count)
c.commit(asynchronous=False)
c.close()

c = Consumer({"bootstrap.servers": bootstrap, "group.id": log, "enable.auto.commit": False})
assert c.committed([TopicPartition(log, 0)], 10)[0].offset == count
c.assign([TopicPartition(log, 0, 0)])
consume(c, count)
found = c.offsets_for_times([TopicPartition(log, 0, int((time.time() - 3600) * 1000))], 10)
assert found[0].offset == 0, found
a = AdminClient({"bootstrap.servers": bootstrap})
for f in a.create_topics([NewTopic(log + "-more", 3, nodes)]).values():
    f.result(20)
assert len(a.list_topics(timeout=10).topics[log + "-more"].partitions) == 3
for f in a.delete_records([TopicPartition(log, 0, 5)]).values():
    assert f.result(20).low_watermark == 5
assert c.get_watermark_offsets(TopicPartition(log, 0), 10) == (5, count)
assert [g for g in a.list_consumer_groups().result(20).valid if g.group_id == log]
c.close()
