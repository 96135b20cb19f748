package hosted

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Logs are the logs that this node hosts. The maps are replaced as a whole when
// one comes or goes, so that the append path takes no lock; Changing is held then.
type Logs struct {
	names   atomic.Pointer[map[string]*Log]
	numbers atomic.Pointer[map[uint64]*Log] // by id

	// Changing is held by whoever hosts, unhosts or closes logs.
	Changing sync.Mutex
	Closed   bool // nothing is hosted any more; Changing guards it
	// CatalogOpening is held while the catalog is opened and until it is shown. Who
	// holds it may take Changing.
	CatalogOpening sync.Mutex
	// Closing is set before Changing could be had.
	Closing atomic.Bool
}

// NewLogs returns an empty list.
func NewLogs() *Logs {
	l := &Logs{}
	l.show(map[string]*Log{})
	return l
}

// AwaitShown returns when a log that is being opened, which may prove damaged
// while it is, has been shown to others.
func (l *Logs) AwaitShown() {
	l.Changing.Lock()
	defer l.Changing.Unlock()
}

// AwaitCatalogShown is AwaitShown for the catalog.
func (l *Logs) AwaitCatalogShown() {
	l.CatalogOpening.Lock()
	defer l.CatalogOpening.Unlock()
}

// All must not be changed.
func (l *Logs) All() map[string]*Log { return *l.names.Load() }

// Named returns the log of a name; nil: it is not hosted here.
func (l *Logs) Named(name string) *Log { return (*l.names.Load())[name] }

// ByID is named with the id of the log.
func (l *Logs) ByID(id uint64) *Log { return (*l.numbers.Load())[id] }

// Add adds logs, each in the place of one of the same name.
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

func (l *Logs) show(logs map[string]*Log) {
	numbers := make(map[uint64]*Log, len(logs))
	for _, h := range logs {
		numbers[h.ID] = h
	}
	l.names.Store(&logs)
	l.numbers.Store(&numbers)
}
