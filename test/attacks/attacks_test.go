package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cost"
)

// testMemory is the least that a node takes: its parts are full soonest.
const testMemory = 64 << 20

// Every attack for a moment: it is refused, the node and the attack hold little memory, and an honest client
// is answered meanwhile, and gets what the attack is about, also when the attack has filled what it fills. What an
// honest client notices of it is measured by `make attacks`. This machine may have any number of connections: what bounds
// those of others has tests of its own.
func TestAttacksAreRefusedAndHonestClientsServed(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			directory := t.TempDir()
			c, at, h, err := open(t.Context(), directory, testMemory, false)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			before := cost.Held()
			if a.fills {
				require.NoError(t, a.once(t.Context(), at, 0))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			attacked := make(chan struct{})
			go func() {
				defer close(attacked)
				times, letIn := a.run(ctx, at)
				require.NoError(t, letIn)
				require.Positive(t, times)
			}()
			times, err := h.append(t.Context(), attacked)
			require.NoError(t, err)
			require.NotEmpty(t, times)
			require.Less(t, cost.Held()-before, int64(2*testMemory), "bytes, those of the attack among them")
			audited(t, directory)
			if a.asks == nil {
				return
			}
			// Those who stay do so until the end of what they were given; by then it has been asked for.
			again, end := context.WithCancel(t.Context())
			stays := make(chan struct{})
			go func() {
				defer close(stays)
				_, _ = a.run(again, at)
			}()
			for began := time.Now(); time.Since(began) < time.Second; {
				ask, enough := context.WithTimeout(t.Context(), 8*time.Second)
				require.NoError(t, a.asks(h, ask))
				enough()
			}
			end()
			<-stays
		})
	}
}

// The same attacks, one after the other, on one node with TLS on all ports: they reach it, and are refused as well.
func TestANodeWithTLSRefusesTheSameAttacks(t *testing.T) {
	c, at, h, err := open(t.Context(), t.TempDir(), testMemory, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, a := range attacks {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		times, letIn := a.run(ctx, at)
		cancel()
		require.NoError(t, letIn, a.name)
		require.Positive(t, times, a.name)
		require.NoError(t, h.appends(t.Context()), a.name)
	}
	require.NoError(t, h.looks(t.Context()))
	at.Authority = unencrypted
	require.NotContains(t, string(at.say(at.HTTP, []byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))), "HTTP/1.1 200", "what is not encrypted is not answered")
}

// More connections than the gRPC port keeps that say too little to be sorted: the oldest make way long before
// their time is over, and who comes then is served.
func TestConnectionsThatSayNothingMakeWay(t *testing.T) {
	c, at, h, err := open(t.Context(), t.TempDir(), testMemory, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	const kept, patience = 1024, 10 * time.Second
	began := time.Now()
	var oldest net.Conn
	for range kept + 100 {
		conn, err := net.Dial("tcp", at.GRPC)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, half)
		require.NoError(t, err)
		if oldest == nil {
			oldest = conn
		}
	}
	require.NoError(t, oldest.SetDeadline(began.Add(patience-time.Second)))
	_, err = oldest.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, h.comes(t.Context()))
}

// audited fails if an attack has filled the audit log: besides one for each change, a caller has so many lines in a
// minute, of which two begin at most while it attacks, and a line has so many bytes.
func audited(t *testing.T, directory string) {
	t.Helper()
	const lines, bytes = 2*32 + 2, 1500
	text, err := os.ReadFile(auditLog(directory))
	require.NoError(t, err)
	of := map[string]int{}
	for line := range strings.Lines(string(text)) {
		require.Less(t, len(line), bytes, line)
		var e struct{ Principal, Verb, Outcome string }
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if changed := e.Verb != "authenticate" && (e.Outcome == "done" || e.Outcome == "unknown"); !changed {
			of[e.Principal]++
		}
	}
	require.LessOrEqual(t, of["user/mallory"], lines)
	require.LessOrEqual(t, of["anonymous"], lines)
}
