//go:build !linux

package limit

// LookAtDisk knows nothing but the name here.
func LookAtDisk(directory string) (Disk, error) {
	return Disk{Directory: directory, FileSystem: "unknown"}, nil
}
