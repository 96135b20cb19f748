package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Grant is rights of a principal on an object. A principal is user/NAME, node/NAME, or *
// for everybody who has proved who it is; an object is cluster, log/NAME, log/PREFIX*,
// group/NAME or group/PREFIX*. Rights are append, read, trim, configure, create, delete,
// observe and administer.
type Grant struct {
	Principal string
	Object    string
	Rights    []string
}

// Scope is rights on an object that a token may use of its user's.
type Scope struct {
	Object string
	Rights []string
}

// User is one who can prove who it is with a password.
type User struct {
	Name    string
	Created time.Time
}

// AccessToken is what is known of a token with which a client acts for a user.
type AccessToken struct {
	ID        string
	Principal string
	Created   time.Time
	Expires   time.Time
	Scope     []Scope // empty: all rights of the user
}

// Identity is as whom a client is known.
type Identity struct {
	Principal string // empty: it has not proved who it is
	TokenID   string // of the token that it has shown; empty: none
	Enforced  bool   // what is not granted is refused
}

// Access says who may do what in the cluster, and changes it. All but WhoAmI needs the
// right to administer, once rights are enforced.
type Access struct{ admin *Admin }

// Access returns the verbs of users, tokens and grants. They retry as those of Admin do.
func (a *Admin) Access() *Access { return &Access{a} }

// WhoAmI returns as whom the cluster knows this client.
func (a *Access) WhoAmI(ctx context.Context) (Identity, error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.WhoAmI, &strandlinev1.WhoAmIRequest{})
	return Identity{answer.GetPrincipal(), answer.GetTokenId(), answer.GetEnforced()}, err
}

// PutUser adds a user with a password, or changes the password: then existed is true. A
// password that is empty is made up by the node and returned; it is kept nowhere. If the
// answer is lost, which one it is is not known: it needs to be changed again.
func (a *Access) PutUser(ctx context.Context, name, password string) (made string, existed bool, err error) {
	again := repeatedly
	if password == "" {
		again = once // each node that is asked would make up another one, and the last to be kept would count
	}
	answer, err := accessCall(ctx, a.admin, again, strandlinev1.AccessServiceClient.PutUser, &strandlinev1.PutUserRequest{Name: name, Password: password})
	return answer.GetPassword(), answer.GetExisted(), err
}

// RemoveUser removes a user's password, tokens and grants.
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

// CreateAccessToken makes a token with which a client acts for a user, see WithToken. It
// is returned here and kept nowhere. Without a scope it has all rights of the user. It is
// made once: with an error whose Outcome is MaybeDone there may be one whose text nobody
// has. It is the newest of the user in ListAccessTokens, and can be revoked.
func (a *Access) CreateAccessToken(ctx context.Context, user string, lifetime time.Duration, scope ...Scope) (token string, t AccessToken, err error) {
	q := &strandlinev1.CreateAccessTokenRequest{User: user, Lifetime: durationpb.New(lifetime)}
	for _, s := range scope {
		q.Scope = append(q.Scope, &strandlinev1.AccessScope{Object: s.Object, Rights: s.Rights})
	}
	answer, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.CreateAccessToken, q)
	return answer.GetToken(), fromAccessToken(answer.GetDescription()), err
}

// RevokeAccessToken makes a token invalid, on all nodes within a second.
func (a *Access) RevokeAccessToken(ctx context.Context, id string) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RevokeAccessToken, &strandlinev1.RevokeAccessTokenRequest{Id: id})
	return err
}

// ListAccessTokens returns the tokens that are valid, by id.
func (a *Access) ListAccessTokens(ctx context.Context) (all []AccessToken, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListAccessTokens, &strandlinev1.ListAccessTokensRequest{})
	for _, t := range answer.GetTokens() {
		all = append(all, fromAccessToken(t))
	}
	return all, err
}

// AddGrants gives rights to principals, all or none.
func (a *Access) AddGrants(ctx context.Context, all ...Grant) error {
	_, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.AddGrants, &strandlinev1.AddGrantsRequest{Grants: toGrants(all)})
	return err
}

// RemoveGrants takes rights away that were granted on just these objects, all or none.
func (a *Access) RemoveGrants(ctx context.Context, all ...Grant) error {
	_, err := accessCall(ctx, a.admin, once, strandlinev1.AccessServiceClient.RemoveGrants, &strandlinev1.RemoveGrantsRequest{Grants: toGrants(all)})
	return err
}

// ListGrants returns the grants, by principal and object, and whether what is not granted
// is refused.
func (a *Access) ListGrants(ctx context.Context) (all []Grant, enforced bool, err error) {
	answer, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.ListGrants, &strandlinev1.ListGrantsRequest{})
	for _, g := range answer.GetGrants() {
		all = append(all, Grant{g.GetPrincipal(), g.GetObject(), g.GetRights()})
	}
	return all, answer.GetEnforced(), err
}

// EnforceRights has what is not granted refused from now on, or allowed again.
// administrator, unless it is empty, gets the right to administer at the same time.
func (a *Access) EnforceRights(ctx context.Context, enforced bool, administrator string) error {
	_, err := accessCall(ctx, a.admin, repeatedly, strandlinev1.AccessServiceClient.EnforceRights,
		&strandlinev1.EnforceRightsRequest{Enforced: enforced, Administrator: administrator})
	return err
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
