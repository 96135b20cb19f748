package hosted

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Logs are the logs that this node hosts. To add or remove a log, the maps are replaced as a whole,
// under Changing, so that the append path takes no lock.
type Logs struct {
	names   atomic.Pointer[map[string]*Log]
	numbers atomic.Pointer[map[uint64]*Log] // by id
	changes atomic.Uint64                   // of the maps

	// Changing is held while logs are hosted, removed or closed.
	Changing sync.Mutex
	Closed   bool // no log is hosted any more; Changing guards it
	// CatalogOpening is held from opening the catalog until it is in the list. Changing may be
	// locked while it is held.
	CatalogOpening sync.Mutex
	// Closing is set before Changing is locked for Close.
	Closing atomic.Bool
}

// NewLogs returns an empty list.
func NewLogs() *Logs {
	l := &Logs{}
	l.show(map[string]*Log{})
	return l
}

// AwaitShown waits until a log that is being opened is in the list. The log may turn out to be
// damaged before that.
func (l *Logs) AwaitShown() {
	l.Changing.Lock()
	defer l.Changing.Unlock()
}

// AwaitCatalogShown is AwaitShown for the catalog.
func (l *Logs) AwaitCatalogShown() {
	l.CatalogOpening.Lock()
	defer l.CatalogOpening.Unlock()
}

// All returns the logs by name. The caller must not change the map.
func (l *Logs) All() map[string]*Log { return *l.names.Load() }

// Named returns the log with a name, or nil if it is not hosted here.
func (l *Logs) Named(name string) *Log { return (*l.names.Load())[name] }

// ByID returns the log with an id, or nil if it is not hosted here.
func (l *Logs) ByID(id uint64) *Log { return (*l.numbers.Load())[id] }

// Add adds logs; each replaces a log with the same name.
func (l *Logs) Add(hosts ...*Log) {
	logs := maps.Clone(l.All())
	for _, h := range hosts {
		logs[h.Name] = h
	}
	l.show(logs)
}

func (l *Logs) Remove(name string) {
	logs := maps.Clone(l.All())
	delete(logs, name)
	l.show(logs)
}

// Changes returns how often the list has changed.
func (l *Logs) Changes() uint64 { return l.changes.Load() }

func (l *Logs) show(logs map[string]*Log) {
	numbers := make(map[uint64]*Log, len(logs))
	for _, h := range logs {
		numbers[h.ID] = h
	}
	l.names.Store(&logs)
	l.numbers.Store(&numbers)
	l.changes.Add(1)
}
