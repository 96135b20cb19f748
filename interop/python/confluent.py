"""confluent-kafka: confluent.py BOOTSTRAP LOG NODES"""
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from expected import CODECS, COUNT, LAST, PER_CODEC, between, from_offset

bootstrap, log, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])


def produce(codec):
    failed = []
    p = Producer({
        "bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5,
    })
    for i in range(PER_CODEC):
        p.produce(log, value=f"{codec}-{i}", on_delivery=lambda e, m: failed.append(e) if e else None)
    assert p.flush(30) == 0
    assert not failed, failed


def consume(c, first):
    want, seen, until = from_offset(first), [], time.time() + 30
    while len(seen) < len(want) and time.time() < until:
        m = c.poll(1)
        if m is not None:
            assert not m.error(), m.error()
            seen.append((m.offset(), m.value()))
    assert seen == want, seen


for codec in CODECS:
    before_last = between()
    produce(codec)

c = Consumer({
    "bootstrap.servers": bootstrap, "group.id": log, "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
c.subscribe([log])
consume(c, 0)
c.commit(asynchronous=False)
c.close()

c = Consumer({"bootstrap.servers": bootstrap, "group.id": log, "enable.auto.commit": False})
assert c.committed([TopicPartition(log, 0)], 10)[0].offset == COUNT
c.assign([TopicPartition(log, 0, 0)])
consume(c, 0)
found = c.offsets_for_times([TopicPartition(log, 0, before_last)], 10)
assert found[0].offset == LAST, found
c.seek(found[0])
consume(c, LAST)

a = AdminClient({"bootstrap.servers": bootstrap})
for f in a.create_topics([NewTopic(log + "-more", 3, nodes)]).values():
    f.result(20)
assert len(a.list_topics(timeout=10).topics[log + "-more"].partitions) == 3
for f in a.delete_records([TopicPartition(log, 0, 5)]).values():
    assert f.result(20).low_watermark == 5
assert c.get_watermark_offsets(TopicPartition(log, 0), 10) == (5, COUNT)
assert [g for g in a.list_consumer_groups().result(20).valid if g.group_id == log]
c.close()
