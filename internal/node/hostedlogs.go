package node

import (
	"maps"
	"sync/atomic"
)

// hostedLogs are the logs that this node hosts. The maps are replaced as a whole when
// one comes or goes, so that the append path takes no lock; opener.changing is held then.
type hostedLogs struct {
	names   atomic.Pointer[map[string]*hosted]
	numbers atomic.Pointer[map[uint64]*hosted] // by id
}

func newHostedLogs() *hostedLogs {
	l := &hostedLogs{}
	l.show(map[string]*hosted{})
	return l
}

// all must not be changed.
func (l *hostedLogs) all() map[string]*hosted { return *l.names.Load() }

// named returns the log of a name; nil: it is not hosted here.
func (l *hostedLogs) named(name string) *hosted { return (*l.names.Load())[name] }

// byID is named with the id of the log.
func (l *hostedLogs) byID(id uint64) *hosted { return (*l.numbers.Load())[id] }

// add adds logs, each in the place of one of the same name.
func (l *hostedLogs) add(hosts ...*hosted) {
	logs := maps.Clone(l.all())
	for _, h := range hosts {
		logs[h.name] = h
	}
	l.show(logs)
}

func (l *hostedLogs) remove(name string) {
	logs := maps.Clone(l.all())
	delete(logs, name)
	l.show(logs)
}

func (l *hostedLogs) show(logs map[string]*hosted) {
	numbers := make(map[uint64]*hosted, len(logs))
	for _, h := range logs {
		numbers[h.id] = h
	}
	l.names.Store(&logs)
	l.numbers.Store(&numbers)
}
