package limit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// memorySize is the machine's memory in bytes; 0: unknown.
func memorySize() int64 {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return 0
	}
	return int64(s.Totalram) * int64(s.Unit)
}

// device is what the file system of a directory is mounted from.
func device(directory string) string {
	var s unix.Stat_t
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || unix.Stat(directory, &s) != nil {
		return ""
	}
	return mountedFrom(string(mounts), unix.Major(s.Dev), unix.Minor(s.Dev))
}

// mountedFrom finds in the kernel's list of mounts what a device number belongs
// to; nothing if it is not there. A line is
//
//	ID PARENT MAJOR:MINOR ROOT MOUNTED-AT OPTIONS [MORE...] - TYPE SOURCE OPTIONS
func mountedFrom(mounts string, major, minor uint32) string {
	number := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mounts) {
		mount, from, _ := strings.Cut(line, " - ")
		at, source := strings.Fields(mount), strings.Fields(from)
		if len(at) > 2 && at[2] == number && len(source) > 1 {
			return source[1]
		}
	}
	return ""
}

// LookAtDisk asks the kernel about the file system of a directory.
func LookAtDisk(directory string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return Disk{}, fmt.Errorf("find the file system of %s: %w", directory, err)
	}
	name, known := fileSystems[int64(s.Type)]
	if !known {
		name = fmt.Sprintf("type %#x", s.Type)
	}
	return Disk{
		Directory: directory, FileSystem: name, Device: device(directory),
		Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize,
	}, nil
}

// Allocated is the disk space, in bytes, that the files and directories in a directory take. ok is
// false if not all of them can be read.
func Allocated(directory string) (bytes int64, ok bool) {
	const block = 512 // what Blocks counts, whatever the file system has
	err := filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		var s unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &s)
		}
		bytes += s.Blocks * block
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we were looking
		}
		return err
	})
	return bytes, err == nil
}
