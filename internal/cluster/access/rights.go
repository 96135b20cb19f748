package access

import (
	"fmt"
	"slices"
	"strings"
)

// Rights is a set of rights of a principal.
type Rights uint16

const (
	Append     Rights = 1 << iota // append to a log, fence other writers of it
	Read                          // read a log; take part in a consumer group
	Trim                          // remove the oldest records of a log
	Configure                     // change the settings of a log
	Create                        // create logs
	Delete                        // delete logs, consumer groups
	Observe                       // see logs, groups and nodes, and their status
	Administer                    // everything, including grants and nodes
	rightsEnd

	// All is the set of all rights.
	All = rightsEnd - 1
	// None is the empty set.
	None Rights = 0
)

// names are in the order of the bits.
var names = []string{"append", "read", "trim", "configure", "create", "delete", "observe", "administer"}

// onKind is the rights that can be granted on each kind of object. Rights on logs and groups can
// be granted on the whole cluster, except the rights on the content of a log: these are granted
// on logs, and the empty prefix covers all of them.
var onKind = map[Kind]Rights{
	Cluster: Create | Delete | Observe | Administer,
	Log:     Append | Read | Trim | Configure | Create | Delete | Observe,
	Group:   Read | Delete | Observe,
}

// Names returns the names of the rights in the set.
func (r Rights) Names() (all []string) {
	for i, name := range names {
		if r&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

func (r Rights) String() string { return strings.Join(r.Names(), ",") }

// ParseRights returns the set of the named rights.
func ParseRights(all []string) (set Rights, err error) {
	for _, name := range all {
		at := slices.Index(names, name)
		if at < 0 {
			return 0, fmt.Errorf("unknown right %q: use %s", name, strings.Join(names, ", "))
		}
		set |= 1 << at
	}
	return set, nil
}

// MarshalText encodes a set as names, separated by commas. UnmarshalText decodes it.
func (r Rights) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Rights) UnmarshalText(text []byte) (err error) {
	*r = 0
	if len(text) > 0 {
		*r, err = ParseRights(strings.Split(string(text), ","))
	}
	return err
}
