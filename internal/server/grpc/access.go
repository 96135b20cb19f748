package grpcserver

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

type accesses interface {
	WhoAmI(c verbs.Caller) guard.Me
	PutUser(ctx context.Context, c verbs.Caller, name, password string) (made string, existed bool, err error)
	RemoveUser(ctx context.Context, c verbs.Caller, name string) error
	Users(ctx context.Context, c verbs.Caller) ([]access.User, error)
	CreateAccessToken(ctx context.Context, c verbs.Caller, user string, lifetime time.Duration, scope []access.Scope) (text string, t access.Token, err error)
	RevokeAccessToken(ctx context.Context, c verbs.Caller, id string) error
	AccessTokens(ctx context.Context, c verbs.Caller) ([]access.Token, error)
	AddGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error
	RemoveGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error
	Grants(ctx context.Context, c verbs.Caller) (all []access.Grant, enforced bool, err error)
	EnforceRights(ctx context.Context, c verbs.Caller, on bool, administrator string) error
	SetQuota(ctx context.Context, c verbs.Caller, q access.Quota) error
	RemoveQuota(ctx context.Context, c verbs.Caller, subject string) error
	Quotas(ctx context.Context, c verbs.Caller) (all []access.Quota, at string, uses []budget.Consumption, err error)
}

type accessService struct {
	strandlinev1.UnimplementedAccessServiceServer
	node Node
}

func (d *accessService) WhoAmI(ctx context.Context, _ *strandlinev1.WhoAmIRequest) (*strandlinev1.WhoAmIResponse, error) {
	me := d.node.WhoAmI(guard.CallerOf(ctx))
	out := &strandlinev1.WhoAmIResponse{Principal: me.Principal, TokenId: me.Token, Enforced: me.Enforced, MoreRights: me.MoreRights}
	for _, r := range me.Rights {
		out.Rights = append(out.Rights, &strandlinev1.AccessScope{Object: r.On.String(), Rights: r.Rights.Names()})
	}
	return out, nil
}

func (d *accessService) PutUser(ctx context.Context, q *strandlinev1.PutUserRequest) (*strandlinev1.PutUserResponse, error) {
	made, existed, err := d.node.PutUser(ctx, guard.CallerOf(ctx), q.GetName(), q.GetPassword())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.PutUserResponse{Password: made, Existed: existed}, nil
}

func (d *accessService) RemoveUser(ctx context.Context, q *strandlinev1.RemoveUserRequest) (*strandlinev1.RemoveUserResponse, error) {
	if err := d.node.RemoveUser(ctx, guard.CallerOf(ctx), q.GetName()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.RemoveUserResponse), nil
}

func (d *accessService) ListUsers(ctx context.Context, _ *strandlinev1.ListUsersRequest) (*strandlinev1.ListUsersResponse, error) {
	all, err := d.node.Users(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := new(strandlinev1.ListUsersResponse)
	for _, u := range all {
		out.Users = append(out.Users, &strandlinev1.User{Name: u.Name, Created: timestamppb.New(time.UnixMilli(u.Created))})
	}
	return out, nil
}

func (d *accessService) CreateAccessToken(ctx context.Context, q *strandlinev1.CreateAccessTokenRequest) (*strandlinev1.CreateAccessTokenResponse, error) {
	var scope []access.Scope
	for _, s := range q.GetScope() {
		g, refusal := decodeGrant(&strandlinev1.Grant{Object: s.GetObject(), Rights: s.GetRights()})
		if refusal != nil {
			return nil, rpc.StatusOf(ctx, refusal)
		}
		scope = append(scope, access.Scope{On: g.On, Rights: g.Rights})
	}
	text, t, err := d.node.CreateAccessToken(ctx, guard.CallerOf(ctx), q.GetUser(), q.GetLifetime().AsDuration(), scope)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.CreateAccessTokenResponse{Token: text, Description: encodeAccessToken(t)}, nil
}

func (d *accessService) RevokeAccessToken(ctx context.Context, q *strandlinev1.RevokeAccessTokenRequest) (*strandlinev1.RevokeAccessTokenResponse, error) {
	if err := d.node.RevokeAccessToken(ctx, guard.CallerOf(ctx), q.GetId()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.RevokeAccessTokenResponse), nil
}

func (d *accessService) ListAccessTokens(ctx context.Context, _ *strandlinev1.ListAccessTokensRequest) (*strandlinev1.ListAccessTokensResponse, error) {
	all, err := d.node.AccessTokens(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := new(strandlinev1.ListAccessTokensResponse)
	for _, t := range all {
		out.Tokens = append(out.Tokens, encodeAccessToken(t))
	}
	return out, nil
}

func (d *accessService) AddGrants(ctx context.Context, q *strandlinev1.AddGrantsRequest) (*strandlinev1.AddGrantsResponse, error) {
	all, refusal := decodeGrants(q.GetGrants())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	if err := d.node.AddGrants(ctx, guard.CallerOf(ctx), all); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.AddGrantsResponse), nil
}

func (d *accessService) RemoveGrants(ctx context.Context, q *strandlinev1.RemoveGrantsRequest) (*strandlinev1.RemoveGrantsResponse, error) {
	all, refusal := decodeGrants(q.GetGrants())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	if err := d.node.RemoveGrants(ctx, guard.CallerOf(ctx), all); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.RemoveGrantsResponse), nil
}

