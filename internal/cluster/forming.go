package cluster

import (
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

// Candidate is what a node that was started with peers says of itself before
// there is a cluster.
type Candidate struct {
	Name    string   `json:"name"`
	Cluster string   `json:"cluster_id"`      // empty: it is in none
	Peers   []string `json:"peers,omitempty"` // names of the nodes that it is to be in one with
	Levels  Levels   `json:"levels,omitzero"` // that it understands
}

// FormerOf names the node that forms the cluster of a candidate's peers: of all
// of them the one with the lowest name, so that they form one cluster whichever
// of them is asked, and however many at once.
func FormerOf(c Candidate) (string, *record.Refusal) {
	switch {
	case len(c.Peers) == 0:
		return "", record.Refuse(record.Precondition,
			"node %q was started without --peers, which name the nodes of a new cluster: one that was started with --join is added with `strandline cluster add-node`", c.Name)
	case !slices.Contains(c.Peers, c.Name):
		return "", record.Refuse(record.Invalid, "node %q is not among its own --peers: %s", c.Name, strings.Join(c.Peers, ", "))
	}
	return slices.Min(c.Peers), nil
}

// MayForm refuses that a node forms a cluster of its peers after another one
// of them, which is called name there, has answered. Two nodes whose peers
// differ could form a cluster each.
func MayForm(me Candidate, name string, other Candidate) *record.Refusal {
	mine, theirs := slices.Sorted(slices.Values(me.Peers)), slices.Sorted(slices.Values(other.Peers))
	switch {
	case other.Name != name:
		return record.Refuse(record.Precondition, "the node at the address of %q in --peers of node %q is called %q", name, me.Name, other.Name)
	case other.Cluster != "":
		return record.Refuse(record.Precondition,
			"node %q belongs to cluster %s already, and a node is in one cluster for ever. If node %q was a member there and has lost its data, start it with another --node-name and run `strandline cluster replace-node %s --with THAT-NAME`",
			name, other.Cluster, me.Name, me.Name)
	case !slices.Equal(mine, theirs):
		return record.Refuse(record.Precondition, "node %q was started with --peers that name %s, and node %q with %s: they must name the same nodes",
			me.Name, strings.Join(mine, ", "), name, orNone(theirs))
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
