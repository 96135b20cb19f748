package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVersionIsGivenAtBuildTimeOrUnknown(t *testing.T) {
	require.NotEqual(t, unversioned, ReadVersion().Version, "it would look like one version and be many")
	require.NotEmpty(t, ReadVersion().Version)
	buildVersion, buildRevision = "v1.2.3", "0123abc"
	defer func() { buildVersion, buildRevision = "", "" }()
	require.Equal(t, "v1.2.3, revision 0123abc", ReadVersion().Exact())
}
