package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Grant gives a principal rights on an object. A principal is user/NAME, node/NAME, or * for
// every authenticated principal; an object is cluster, log/NAME, log/PREFIX*, group/NAME or
// group/PREFIX*. Rights are append, read, trim, configure, create, delete, observe and
// administer.
type Grant struct {
	Principal string
	Object    string
	Rights    []string
}

// Scope is rights of the user on an object that an access token may use.
type Scope struct {
	Object string
	Rights []string
}

// User is a user that authenticates with a password.
type User struct {
	Name    string
	Created time.Time
}

// AccessToken describes a token with which a client acts for a user.
type AccessToken struct {
	ID        string
	Principal string
	Created   time.Time
	Expires   time.Time
	Scope     []Scope // empty: all rights of the user
}

// Identity is the identity of a client.
type Identity struct {
	Principal string // empty: it is not authenticated
	TokenID   string // id of the token that it uses; empty: none
	Enforced  bool   // whether a request without a grant is refused
}

// Quota limits what a principal takes on each node, or what is taken there of a log. A limit of 0 is
// none.
type Quota struct {
	// Subject is user/NAME; * for each principal without a quota of its own, and for each address of
	// clients that are not authenticated; log/NAME, a topic with all its partitions; or log/* for
	// each log without a quota of its own.
	Subject     string
	AppendBytes int64 // of requests to append, in a second
	ReadBytes   int64 // of batches that are read, in a second
	Requests    int64 // in a second; of a log: appends and new reads
	Streams     int64 // open at once; not of a log
	Connections int64 // open at once; not of a log
}

// QuotaUse is what a principal takes of one limit on a node, or what is taken of a log.
type QuotaUse struct {
	Subject string // the principal, the address of clients that are not authenticated, or log/NAME
	Limit   string // append_bytes, read_bytes, requests, streams or connections
	Quota   string // the subject of the quota that limits it
	Taken   int64  // in the last second, or open now
	Wait    time.Duration
	Waiting int64 // requests and reads that wait
}

// Access manages users, tokens, grants and quotas. All methods but WhoAmI require the right to
// administer, once rights are enforced.
type Access struct{ admin *Admin }

// Access returns the methods for users, tokens, grants and quotas. They retry like those of Admin.
func (a *Admin) Access() *Access { return &Access{a} }

// WhoAmI returns the identity of this client according to the cluster.
func (a *Access) WhoAmI(ctx context.Context) (Identity, error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.WhoAmI, &strandlinev1.WhoAmIRequest{})
	return Identity{answer.GetPrincipal(), answer.GetTokenId(), answer.GetEnforced()}, err
}

// PutUser adds a user with a password, or changes the password of an existing user, which existed
// reports. If the password is empty, the node generates one and returns it; it is not stored. If
// the answer is lost, the password is unknown and must be changed again.
func (a *Access) PutUser(ctx context.Context, name, password string) (made string, existed bool, err error) {
	again := repeatedly
	if password == "" {
		again = once // each attempt would generate another password
	}
	answer, err := accessCall(ctx, a.admin, again, strandlinev1.AccessServiceClient.PutUser, &strandlinev1.PutUserRequest{Name: name, Password: password})
	return answer.GetPassword(), answer.GetExisted(), err
}

// RemoveUser removes a user's password, tokens, grants and quota.
func (a *Access) RemoveUser(ctx context.Context, name string) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RemoveUser, &strandlinev1.RemoveUserRequest{Name: name})
	return err
}

// ListUsers returns the users that have a password, by name.
func (a *Access) ListUsers(ctx context.Context) (all []User, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListUsers, &strandlinev1.ListUsersRequest{})
	for _, u := range answer.GetUsers() {
		all = append(all, User{u.GetName(), u.GetCreated().AsTime()})
	}
	return all, err
}

// CreateAccessToken creates a token with which a client acts for a user, see WithToken. The token
// is returned here and not stored. Without a scope it has all rights of the user. The call is
// made once: with an error whose Outcome is MaybeDone, a token may exist whose text is lost. It
// is the user's newest in ListAccessTokens, and can be revoked.
func (a *Access) CreateAccessToken(ctx context.Context, user string, lifetime time.Duration, scope ...Scope) (token string, t AccessToken, err error) {
	q := &strandlinev1.CreateAccessTokenRequest{User: user, Lifetime: durationpb.New(lifetime)}
	for _, s := range scope {
		q.Scope = append(q.Scope, &strandlinev1.AccessScope{Object: s.Object, Rights: s.Rights})
	}
	answer, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.CreateAccessToken, q)
	return answer.GetToken(), fromAccessToken(answer.GetDescription()), err
}

