package access

import (
	"fmt"
	"slices"
	"strings"
)

// Rights are a set of what a principal may do.
type Rights uint16

const (
	Append     Rights = 1 << iota // append to a log, fence other writers of it
	Read                          // read a log; take part in a consumer group
	Trim                          // remove records of a log
	Configure                     // change the settings of a log
	Create                        // create logs
	Delete                        // delete logs, consumer groups
	Observe                       // see which logs, groups and nodes there are, and how they are
	Administer                    // everything, grants and nodes among it
	rightsEnd

	// All are all rights.
	All = rightsEnd - 1
	// None is no right.
	None Rights = 0
)

// names are in the order of the bits.
var names = []string{"append", "read", "trim", "configure", "create", "delete", "observe", "administer"}

// onKind are the rights that can be granted on each kind of object. Those that say
// something of single logs can be granted on all of the cluster, except for what a log
// holds: that is granted on logs, of which a prefix may be all.
var onKind = map[Kind]Rights{
	Cluster: Create | Delete | Observe | Administer,
	Log:     Append | Read | Trim | Configure | Create | Delete | Observe,
	Group:   Read | Delete | Observe,
}

// Names of the rights in the set.
func (r Rights) Names() (all []string) {
	for i, name := range names {
		if r&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

func (r Rights) String() string { return strings.Join(r.Names(), ",") }

// ParseRights returns the set of rights with names.
func ParseRights(all []string) (set Rights, err error) {
	for _, name := range all {
		at := slices.Index(names, name)
		if at < 0 {
			return 0, fmt.Errorf("there is no right %q; there are: %s", name, strings.Join(names, ", "))
		}
		set |= 1 << at
	}
	return set, nil
}

// MarshalText and UnmarshalText write a set as names, separated by commas.
func (r Rights) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Rights) UnmarshalText(text []byte) (err error) {
	*r = 0
	if len(text) > 0 {
		*r, err = ParseRights(strings.Split(string(text), ","))
	}
	return err
}
