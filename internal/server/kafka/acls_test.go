package kafkaserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
)

func creation(principal string, kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType, o kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.Principal, c.ResourceType, c.ResourceName, c.ResourcePatternType = principal, kind, name, pattern
	c.Operation, c.PermissionType, c.Host = o, kmsg.ACLPermissionTypeAllow, "*"
	return c
}

func TestACLsAreTheGrantsInOtherWords(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.client()
	ask := func(q kmsg.Request) kmsg.Response {
		r, err := c.Request(t.Context(), q)
		require.NoError(t, err)
		return r
	}
	create := kmsg.NewPtrCreateACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{
		creation("User:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead),
		creation("User:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationDescribe),
		creation("User:alice", kmsg.ACLResourceTypeTopic, "audit-", kmsg.ACLResourcePatternTypePrefixed, kmsg.ACLOperationWrite),
		creation("User:bob", kmsg.ACLResourceTypeTopic, "*", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationDelete),
		creation("User:*", kmsg.ACLResourceTypeGroup, "billing", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationAll),
		creation("User:root", kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationAll),
	}
	for i, one := range ask(create).(*kmsg.CreateACLsResponse).Results {
		require.NoError(t, kerr.ErrorForCode(one.ErrorCode), "%d: %v", i, one.ErrorMessage)
	}
	g := guard.New(d.node, guard.Options{})
	grants, _, err := g.Grants(t.Context(), verbs.Caller{})
	require.NoError(t, err)
	require.Equal(t, []access.Grant{
		{Principal: "*", On: access.Object{Kind: access.Group, Name: "billing"}, Rights: access.Read | access.Delete | access.Observe},
		{Principal: "user/alice", On: access.Object{Kind: access.Log, Name: "audit-", Prefix: true}, Rights: access.Append},
		{Principal: "user/alice", On: access.OfLog("orders"), Rights: access.Read | access.Observe},
		{Principal: "user/bob", On: access.Object{Kind: access.Log, Prefix: true}, Rights: access.Delete | access.Trim},
		{Principal: "user/root", On: access.OfCluster, Rights: access.Administer},
	}, grants)

	describe := func(change func(*kmsg.DescribeACLsRequest)) (shown []string) {
		q := kmsg.NewPtrDescribeACLsRequest()
		q.ResourceType, q.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		q.Operation, q.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		change(q)
		r := ask(q).(*kmsg.DescribeACLsResponse)
		require.NoError(t, kerr.ErrorForCode(r.ErrorCode))
		for _, o := range r.Resources {
			for _, one := range o.ACLs {
				require.Equal(t, "*", one.Host)
				require.Equal(t, kmsg.ACLPermissionTypeAllow, one.PermissionType)
				shown = append(shown, one.Principal+" "+one.Operation.String()+" "+o.ResourceType.String()+" "+o.ResourcePatternType.String()+" "+o.ResourceName)
			}
		}
		return shown
	}
	require.Equal(t, []string{
		"User:* ALL GROUP LITERAL billing",
		"User:alice WRITE TOPIC PREFIXED audit-",
		"User:alice READ TOPIC LITERAL orders", "User:alice DESCRIBE TOPIC LITERAL orders", "User:alice DESCRIBE_CONFIGS TOPIC LITERAL orders",
		"User:bob DELETE TOPIC LITERAL *",
		"User:root ALL CLUSTER LITERAL kafka-cluster",
	}, describe(func(*kmsg.DescribeACLsRequest) {}))
	require.Equal(t, []string{"User:alice WRITE TOPIC PREFIXED audit-", "User:bob DELETE TOPIC LITERAL *"}, describe(func(q *kmsg.DescribeACLsRequest) {
		q.ResourceType, q.ResourceName, q.ResourcePatternType = kmsg.ACLResourceTypeTopic, new("audit-1"), kmsg.ACLResourcePatternTypeMatch
	}))
	require.Empty(t, describe(func(q *kmsg.DescribeACLsRequest) { q.PermissionType = kmsg.ACLPermissionTypeDeny }))

	remove := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	f.Principal = new("User:alice")
	remove.Filters = append(remove.Filters, f)
	removed := ask(remove).(*kmsg.DeleteACLsResponse).Results[0]
	require.NoError(t, kerr.ErrorForCode(removed.ErrorCode))
	require.Len(t, removed.MatchingACLs, 4)
	grants, _, err = g.Grants(t.Context(), verbs.Caller{})
	require.NoError(t, err)
	require.Len(t, grants, 3)

	deny := creation("User:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead)
	deny.PermissionType = kmsg.ACLPermissionTypeDeny
	host := creation("User:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead)
	host.Host = "10.0.0.1"
	create.Creations = []kmsg.CreateACLsRequestCreation{
		deny, host,
		creation("User:alice", kmsg.ACLResourceTypeTransactionalId, "x", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationWrite),
		creation("User:alice", kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationIdempotentWrite),
		creation("alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead),
		creation("Group:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead),
		creation("User:alice", kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeMatch, kmsg.ACLOperationRead),
	}
	for i, one := range ask(create).(*kmsg.CreateACLsResponse).Results {
		require.Equal(t, kerr.InvalidRequest.Code, one.ErrorCode, "%d", i)
	}
}
