from strandline import sync
from strandline.testing import Server


def test_a_record_that_was_appended_is_read() -> None:
    with Server() as server, sync.Client(server.address) as client:
        client.admin.create_log("orders")
        with client.producer("orders") as producer:
            offset = producer.append(b"first")
        with client.read("orders", offset=offset) as reader:
            record = reader.next()
        assert record is not None and record.value == b"first"
