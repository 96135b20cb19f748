//go:build broken

package cluster

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

func TestTheFlawThatChecksAreIgnoredIsNoticedInALedger(t *testing.T) {
	b := openBank(t, Start(t, Options{Nodes: 3, Flaw: "check-ignored"}))
	b.await(30)
	operations := b.close()
	began := time.Now()
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(bankModel, operations, Patience))
	t.Logf("%d operations, judged in %s", len(operations), time.Since(began).Round(time.Millisecond))
}