// RevokeAccessToken revokes a token. All nodes refuse it within a second.
func (a *Access) RevokeAccessToken(ctx context.Context, id string) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RevokeAccessToken, &strandlinev1.RevokeAccessTokenRequest{Id: id})
	return err
}

// ListAccessTokens returns the valid tokens, by id.
func (a *Access) ListAccessTokens(ctx context.Context) (all []AccessToken, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListAccessTokens, &strandlinev1.ListAccessTokensRequest{})
	for _, t := range answer.GetTokens() {
		all = append(all, fromAccessToken(t))
	}
	return all, err
}

// AddGrants gives rights to principals. Either all grants are added or none.
func (a *Access) AddGrants(ctx context.Context, all ...Grant) error {
	_, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.AddGrants, &strandlinev1.AddGrantsRequest{Grants: toGrants(all)})
	return err
}

// RemoveGrants removes rights that were granted on exactly these objects. Either all are removed
// or none.
func (a *Access) RemoveGrants(ctx context.Context, all ...Grant) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RemoveGrants, &strandlinev1.RemoveGrantsRequest{Grants: toGrants(all)})
	return err
}

// ListGrants returns the grants, by principal and object, and reports whether requests without a
// grant are refused.
func (a *Access) ListGrants(ctx context.Context) (all []Grant, enforced bool, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListGrants, &strandlinev1.ListGrantsRequest{})
	for _, g := range answer.GetGrants() {
		all = append(all, Grant{g.GetPrincipal(), g.GetObject(), g.GetRights()})
	}
	return all, answer.GetEnforced(), err
}

// EnforceRights turns the enforcement of rights on or off. If administrator is not empty, it gets
// the right to administer in the same change.
func (a *Access) EnforceRights(ctx context.Context, enforced bool, administrator string) error {
	_, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.EnforceRights,
		&strandlinev1.EnforceRightsRequest{Enforced: enforced, Administrator: administrator})
	return err
}

// SetQuota sets the quota of a subject in place of the one that it has. All nodes keep it within a
// second.
func (a *Access) SetQuota(ctx context.Context, q Quota) error {
	_, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.SetQuota, &strandlinev1.SetQuotaRequest{Quota: &strandlinev1.Quota{
		Subject: q.Subject, AppendBytes: q.AppendBytes, ReadBytes: q.ReadBytes, Requests: q.Requests, Streams: q.Streams, Connections: q.Connections,
	}})
	return err
}

// RemoveQuota removes the quota of a subject.
func (a *Access) RemoveQuota(ctx context.Context, subject string) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RemoveQuota, &strandlinev1.RemoveQuotaRequest{Subject: subject})
	return err
}

// ListQuotas returns the quotas, by subject, and what is taken of them on the node that answers, at
// most 1000, those first that wait longest.
func (a *Access) ListQuotas(ctx context.Context) (all []Quota, node string, uses []QuotaUse, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListQuotas, &strandlinev1.ListQuotasRequest{})
	for _, q := range answer.GetQuotas() {
		all = append(all, Quota{q.GetSubject(), q.GetAppendBytes(), q.GetReadBytes(), q.GetRequests(), q.GetStreams(), q.GetConnections()})
	}
	for _, u := range answer.GetUses() {
		uses = append(uses, QuotaUse{u.GetSubject(), u.GetLimit(), u.GetQuota(), u.GetTaken(), u.GetWait().AsDuration(), u.GetWaiting()})
	}
	return all, answer.GetNode(), uses, err
}

func toGrants(all []Grant) (wire []*strandlinev1.Grant) {
	for _, g := range all {
		wire = append(wire, &strandlinev1.Grant{Principal: g.Principal, Object: g.Object, Rights: g.Rights})
	}
	return wire
}

func fromAccessToken(t *strandlinev1.AccessToken) AccessToken {
	if t == nil {
		return AccessToken{}
	}
	out := AccessToken{ID: t.GetId(), Principal: t.GetPrincipal(), Created: t.GetCreated().AsTime(), Expires: t.GetExpires().AsTime()}
	for _, s := range t.GetScope() {
		out.Scope = append(out.Scope, Scope{s.GetObject(), s.GetRights()})
	}
	return out
}

// accessCall makes one call of the AccessService. The answer is nil with an error.
func accessCall[Q, R any](ctx context.Context, a *Admin, again repetition, call func(strandlinev1.AccessServiceClient, context.Context, *Q, ...grpc.CallOption) (*R, error), q *Q) (answer *R, err error) {
	err = a.callOn(ctx, a.toCatalog(), again, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		answer, err = call(strandlinev1.NewAccessServiceClient(conn), ctx, q)
		return err
	})
	return answer, err
}
