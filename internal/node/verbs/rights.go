package verbs

import (
	"context"
	"crypto/rand"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
)

// Rights are the verbs for users, tokens, grants and quotas in the catalog. Rights are enforced before the
// node's verbs are called, see Caller.
type Rights struct {
	catalog *catalog.Shared
	self    *peers.Self
}

// NewRights returns the verbs that show and change users, tokens, grants and quotas.
func NewRights(catalog *catalog.Shared, self *peers.Self) *Rights {
	return &Rights{catalog: catalog, self: self}
}

// nothingYet are the rules of a node that is in no cluster.
var nothingYet = access.Compile(access.List{})

// Rules returns the newest rules that this node has received. known reports that they were the
// newest rules at some time since this process started, or come from a cluster that has changed its
// rules. Otherwise the node may not have received any rules yet.
func (r *Rights) Rules() (rules *access.Rules, known bool) {
	c := r.catalog.Load()
	if c == nil {
		return nothingYet, true
	}
	// A cluster whose first node is not in the catalog has only just begun.
	rules = c.Rules.Load()
	return rules, rules.List().Revision > 0 || c.Current.Load() && len(c.Shown.Load().Nodes) > 0
}

// ChangeAccess changes users, tokens, grants and quotas. decide gets the newest list and the time in unix
// ms, and may be called several times.
func (r *Rights) ChangeAccess(ctx context.Context, decide func(l access.List, now int64) (access.Change, *record.Refusal)) error {
	c := r.catalog.Load()
	if c == nil {
		return r.self.NotMember()
	}
	return c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		change, refusal := decide(s.Access, r.self.Now().UnixMilli())
		if change.Empty() {
			return catalog.Refusable(cluster.Change{}, refusal)
		}
		if len(s.Access.Secret) == 0 && s.FeatureLevel() >= access.SecretLevel {
			change.Secret = []byte(rand.Text())
		}
		return catalog.Refusable(cluster.Change{Access: &change}, refusal)
	})
}

// AccessList returns the current users, tokens, grants and quotas.
func (r *Rights) AccessList(ctx context.Context) (access.List, error) {
	c := r.catalog.Load()
	if c == nil {
		return access.List{}, r.self.NotMember()
	}
	if err := c.Refresh(ctx); err != nil {
		return access.List{}, err
	}
	return c.Shown.Load().Access, nil
}
