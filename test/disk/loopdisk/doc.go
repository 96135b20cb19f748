// Package loopdisk provides a small separate ext4 file system for one node, in a file behind a loop
// device. Its power can be cut: the kernel shuts it down without writing its journal, so that after
// the next mount it has the synced data, and of the rest only the part that was already written
// back. It can also fill up, hang, and fail every write.
//
// It needs mkfs.ext4, loop devices and the right to mount, which root has; Available reports
// whether such a disk can be created. It does not simulate a device that lies about its cache:
// bytes that ext4 has written without a flush are kept.
package loopdisk
