package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANoticeOfACommandWithoutALogNamesNone(t *testing.T) {
	var said strings.Builder
	w := &waitNotice{cli: &Terminal{Err: &said, JSON: true}, why: ErrNoAnswer}
	w.show()
	require.JSONEq(t, `{"notice":{"waiting":true,"message":"waiting for the cluster, and trying on (Ctrl-C stops): no answer yet"}}`, said.String())
}
