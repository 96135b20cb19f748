#!/usr/bin/env python3
"""Read the batches of a log as they are stored, from offset 0 on, and print after each
where it ends and the digest of the log as of there. docs/formats.md defines it."""
import hashlib
import struct
import sys


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def root(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha256(b"\1", root(leaves[:k]), root(leaves[k:]))


data = sys.stdin.buffer.read()
leaves = []
while data:
    offset, length = struct.unpack(">qi", data[:12])
    batch, data = data[:12 + length], data[12 + length:]
    leaves.append(sha256(b"\0", struct.pack(">q", offset), sha256(batch[21:])))
    print(offset + struct.unpack(">i", batch[57:61])[0], root(leaves).hex())
