package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// linesPerPart is how many lines go through a connector before its worker is stopped,
// and after it has been started again.
const linesPerPart = 1000

// worker are settings that workers of both kinds have.
func (c *cluster) worker(port int) map[string]string {
	return map[string]string{
		"bootstrap.servers": c.bootstrap, "listeners": fmt.Sprintf("http://127.0.0.1:%d", port),
		"key.converter":    "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":  "org.apache.kafka.connect.storage.StringConverter",
		"plugin.discovery": "only_scan", "offset.flush.interval.ms": "1000",
	}
}

// A file goes through a topic into another file.
func connectors(source, sink string) (from, to map[string]string) {
	return map[string]string{
			"name": "source", "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
			"tasks.max": "1", "file": source, "topic": "lines",
		}, map[string]string{
			"name": "sink", "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
			"tasks.max": "1", "file": sink, "topics": "lines",
		}
}

func TestConnectStandalone(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.strandline("", "log", "create", "lines")
		dir := c.TempDir()
		source, sink := filepath.Join(dir, "source"), filepath.Join(dir, "sink")
		settings := c.worker(freePort(c.T))
		settings["offset.storage.file.filename"] = filepath.Join(dir, "offsets")
		from, to := connectors(source, sink)
		args := []string{properties(c.T, settings), properties(c.T, from), properties(c.T, to)}

		addLines(c.T, source, 0, linesPerPart)
		first := begin(c.T, "org.apache.kafka.connect.cli.ConnectStandalone", args...)
		first.until("all lines are there", sameLines(c.T, sink, linesPerPart))
		first.stop()
		addLines(c.T, source, linesPerPart, 2*linesPerPart)
		second := begin(c.T, "org.apache.kafka.connect.cli.ConnectStandalone", args...)
		second.until("it goes on where it was stopped", sameLines(c.T, sink, 2*linesPerPart))
	})
}

// Workers of a group keep their connectors, offsets and states in topics of their
// own, which they create as compacted ones and check.
func TestConnectDistributed(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.strandline("", "log", "create", "lines")
		dir := c.TempDir()
		source, sink := filepath.Join(dir, "source"), filepath.Join(dir, "sink")
		run := func() (*jvm, string) {
			port := freePort(c.T)
			settings := c.worker(port)
			maps.Copy(settings, map[string]string{"group.id": "workers", "scheduled.rebalance.max.delay.ms": "1000"})
			for _, kind := range []string{"config", "offset", "status"} {
				settings[kind+".storage.topic"] = "_connect-" + kind
				settings[kind+".storage.replication.factor"] = fmt.Sprint(c.nodes)
			}
			return begin(c.T, "org.apache.kafka.connect.cli.ConnectDistributed", properties(c.T, settings)), fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		addLines(c.T, source, 0, linesPerPart)
		first, at := run()
		from, to := connectors(source, sink)
		for _, connector := range []map[string]string{from, to} {
			first.until("a connector is taken", func() bool { return submit(at, connector) })
		}
		first.until("all lines are there", sameLines(c.T, sink, linesPerPart))
		second, _ := run()
		first.stop()
		addLines(c.T, source, linesPerPart, 2*linesPerPart)
		second.until("the other worker goes on", sameLines(c.T, sink, 2*linesPerPart))
	})
}

// submit gives a connector to a worker, if that is ready for it.
func submit(at string, config map[string]string) bool {
	body, err := json.Marshal(map[string]any{"name": config["name"], "config": config})
	if err != nil {
		return false
	}
	client := http.Client{Timeout: 30 * time.Second}
	r, err := client.Post(at+"/connectors", "application/json", bytes.NewReader(body))
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusCreated || r.StatusCode == http.StatusConflict
}

// Topics, their records and the offsets of groups are carried from one cluster to
// another.
func TestMirrorMaker(t *testing.T) {
	from, to := start(t, 1), start(t, 3)
	var input bytes.Buffer
	var want []string
	for i := range linesPerPart {
		want = append(want, fmt.Sprintf("record %d", i))
		fmt.Fprintln(&input, want[i])
	}
	from.strandline("", "log", "create", "orders")
	from.strandline(input.String(), "append", "orders")
	from.commitByFranz("billing", "orders", linesPerPart)

	maker := begin(t, "org.apache.kafka.connect.mirror.MirrorMaker", properties(t, map[string]string{
		"clusters": "from, to", "from.bootstrap.servers": from.bootstrap, "to.bootstrap.servers": to.bootstrap,
		"from->to.enabled": "true", "to->from.enabled": "false", "from->to.topics": "orders", "from->to.groups": "billing",
		"replication.factor": "3", "from.offset-syncs.topic.location": "target",
		"checkpoints.topic.replication.factor": "3", "heartbeats.topic.replication.factor": "3", "offset-syncs.topic.replication.factor": "3",
		"from.offset.storage.replication.factor": "1", "from.status.storage.replication.factor": "1", "from.config.storage.replication.factor": "1",
		"to.offset.storage.replication.factor": "3", "to.status.storage.replication.factor": "3", "to.config.storage.replication.factor": "3",
		"from->to.offset-syncs.topic.location": "target", "from->to.sync.group.offsets.enabled": "true", "from->to.emit.heartbeats.enabled": "false",
		"from->to.sync.group.offsets.interval.seconds": "5", "from->to.emit.checkpoints.interval.seconds": "5",
		"from->to.refresh.groups.interval.seconds": "5", "offset.lag.max": "0",
	}))
	maker.until("all records are there", func() bool { return to.hasByFranz("from.orders", len(want)) })
	require.Equal(t, want, valuesOf(to.readByFranz("from.orders", 0, len(want))))
	maker.until("the group's offset is there", func() bool { return to.committedByFranz("billing", "from.orders") == linesPerPart })
}

func valuesOf(records []record) []string {
	var values []string
	for _, r := range records {
		values = append(values, r.Value)
	}
	return values
}
