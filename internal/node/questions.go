package node

import (
	"context"
	"fmt"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/transport/peer"
)

// register names for each question of another node the part that answers.
func (n *Node) register(a *peers.Answers) {
	a.ToAnybody = map[string]peers.Answer{
		peers.AskWho: func(context.Context, peer.NodeID, []byte) (any, error) { return n.Self.Candidate(), nil },
		peers.AskForm: peers.AnswerTo(func(ctx context.Context, q membership.FormRequest) (any, error) {
			return n.Membership.Forming.FormFor(ctx, q)
		}),
		peers.AskJoin: peers.AnswerTo(func(ctx context.Context, q cluster.JoinRequest) (any, error) {
			if err := n.provedToBe(ctx, q.Name); err != nil {
				return nil, err
			}
			return n.Membership.Roll.TakeIn(ctx, q)
		}),
		peers.AskInvite: peers.AnswerTo(func(_ context.Context, q membership.Invitation) (any, error) {
			return nil, n.Membership.Joiner.Invited(q)
		}),
		peers.AskRenewCatalog: peers.AnswerTo(func(ctx context.Context, q replicas.RenewCatalogRequest) (any, error) {
			if err := n.provedToBe(ctx, q.Name); err != nil {
				return nil, err
			}
			return n.owners.CatalogRepairer.Give(ctx, q)
		}),
		peers.AskEntries: func(ctx context.Context, from peer.NodeID, request []byte) (any, error) {
			if from == 0 && !n.owners.CatalogRepairer.Allows(request) {
				return nil, n.Self.NotMember()
			}
			if refusal := a.RefuseNonMember(ctx, from); refusal != nil {
				return nil, refusal
			}
			return peers.AnswerTo(func(ctx context.Context, q replicas.EntriesRequest) (any, error) {
				return n.owners.Entries.Give(ctx, q)
			})(ctx, from, request)
		},
	}
	a.ToMembers = map[string]peers.Answer{
		peers.AskCatalogAppend: peers.AnswerTo(func(ctx context.Context, q catalog.CatalogAppend) (any, error) {
			return nil, n.catalog.Load().AppendAt(ctx, q.End, q.Values)
		}),
		peers.AskTransfer: peers.AnswerTo(func(ctx context.Context, q peers.TransferRequest) (any, error) {
			return nil, n.Transfers.TransferHere(ctx, q)
		}),
		peers.AskReady: peers.AnswerTo(func(ctx context.Context, log string) (any, error) {
			return nil, n.awaiter.AwaitLog(ctx, log, false)
		}),
		peers.AskLed: peers.AnswerTo(func(ctx context.Context, log string) (any, error) {
			return nil, n.awaiter.AwaitLog(ctx, log, true)
		}),
		peers.AskConfigured: peers.AnswerTo(func(ctx context.Context, q peers.ConfiguredRequest) (any, error) {
			return nil, n.awaiter.AwaitConfigured(ctx, q)
		}),
		peers.AskStatus: func(context.Context, peer.NodeID, []byte) (any, error) { return n.Statuses.OwnStatus(), nil },
		peers.AskKept: peers.AnswerTo(func(ctx context.Context, q replicas.KeptRequest) (any, error) {
			return n.owners.Renewer.KeptHere(ctx, q)
		}),
		peers.AskLeads: func(context.Context, peer.NodeID, []byte) (any, error) { return n.Membership.Spread.Own(), nil },
	}
}

// provedToBe refuses a request in the name of a node whose connection proves another
// one's.
func (n *Node) provedToBe(ctx context.Context, name string) error {
	if proved := peer.ProvedName(ctx); proved != "" && proved != name {
		n.metrics.Forged.Inc()
		return fmt.Errorf("the certificate of the connection is that of node/%s, and it asks as node/%s", proved, name)
	}
	return nil
}
