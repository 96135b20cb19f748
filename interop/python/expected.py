"""What both Python clients write and have to find."""
import time

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PER_CODEC = 20

# The log at the end, by offset. The first three were there already, over gRPC.
VALUES = [f"grpc-{i}" for i in range(3)] + [f"{codec}-{i}" for codec in CODECS for i in range(PER_CODEC)]
COUNT = len(VALUES)

# The offset of the first record that was written with the last codec.
LAST = COUNT - PER_CODEC


def from_offset(first):
    """The (offset, value) that a reader has to see from an offset on."""
    return [(i, VALUES[i].encode()) for i in range(first, COUNT)]


def between():
    """Waits for the clock. A time in ms that is after every record so far and
    not after any that is yet to be made."""
    at = int(time.time() * 1000) + 1
    while int(time.time() * 1000) < at:
        time.sleep(0.001)
    return at
