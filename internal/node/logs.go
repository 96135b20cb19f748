package node

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"strandline.dev/internal/record"
)

// maxLogs bounds the logs of a node: each costs files, two goroutines and a
// place in the catalog.
const maxLogs = 10_000

// validName is what users may call a log. A leading underscore is the system's.
var validName = regexp.MustCompile(`^[A-Za-z0-9.-][A-Za-z0-9._-]{0,199}$`)

// CreateLog makes a log and answers when it takes appends.
func (n *Node) CreateLog(ctx context.Context, c Caller, name string, config Config) (Info, error) {
	if r := checkName(c, name, config); r != nil {
		return Info{}, r
	}
	if err := checkConfig(config); err != nil {
		return Info{}, err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed {
		return Info{}, record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	var created catalogLog
	err := n.catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
		if _, ok := s.Logs[name]; ok {
			return catalogChange{}, record.Refuse(record.LogExists, "there is a log %q already", name)
		}
		if len(s.Logs) >= maxLogs {
			return catalogChange{}, record.Refuse(record.TooLarge, "there are %d logs, which is the limit", len(s.Logs))
		}
		created = catalogLog{
			ID: s.NextLog, Name: name, Config: encodeConfig(config),
			Created: time.Now().UnixMilli(), Replica: s.NextReplica,
		}
		if config.Durability == Memory {
			created.Ceiling = memoryBlock
			return catalogChange{Put: &created}, nil
		}
		// The files come first: a log that the catalog names is never made
		// from nothing again. Files that it does not name are removed when
		// the node opens.
		if err := n.removeReplica(created); err != nil {
			return catalogChange{}, err
		}
		store, err := n.createDisk(created.ID, created.Replica)
		if err != nil {
			return catalogChange{}, refuseStorage(fmt.Errorf("create log %s: %w", name, err))
		}
		return catalogChange{Put: &created}, store.Close()
	})
	if err != nil {
		return Info{}, err
	}
	h := n.host(created)
	n.addLog(h)
	if err := h.awaitOffice(ctx); err != nil {
		return Info{}, err
	}
	return n.describe(h), nil
}

func checkConfig(c Config) error {
	switch {
	case c.Retention < 0 || c.RetentionBytes < 0 || c.Replicas < 0:
		return record.Refuse(record.Invalid, "retention and replicas cannot be negative")
	case c.Retention > 0 && c.Retention < time.Second:
		return record.Refuse(record.Invalid, "a retention of %v is below the least, 1s", c.Retention)
	case c.Replicas > 1:
		return record.Refuse(record.Unsupported, "%d replicas asked for: this node is alone, so a log has 1", c.Replicas)
	}
	return nil
}

// ListLogs describes all logs, by name; with internal the system's too.
func (n *Node) ListLogs(_ context.Context, _ Caller, internal bool) ([]Info, error) {
	logs := *n.logs.Load()
	infos := make([]Info, 0, len(logs))
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		if internal || !strings.HasPrefix(name, "_") {
			infos = append(infos, n.describe(logs[name]))
		}
	}
	return infos, nil
}

// ConfigureLog changes a log's retention. Durability stays as created.
func (n *Node) ConfigureLog(ctx context.Context, _ Caller, name string, config Config) (Info, error) {
	h, refusal := n.serving(name)
	if refusal != nil {
		return Info{}, refusal
	}
	if err := checkConfig(config); err != nil {
		return Info{}, err
	}
	if config.Durability != h.config.Load().Durability {
		return Info{}, record.Refuse(record.Invalid, "the durability of a log cannot be changed; make a new log and copy")
	}
	config.Topic, config.Partition = h.config.Load().Topic, h.config.Load().Partition
	n.changing.Lock()
	defer n.changing.Unlock()
	err := n.catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
		l, ok := s.Logs[name]
		if !ok {
			return catalogChange{}, record.Refuse(record.LogNotFound, "there is no log %q", name)
		}
		l.Config = encodeConfig(config)
		return catalogChange{Put: &l}, nil
	})
	if err != nil {
		return Info{}, err
	}
	h.config.Store(&config)
	return n.describe(h), nil
}

// DeleteLog removes a log with all its records.
func (n *Node) DeleteLog(ctx context.Context, c Caller, name string) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	h := (*n.logs.Load())[name]
	if r := refuseSystem(c, name); r != nil {
		return r
	}
	var gone catalogLog
	err := n.catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
		l, ok := s.Logs[name]
		if !ok {
			return catalogChange{}, record.Refuse(record.LogNotFound, "there is no log %q", name)
		}
		if r := s.refuseOrphans(name); r != nil {
			return catalogChange{}, r
		}
		gone = l
		return catalogChange{Delete: name}, nil
	})
	if err != nil {
		return err
	}
	// From here the log is gone, whatever happens to its files: what a crash
	// leaves of them is removed when the node opens.
	n.removeLog(name)
	n.metrics.forget(name)
	if h != nil {
		if err := h.close(ctx); err != nil {
			n.logger.Warn("a deleted log did not close cleanly", "log", name, "error", err)
		}
	}
	return n.removeReplica(gone)
}

func (n *Node) removeReplica(l catalogLog) error {
	if err := n.disk.RemoveAll(n.logDir(l.ID)); err != nil {
		return refuseStorage(fmt.Errorf("remove files of log %s: %w", l.Name, err))
	}
	return nil
}

// openLogs hosts every log of the catalog and removes files of logs that it
// does not name.
func (n *Node) openLogs() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	logs, err := n.catalog.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := n.removeOrphans(logs); err != nil {
		return err
	}
	for i := range logs {
		if logs[i].Config.decode().Durability == Memory {
			if err := n.renewMemory(ctx, &logs[i]); err != nil {
				return err
			}
		}
		n.addLog(n.host(logs[i]))
	}
	for _, l := range logs {
		h := (*n.logs.Load())[l.Name]
		if h.unserved != "" {
			continue
		}
		if err := h.awaitOffice(ctx); err != nil {
			return fmt.Errorf("open log %s: %w", l.Name, err)
		}
		if err := h.moveTo(ctx, l.Lost); err != nil {
			return fmt.Errorf("open log %s: %w", l.Name, err)
		}
	}
	return nil
}

func (n *Node) removeOrphans(logs []catalogLog) error {
	known := map[string]bool{strconv.Itoa(catalogID): true}
	for _, l := range logs {
		known[strconv.FormatUint(l.ID, 10)] = true
	}
	dirs, err := n.disk.ListDirs(n.logsDir())
	if err != nil {
		return fmt.Errorf("list logs on disk: %w", err)
	}
	for _, dir := range dirs {
		if known[dir] {
			continue
		}
		n.logger.Info("removing files of a log that is not in the catalog", "directory", dir)
		if err := n.disk.RemoveAll(filepath.Join(n.logsDir(), dir)); err != nil {
			return fmt.Errorf("remove files of log %s: %w", dir, err)
		}
	}
	return nil
}
