package cluster

// MaxCatalogVoters is how many nodes at the most vote on the catalog: more would
// make each change slower and the cluster no safer. The others follow it.
const MaxCatalogVoters = 5

// Catalog is the placement of the catalog's own replicas.
func (s *State) Catalog() Placement {
	var p Placement
	for _, n := range s.Members() {
		r := Replica{ID: n.Catalog, Node: n.ID}
		if n.Leaving {
			p.Leaving = append(p.Leaving, r)
		} else {
			p.Replicas = append(p.Replicas, r)
		}
	}
	return p
}

// CatalogMembers are the replicas that the catalog itself should have. A node on
// its way out has no vote, but follows for as long as it holds a replica of any
// log: it may lead that log, and then it is the one to move it.
func (s *State) CatalogMembers() (voters, learners []uint64) {
	for _, n := range s.Members() {
		switch {
		case n.Leaving && s.Holds(n.ID):
			learners = append(learners, n.Catalog)
		case n.Leaving:
		case len(voters) < MaxCatalogVoters:
			voters = append(voters, n.Catalog)
		default:
			learners = append(learners, n.Catalog)
		}
	}
	return voters, learners
}
