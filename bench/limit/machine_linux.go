package limit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems names the magic numbers that statfs answers.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	0x2fc12fc1:                 "zfs",
	0xff534d42:                 "cifs",
}

// LookAtDisk asks the kernel about the file system of a directory.
func LookAtDisk(directory string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return Disk{}, fmt.Errorf("file system of %s: %w", directory, err)
	}
	name, known := fileSystems[int64(s.Type)]
	if !known {
		name = fmt.Sprintf("type %#x", s.Type)
	}
	return Disk{
		Directory: directory, FileSystem: name,
		Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize,
	}, nil
}
