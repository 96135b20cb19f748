package cluster

import (
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

// Candidate describes a node that was started with peers and is not in a cluster yet.
type Candidate struct {
	Name    string   `json:"name"`
	Cluster string   `json:"cluster_id"`      // empty: it is in no cluster
	Peers   []string `json:"peers,omitempty"` // names of the nodes with which it will form a cluster
	Levels  Levels   `json:"levels,omitzero"` // feature levels that it supports
}

// FormerOf returns the name of the node that forms the cluster of a candidate's peers: the lowest
// name of all. So the nodes form one cluster whichever of them receives the request, and however
// many do at once.
func FormerOf(c Candidate) (string, *record.Refusal) {
	switch {
	case len(c.Peers) == 0:
		return "", record.Refuse(record.Precondition,
			"node %q was started without --peers, which name the nodes of a new cluster: a node that was started with --join is added with `strandline cluster add-node`", c.Name)
	case !slices.Contains(c.Peers, c.Name):
		return "", record.Refuse(record.Invalid, "node %q is not among its own --peers: %s", c.Name, strings.Join(c.Peers, ", "))
	}
	return slices.Min(c.Peers), nil
}

// MayForm returns a refusal if the node me must not form a cluster with the peer other, which it
// knows as name. Two nodes whose peers differ could otherwise form a cluster each.
func MayForm(me Candidate, name string, other Candidate) *record.Refusal {
	mine, theirs := slices.Sorted(slices.Values(me.Peers)), slices.Sorted(slices.Values(other.Peers))
	switch {
	case other.Name != name:
		return record.Refuse(record.Precondition, "the node at the address of %q in --peers of node %q is called %q", name, me.Name, other.Name)
	case other.Cluster != "":
		return record.Refuse(record.Precondition,
			"node %q belongs to cluster %s already, and a node can never change its cluster. If node %q was a member there and has lost its data, start it with another --node-name and run `strandline cluster replace-node %s --with THAT-NAME`",
			name, other.Cluster, me.Name, me.Name)
	case !slices.Equal(mine, theirs):
		return record.Refuse(record.Precondition, "node %q was started with --peers %s, and node %q with %s: start all with the same nodes",
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
