"""kafka-python's producer while leaders move: moving.py BOOTSTRAP LOGS SECONDS. A round that takes longer than 45 s is a stall."""
import faulthandler
import sys
import time

from kafka import KafkaProducer

bootstrap, logs, end = sys.argv[1].split(","), sys.argv[2].split(","), time.monotonic() + float(sys.argv[3])
p = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=2)
count, slowest = 0, 0
while time.monotonic() < end:
    began = time.monotonic()
    sent = [p.send(logs[i % len(logs)], value=b"%d" % (count + i)) for i in range(60)]
    try:
        p.flush(45)
    except Exception:
        faulthandler.dump_traceback()
        raise
    for s in sent:
        s.get(0)
    slowest = max(slowest, time.monotonic() - began)
    count += len(sent)
    time.sleep(0.05)
p.close()
print(f"{count} records, the slowest round of 60 took {slowest:.2f} s")
