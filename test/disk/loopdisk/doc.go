// Package loopdisk is a small ext4 file system of its own for one node, in a
// file behind a loop device, whose power can be cut: the kernel shuts it down
// without writing its journal, so that after the next mount there is what was
// synced, and of the rest no more than happened to be written back. It can also
// be full, hang, and fail every write.
//
// It needs the right to mount, which root has where loop devices are there, and
// mkfs.ext4; Available reports whether such a disk can be made. What it does not show
// is a device that lies about its own cache: bytes that ext4 has written without a
// flush are kept.
package loopdisk
