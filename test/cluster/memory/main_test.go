package memory

import (
	"testing"

	"strandline.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
