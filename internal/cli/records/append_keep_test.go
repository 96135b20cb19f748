package records

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARecordThatGetsAnotherOffsetIsAFailure(t *testing.T) {
	var failed error
	acknowledgedAt(7, func(_ int64, err error) { failed = err })(8, nil)
	require.ErrorContains(t, failed, "the record of offset 7 was appended at offset 8")
	acknowledgedAt(7, func(_ int64, err error) { failed = err })(7, nil)
	require.NoError(t, failed)
}
