package access

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// Kind is a kind of object.
type Kind string

const (
	// Cluster is the whole cluster.
	Cluster Kind = "cluster"
	// Log is a log, or a topic with all its partitions.
	Log Kind = "log"
	// Group is a Kafka consumer group.
	Group Kind = "group"
)

// Object is what rights are granted on.
type Object struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
	// Prefix is set if the object is all logs or groups whose names begin with Name. Only grants and
	// scopes have such objects.
	Prefix  bool            `json:"prefix,omitempty"`
	Unknown unknown.Members `json:"-"`
}

// OfCluster is the whole cluster.
var OfCluster = Object{Kind: Cluster}

// OfLog returns the object of the log with the given name. All partitions of a topic are one
// object.
func OfLog(name string) Object {
	topic, _, _ := strings.Cut(name, "/")
	return Object{Kind: Log, Name: topic}
}

// system reports whether the object is a log of the system.
func (o Object) system() bool { return o.Kind == Log && record.IsSystemLog(o.Name) }

// MaxObjectName is the maximum length of an object's name in bytes.
const MaxObjectName = 255

// String returns the object as it is written in commands: cluster, log/orders, log/audit-*,
// group/*.
func (o Object) String() string {
	switch {
	case o.Kind == Cluster:
		return string(Cluster)
	case o.Prefix:
		return string(o.Kind) + "/" + o.Name + "*"
	}
	return string(o.Kind) + "/" + o.Name
}

// ParseObject parses the result of String.
func ParseObject(text string) (Object, error) {
	kind, name, named := strings.Cut(text, "/")
	o := Object{Kind: Kind(kind), Name: name}
	o.Name, o.Prefix = strings.CutSuffix(name, "*")
	if kind == string(Cluster) != named {
		return o, o.Check()
	}
	return o, fmt.Errorf("an object must be cluster, log/NAME, log/PREFIX*, group/NAME or group/PREFIX*, not %q", text)
}

// Check returns an error if rights cannot be granted on the object.
func (o Object) Check() error {
	switch {
	case onKind[o.Kind] == None:
		return fmt.Errorf("unknown kind of object %q: use cluster, log or group", o.Kind)
	case o.Kind == Cluster && (o.Name != "" || o.Prefix):
		return errors.New("the object cluster must have no name")
	case o.Kind != Cluster && o.Name == "" && !o.Prefix:
		return fmt.Errorf("the object has no name: write %[1]s/NAME, or %[2]s/* for all", o.Kind, o.Kind)
	case len(o.Name) > MaxObjectName:
		return fmt.Errorf("the name of the object has %d bytes, the limit is %d", len(o.Name), MaxObjectName)
	}
	return nil
}

// covers reports whether a grant on o applies to one.
func (o Object) covers(one Object) bool {
	return o.Kind == one.Kind && (o.Name == one.Name || o.Prefix && strings.HasPrefix(one.Name, o.Name))
}

// compare orders objects by kind and name, a prefix before the object of its name and all that begin with it.
func (o Object) compare(p Object) int {
	switch c := cmp.Or(strings.Compare(string(o.Kind), string(p.Kind)), strings.Compare(o.Name, p.Name)); {
	case c != 0 || o.Prefix == p.Prefix:
		return c
	case o.Prefix:
		return -1
	}
	return 1
}

// known returns the object without what a later version says of it.
func (o Object) known() Object { return Object{Kind: o.Kind, Name: o.Name, Prefix: o.Prefix} }
