package node

import (
	"context"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/transport/peer"
)

// register names for each question of another node the part that answers.
func (n *Node) register(a *answers) {
	a.toAnybody = map[string]answer{
		askWho:  func(context.Context, peer.NodeID, []byte) (any, error) { return n.self.candidate(), nil },
		askForm: answerTo(func(ctx context.Context, q formRequest) (any, error) { return n.membership.forming.formFor(ctx, q) }),
		askJoin: answerTo(func(ctx context.Context, q cluster.JoinRequest) (any, error) {
			if err := n.provedToBe(ctx, q.Name); err != nil {
				return nil, err
			}
			return n.membership.roll.takeIn(ctx, q)
		}),
		askInvite: answerTo(func(_ context.Context, q invitation) (any, error) { return nil, n.membership.joiner.invited(q) }),
		askRenewCatalog: answerTo(func(ctx context.Context, q renewCatalogRequest) (any, error) {
			if err := n.provedToBe(ctx, q.Name); err != nil {
				return nil, err
			}
			return n.owners.catalogRepairer.give(ctx, q)
		}),
		askEntries: func(ctx context.Context, from peer.NodeID, request []byte) (any, error) {
			if from == 0 && !n.owners.catalogRepairer.allows(request) {
				return nil, n.self.notMember()
			}
			return answerTo(func(ctx context.Context, q entriesRequest) (any, error) { return n.owners.entries.give(ctx, q) })(ctx, from, request)
		},
	}
	a.toMembers = map[string]answer{
		askCatalogAppend: answerTo(func(ctx context.Context, q catalogAppend) (any, error) {
			return nil, n.catalog.Load().appendAt(ctx, q.End, q.Values)
		}),
		askTransfer: answerTo(func(ctx context.Context, q transferRequest) (any, error) {
			return nil, n.verbs.leadership.transferHere(ctx, q)
		}),
		askReady:  answerTo(func(ctx context.Context, log string) (any, error) { return nil, n.verbs.admin.awaitLog(ctx, log) }),
		askStatus: func(context.Context, peer.NodeID, []byte) (any, error) { return n.verbs.status.ownStatus(), nil },
		askKept:   answerTo(func(_ context.Context, q keptRequest) (any, error) { return n.owners.renewer.keptHere(q) }),
		askLeads:  func(context.Context, peer.NodeID, []byte) (any, error) { return n.membership.spread.own(), nil },
	}
}
