package acls

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// mechanisms are Kafka's numbers of mechanisms.
var mechanisms = map[string]int8{guard.ScramSHA256: 1, guard.ScramSHA512: 2}

// DescribeUsers lists the users with the mechanisms by which they log in.
func DescribeUsers(q *backend.Call, m *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	r := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	users, err := q.Node.Users(q.Ctx, q.Caller)
	if err != nil {
		err = protocol.DeniedOn(access.OfCluster, err)
		r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		return r
	}
	known := map[string]*access.User{}
	var names []string
	for i := range users {
		known[users[i].Name] = &users[i]
		names = append(names, users[i].Name)
	}
	if len(m.Users) > 0 {
		names = nil
		for i := range m.Users {
			names = append(names, m.Users[i].Name)
		}
	}
	slices.Sort(names)
	asked := len(names)
	names = slices.Compact(names)
	for _, name := range names {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User = name
		if u := known[name]; u == nil {
			err := protocol.Refuse(kerr.ResourceNotFound, fmt.Sprintf("there is no user %q", name))
			out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		} else {
			for mechanism, v := range u.Verifiers {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = mechanisms[mechanism], int32(v.Iterations)
				out.CredentialInfos = append(out.CredentialInfos, info)
			}
			slices.SortFunc(out.CredentialInfos, func(a, b kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo) int {
				return int(a.Mechanism) - int(b.Mechanism)
			})
		}
		r.Results = append(r.Results, out)
	}
	if len(names) < asked {
		r.Results = nil
		r.ErrorCode, r.ErrorMessage = kerr.DuplicateResource.Code, new("a user is named twice")
	}
	return r
}
