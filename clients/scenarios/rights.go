package scenarios

import (
	"context"
	"errors"
	"strings"
	"time"

	"strandline.dev/client"
)

// Token is the client's token: the scenario is played where rights are enforced.
type Token struct {
	// Rights are those of its user on the scenario's log, and of the token.
	Rights   string `yaml:"rights"`
	Lifetime int64  `yaml:"lifetime_ms"` // 0: an hour; else the scenario begins when it has expired
	Brief    int64  `yaml:"brief_ms"`    // in the place of it: the token expires while the scenario is played
	Wrong    bool   `yaml:"wrong"`       // no cluster has made it
	Not      bool   `yaml:"not"`         // the client shows none
}

// administrator is whose token the environment itself shows.
const administrator = "admin"

// withRights is an environment of one node that enforces rights, opened when it is first asked
// for.
func (e *Environment) withRights(ctx context.Context) (*Environment, error) {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.rights == nil {
		made, err := open(ctx, e.directory+"/rights", 1)
		if err != nil {
			return nil, err
		}
		made.certs = e.certs
		if err := made.enforce(ctx); err != nil {
			return nil, errors.Join(err, made.Close())
		}
		e.rights = made
	}
	return e.rights, nil
}

// enforce has the cluster refuse what is not granted, to all but the environment.
func (e *Environment) enforce(ctx context.Context) error {
	text, _, err := e.client.Admin().Access().CreateAccessToken(ctx, administrator, time.Hour)
	if err != nil {
		return err
	}
	if err := e.client.Admin().Access().EnforceRights(ctx, true, "user/"+administrator); err != nil {
		return err
	}
	shows, err := e.cluster.Client(client.WithInsecure(), client.WithToken(text), client.WithRetryTime(patience))
	if err != nil {
		return err
	}
	err = e.client.Close()
	e.client = shows
	return errors.Join(err, e.known(ctx, text, true))
}

// grant makes the token of a scenario. It returns what the client shows, and the token's id.
func (e *Environment) grant(ctx context.Context, log string, t Token) (text, id string, err error) {
	user, rights := log, strings.Fields(t.Rights)
	a := e.client.Admin().Access()
	if len(rights) > 0 {
		if err := a.AddGrants(ctx, client.Grant{Principal: "user/" + user, Object: "log/" + log, Rights: rights}); err != nil {
			return "", "", err
		}
	}
	lifetime := time.Hour
	if short := max(t.Lifetime, t.Brief); short > 0 {
		lifetime = time.Duration(short) * time.Millisecond
	}
	text, made, err := a.CreateAccessToken(ctx, user, lifetime)
	switch {
	case err != nil:
		return "", "", err
	case t.Not:
		return "", "", nil
	case t.Wrong:
		return text + "X", "", nil
	}
	return text, made.ID, e.known(ctx, text, t.Lifetime == 0)
}

// known waits until the nodes accept a token, or refuse it.
func (e *Environment) known(ctx context.Context, text string, accepted bool) error {
	c, err := e.cluster.Client(client.WithInsecure(), client.WithToken(text), client.WithRetryTime(patience))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		who, err := c.Admin().Access().WhoAmI(ctx)
		refused := errors.Is(err, client.ErrUnauthenticated)
		switch {
		case err != nil && !refused:
			return err
		case refused && !accepted, err == nil && accepted && who.Enforced:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
