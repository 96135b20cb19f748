package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDeviceOfAMountIsFoundByItsNumber(t *testing.T) {
	const mounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
broken
28 27 254:16 / /data rw
30 27 0:23 / /dev/shm rw - tmpfs memory rw,size=24684084k
`
	for number, expected := range map[[2]uint32]string{
		{254, 0}: "/dev/vda", {0, 23}: "memory", {254, 16}: "", {8, 1}: "",
	} {
		require.Equal(t, expected, mountedFrom(mounts, number[0], number[1]))
	}
}

func TestTheMachineReportsItsMemoryAndItsDisk(t *testing.T) {
	require.Regexp(t, `^[0-9]+ x .+, [0-9.]+ GiB of memory, linux `, Machine())
	disk, err := LookAtDisk(t.TempDir())
	require.NoError(t, err)
	require.Contains(t, disk.String(), disk.FileSystem)
	require.Equal(t, "/data (ext4 on /dev/vda, 10.0 GiB, 2.5 GiB free)",
		Disk{Directory: "/data", FileSystem: "ext4", Device: "/dev/vda", Total: 10 << 30, Free: 5 << 29}.String())
}
