package tidy

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "strandline.dev/"

// rooms lists every room with the rooms of ours that it may import. A room is
// a folder with all below it. An edge that is not here is a decision to be
// made, not an import to be added.
var rooms = map[string][]string{
	"api":                       {},
	"internal/record":           {},
	"internal/digest":           {"internal/record"},
	"internal/filter":           {"internal/record"},
	"internal/transport":        {},
	"internal/transport/wire":   {"api"},
	"internal/transport/peer":   {},
	"internal/transport/lean":   {},
	"internal/transport/secure": {"internal/budget", "internal/identity"},
	"internal/budget":           {},
	"internal/vfs":              {},
	"internal/identity":         {},
	"internal/segment":          {"internal/record"},
	"internal/segment/format":   {"internal/segment", "internal/record"},
	"internal/segment/memory":   {"internal/segment", "internal/record"},
	"internal/segment/store":    {"internal/segment/format", "internal/segment", "internal/vfs", "internal/record"},
	"internal/segment/repair":   {"internal/digest", "internal/segment/store", "internal/segment/format", "internal/segment", "internal/vfs", "internal/record"},
	"internal/sequence":         {"internal/digest", "internal/record"},
	"internal/archive":          {"internal/digest", "internal/segment", "internal/record"},
	"internal/unknown":          {},
	"internal/cluster":          {"internal/unknown", "internal/sequence", "internal/record"},
	"internal/replica/tail":     {"internal/budget", "internal/segment", "internal/record"},
	"internal/replica/core":     {"internal/digest", "internal/replica/core/lagging", "internal/budget", "internal/replica/tail", "internal/sequence", "internal/segment", "internal/record"},
	"internal/replica/runtime":  {"internal/digest", "internal/budget", "internal/replica/core", "internal/replica/tail", "internal/sequence", "internal/segment", "internal/record"},
	"internal/node/datadir":     {"internal/unknown", "internal/transport/peer", "internal/cluster", "internal/replica/core", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record"},
	"internal/node/reading":     {"internal/filter", "internal/budget", "internal/replica/runtime", "internal/replica/tail", "internal/segment", "internal/sequence", "internal/record"},
	"internal/node/background":  {},
	"internal/node/settings":    {"internal/archive", "internal/cluster", "internal/replica/runtime", "internal/vfs"},
	"internal/node/metrics":     {"internal/sequence", "internal/record"},
	"internal/node/tracing":     {"internal/node/background", "internal/sequence"},
	"internal/node/hosted":      {"internal/node/background", "internal/node/reading", "internal/node/settings", "internal/cluster", "internal/replica/core", "internal/replica/runtime", "internal/sequence", "internal/segment", "internal/record"},
	"internal/node/catalog":     {"internal/node/hosted", "internal/node/background", "internal/node/reading", "internal/node/datadir", "internal/cluster", "internal/record"},
	"internal/node/peers":       {"internal/node/catalog", "internal/node/hosted", "internal/node/background", "internal/node/datadir", "internal/node/metrics", "internal/node/settings", "internal/transport/peer", "internal/cluster", "internal/replica/runtime", "internal/sequence", "internal/vfs", "internal/record"},
	"internal/node/replicas":    {"internal/archive", "internal/digest", "internal/node/peers", "internal/node/catalog", "internal/node/hosted", "internal/node/background", "internal/node/datadir", "internal/node/metrics", "internal/node/settings", "internal/budget", "internal/transport/peer", "internal/cluster", "internal/replica/core/lagging", "internal/replica/core", "internal/replica/runtime", "internal/segment/repair", "internal/segment/store", "internal/segment/memory", "internal/segment", "internal/vfs", "internal/record"},
	"internal/node/verbs":       {"internal/digest", "internal/node/tracing", "internal/node/replicas", "internal/node/peers", "internal/node/catalog", "internal/node/hosted", "internal/node/background", "internal/node/reading", "internal/node/datadir", "internal/node/metrics", "internal/node/settings", "internal/budget", "internal/cluster", "internal/replica/core", "internal/replica/tail", "internal/sequence", "internal/record"},
	"internal/node/membership":  {"internal/node/verbs", "internal/node/replicas", "internal/node/peers", "internal/node/catalog", "internal/node/hosted", "internal/node/background", "internal/node/datadir", "internal/node/settings", "internal/transport/peer", "internal/cluster", "internal/replica/core", "internal/replica/runtime", "internal/segment", "internal/vfs", "internal/record"},
	"internal/node/recovery":    {"internal/node/datadir", "internal/cluster", "internal/replica/core", "internal/segment/repair", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record"},
	"internal/node/stopped":     {"internal/digest", "internal/node/datadir", "internal/cluster", "internal/replica/runtime", "internal/segment/repair", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record"},
	"internal/node":             {"internal/node/recovery", "internal/node/tracing", "internal/node/membership", "internal/node/verbs", "internal/node/replicas", "internal/node/peers", "internal/node/catalog", "internal/node/hosted", "internal/node/background", "internal/node/datadir", "internal/node/metrics", "internal/node/settings", "internal/budget", "internal/transport/peer", "internal/cluster", "internal/replica/runtime", "internal/vfs", "internal/record"},
	"internal/console":          {},
	"internal/server":           {"internal/console", "internal/digest", "internal/filter", "internal/budget", "internal/cluster", "internal/node", "internal/node/membership", "internal/node/verbs", "internal/node/reading", "internal/node/settings", "internal/sequence", "internal/record", "internal/transport", "internal/transport/lean", "internal/transport/peer", "internal/transport/secure", "internal/transport/wire", "internal/identity", "api"},
	"test":                      {"test/flaws", "test/proxy", "test/history/judge", "test/history", "client", "api", "internal/segment/repair", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record"},
	"test/sim":                  {"test", "test/history/judge", "test/history", "internal/budget", "internal/cluster", "internal/replica/core", "internal/replica/runtime", "internal/sequence", "internal/segment/repair", "internal/segment/store", "internal/segment/memory", "internal/segment/format", "internal/segment", "internal/vfs", "internal/record"},
	"test/tidy":                 {"test/flaws", "internal/record"},
	"client":                    {"internal/digest", "internal/record", "internal/transport", "internal/transport/lean", "internal/transport/secure", "internal/transport/wire", "api"},
	"statemachine":              {"client", "statemachine/internal/rules"},
	"bench":                     {"client", "test/proxy", "internal/record"},
	"embed":                     {"client", "internal/cluster", "internal/node", "internal/node/settings", "internal/server"},
	"cmd/strandline":            {"internal/cli"},
	"cmd/strandline-bench":      {"internal/cli"},
	"internal/cli":              {"internal/digest", "internal/archive", "internal/archive/filebucket", "internal/archive/s3bucket", "internal/replica/core", "internal/budget", "internal/identity", "client", "bench", "test/history/judge", "test/history", "internal/cluster", "internal/node", "internal/node/settings", "internal/node/datadir", "internal/node/recovery", "internal/node/stopped", "internal/server", "internal/segment/repair", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record", "internal/transport", "internal/transport/secure"},
	"examples":                  {"client"},
	"clients":                   {"client", "api", "embed", "test/proxy", "test", "test/history/judge", "test/history", "internal/identity", "internal/record"},

	// What decides for one replica of a state.
	"statemachine/internal/rules": {},
	// Where an archive is kept.
	"internal/archive/filebucket": {"internal/archive", "internal/vfs"},
	"internal/archive/s3bucket":   {"internal/archive"},
	// Data structures of the core, for followers who lag.
	"internal/replica/core/lagging": {"internal/budget"},
	// Dashboards, out of the list of metrics in docs.
	"deploy/grafana": {},
	// A link between processes, which the harness and the benchmarks share.
	"test/proxy": {},
	// A server process for tests of users.
	"client/clienttest": {},
	// Kept inputs of fuzz targets.
	"test/corpus": {},
	// A disk for one process.
	"test/disk/loopdisk": {},
	// At the end of a campaign the entries on all disks are compared.
	"test/chaos": {"test", "test/disk/loopdisk", "test/history/judge", "test/history", "client", "api", "internal/segment/repair", "internal/segment/store", "internal/segment", "internal/vfs", "internal/record"},
	// Clients that misbehave, beside honest ones, and what a call takes of a process.
	"test/attacks": {"client", "api", "internal/identity", "internal/node/settings", "internal/record", "internal/server", "internal/transport/secure"},
	"test/cost":    {},
	// Servers that are broken on purpose, made of patched copies of the sources.
	"test/flaws": {},
	// What clients were answered, and the rules for it: it judges the servers and
	// shares nothing with them.
	"test/history":       {},
	"test/history/judge": {"test/history"},
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		room := roomOf(p.ImportPath)
		require.NotEmpty(t, room, "%s is in no room: add the room to the list above and to ARCHITECTURE.md", p.ImportPath)
		seen[room] = true
		for _, imported := range p.Imports {
			if other := roomOf(imported); other != "" && other != room {
				require.Contains(t, rooms[room], other, "%s imports %s", p.ImportPath, imported)
			}
		}
	}
	for room := range rooms {
		require.True(t, seen[room], "room %s has no package", room)
	}
}

func TestOnlyTheReplicaKnowsRaft(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "go.etcd.io/raft") {
				require.True(t, strings.HasPrefix(p.ImportPath, module+"internal/replica/"), "%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = "../.."
	out, err := command.Output()
	require.NoError(t, err, "list packages")
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

// roomOf returns the innermost room of a package of ours, or nothing.
func roomOf(path string) string {
	inside, ours := strings.CutPrefix(path, module)
	if !ours {
		return ""
	}
	innermost := ""
	for room := range rooms {
		if (inside == room || strings.HasPrefix(inside, room+"/")) && len(room) > len(innermost) {
			innermost = room
		}
	}
	return innermost
}
