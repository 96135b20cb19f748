package access

import (
	"strings"

	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// Quota limits what one principal takes on each node, or what is taken there of one log. A limit of 0
// is none.
type Quota struct {
	// Subject is user/NAME, log/NAME, Anybody for each caller without a quota of its own, or
	// AnyLog for each log without one.
	Subject     string          `json:"subject"`
	AppendBytes int64           `json:"append_bytes,omitempty"` // a second
	ReadBytes   int64           `json:"read_bytes,omitempty"`   // a second
	Requests    int64           `json:"requests,omitempty"`     // a second
	Streams     int64           `json:"streams,omitempty"`      // open at once
	Connections int64           `json:"connections,omitempty"`  // open at once
	Unknown     unknown.Members `json:"-"`
}

// AnyLog is the subject of the quota of each log without one of its own.
const AnyLog = "log/*"

// QuotaLevel is the feature level that permits quotas.
const QuotaLevel = 6

// MaxQuotas is the maximum number of quotas in the catalog.
const MaxQuotas = 1000

const logPrefix = string(Log) + "/"

// ofLog reports whether the quota is that of a log, or of each log.
func (q Quota) ofLog() bool { return strings.HasPrefix(q.Subject, logPrefix) }

// CheckQuota returns a refusal if the quota is not valid.
func CheckQuota(q Quota) *record.Refusal {
	for _, limit := range []int64{q.AppendBytes, q.ReadBytes, q.Requests, q.Streams, q.Connections} {
		if limit < 0 {
			return record.Refuse(record.Invalid, "the quota of %s has the limit %d: a limit must be at least 1, or 0 for none", q.Subject, limit)
		}
	}
	if q.ofLog() {
		return checkLogQuota(q)
	}
	name, isUser := strings.CutPrefix(q.Subject, userPrefix)
	if q.Subject != Anybody && (!isUser || checkName(name) != nil) {
		return record.Refuse(record.Invalid, "a quota must be of user/NAME, * (each principal without its own), log/NAME or log/* (each log without its own), not of %q", q.Subject)
	}
	return nil
}

func checkLogQuota(q Quota) *record.Refusal {
	o, err := ParseObject(q.Subject)
	if err == nil {
		err = o.Check()
	}
	switch {
	case err != nil:
		return record.Refuse(record.Invalid, "%v", err)
	case o.Prefix && q.Subject != AnyLog:
		return record.Refuse(record.Invalid, "%s: a quota is of one log, log/NAME, or of each log without its own, %s", q.Subject, AnyLog)
	case strings.Contains(o.Name, "/"):
		return record.Refuse(record.Invalid, "%s: a quota is of a whole topic: leave the partition out", q.Subject)
	case o.system():
		return record.Refuse(record.Invalid, "%s belongs to the system, which has no quotas", q.Subject)
	case q.Streams+q.Connections > 0:
		return record.Refuse(record.Invalid, "%s: streams and connections are those of a principal; a quota of a log limits append bytes, read bytes and requests", q.Subject)
	}
	return nil
}

// SetQuota sets the quota of a subject in place of the one that it has.
func SetQuota(l List, q Quota) (c Change, refusal *record.Refusal) {
	if refusal := CheckQuota(q); refusal != nil {
		return Change{}, refusal
	}
	before, existed := l.Quotas[q.Subject]
	switch {
	case existed && before.Same(q):
		return Change{}, nil
	case !existed && len(l.Quotas) >= MaxQuotas:
		return Change{}, full(len(l.Quotas), "quotas")
	}
	return Change{Quotas: []Quota{q}}, nil
}

// ChangeQuota changes the quota of a subject, which may have none. A quota without limits is removed.
func ChangeQuota(l List, subject string, change func(*Quota)) (Change, *record.Refusal) {
	before, existed := l.Quotas[subject]
	q := before
	q.Subject = subject
	change(&q)
	switch {
	case q.limits() != [5]int64{}:
		return SetQuota(l, q)
	case existed:
		return RemoveQuota(l, subject)
	}
	return Change{}, CheckQuota(q)
}

// RemoveQuota removes the quota of a subject.
func RemoveQuota(l List, subject string) (Change, *record.Refusal) {
	if _, ok := l.Quotas[subject]; !ok {
		return Change{}, record.Refuse(record.Precondition, "%s has no quota: see `strandline quota list`", subject)
	}
	return Change{RemoveQuotas: []string{subject}}, nil
}

// Same reports whether both quotas have the same limits.
func (q Quota) Same(other Quota) bool { return q.limits() == other.limits() }

func (q Quota) limits() [5]int64 {
	return [5]int64{q.AppendBytes, q.ReadBytes, q.Requests, q.Streams, q.Connections}
}

// HasQuotas reports whether there are quotas.
func (r *Rules) HasQuotas() bool { return len(r.list.Quotas) > 0 }

// QuotaOf returns the quota of a principal, or of an address of clients that have not
// authenticated. Nodes of the cluster have none.
func (r *Rules) QuotaOf(principal string) (Quota, bool) {
	if strings.HasPrefix(principal, nodePrefix) {
		return Quota{}, false
	}
	return r.quota(principal, Anybody)
}

// QuotaOn returns the quota of the object of a log, and of all partitions of a topic together. Logs of
// the system have none.
func (r *Rules) QuotaOn(o Object) (Quota, bool) {
	if o.system() {
		return Quota{}, false
	}
	return r.quota(o.String(), AnyLog)
}

func (r *Rules) quota(subject, others string) (Quota, bool) {
	q, ok := r.list.Quotas[subject]
	if !ok {
		q, ok = r.list.Quotas[others]
	}
	return q, ok
}