func (d *accessService) ListGrants(ctx context.Context, _ *strandlinev1.ListGrantsRequest) (*strandlinev1.ListGrantsResponse, error) {
	all, enforced, err := d.node.Grants(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.ListGrantsResponse{Enforced: enforced}
	for _, g := range all {
		out.Grants = append(out.Grants, &strandlinev1.Grant{Principal: g.Principal, Object: g.On.String(), Rights: g.Rights.Names()})
	}
	return out, nil
}

func (d *accessService) EnforceRights(ctx context.Context, q *strandlinev1.EnforceRightsRequest) (*strandlinev1.EnforceRightsResponse, error) {
	if err := d.node.EnforceRights(ctx, guard.CallerOf(ctx), q.GetEnforced(), q.GetAdministrator()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.EnforceRightsResponse), nil
}

func (d *accessService) SetQuota(ctx context.Context, q *strandlinev1.SetQuotaRequest) (*strandlinev1.SetQuotaResponse, error) {
	quota := access.Quota{
		Subject: q.GetQuota().GetSubject(), AppendBytes: q.GetQuota().GetAppendBytes(), ReadBytes: q.GetQuota().GetReadBytes(),
		Requests: q.GetQuota().GetRequests(), Streams: q.GetQuota().GetStreams(), Connections: q.GetQuota().GetConnections(),
	}
	if err := d.node.SetQuota(ctx, guard.CallerOf(ctx), quota); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.SetQuotaResponse), nil
}

func (d *accessService) RemoveQuota(ctx context.Context, q *strandlinev1.RemoveQuotaRequest) (*strandlinev1.RemoveQuotaResponse, error) {
	if err := d.node.RemoveQuota(ctx, guard.CallerOf(ctx), q.GetSubject()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.RemoveQuotaResponse), nil
}

func (d *accessService) ListQuotas(ctx context.Context, _ *strandlinev1.ListQuotasRequest) (*strandlinev1.ListQuotasResponse, error) {
	all, at, uses, err := d.node.Quotas(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.ListQuotasResponse{Node: at}
	for _, q := range all {
		out.Quotas = append(out.Quotas, &strandlinev1.Quota{
			Subject: q.Subject, AppendBytes: q.AppendBytes, ReadBytes: q.ReadBytes, Requests: q.Requests, Streams: q.Streams, Connections: q.Connections,
		})
	}
	for _, u := range uses {
		out.Uses = append(out.Uses, &strandlinev1.QuotaUse{Subject: u.Holder, Limit: u.What, Quota: u.Of, Taken: u.Taken, Wait: durationpb.New(u.Wait), Waiting: int64(u.Waiting)})
	}
	return out, nil
}

// maxGrants bounds the grants of one call.
const maxGrants = 1000

func decodeGrants(all []*strandlinev1.Grant) (grants []access.Grant, refusal *record.Refusal) {
	if len(all) > maxGrants {
		return nil, record.Refuse(record.TooLarge, "%d grants in one call, the limit is %d", len(all), maxGrants)
	}
	for _, one := range all {
		g, refusal := decodeGrant(one)
		if refusal != nil {
			return nil, refusal
		}
		grants = append(grants, g)
	}
	return grants, nil
}

func decodeGrant(q *strandlinev1.Grant) (g access.Grant, refusal *record.Refusal) {
	g.Principal = q.GetPrincipal()
	var err error
	if g.On, err = access.ParseObject(q.GetObject()); err == nil {
		g.Rights, err = access.ParseRights(q.GetRights())
	}
	return g, record.RefusalOf(err)
}

func encodeAccessToken(t access.Token) *strandlinev1.AccessToken {
	out := &strandlinev1.AccessToken{
		Id: t.ID, Principal: t.Principal, Created: timestamppb.New(time.UnixMilli(t.Created)), Expires: timestamppb.New(time.UnixMilli(t.Expires)),
	}
	for _, s := range t.Scope {
		out.Scope = append(out.Scope, &strandlinev1.AccessScope{Object: s.On.String(), Rights: s.Rights.Names()})
	}
	return out
}
