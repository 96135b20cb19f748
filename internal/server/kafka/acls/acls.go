// Package acls converts between the cluster's grants and Kafka's ACLs: a grant is one ACL for each
// operation that its rights allow. All ACLs have the permission "allow" and any host.
package acls

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// clusterName is Kafka's name of the only resource of the kind cluster. wildcard stands for all
// resources of another kind, and for any host.
const (
	clusterName = "kafka-cluster"
	wildcard    = "*"
)

var kindOf = map[kmsg.ACLResourceType]access.Kind{
	kmsg.ACLResourceTypeTopic: access.Log, kmsg.ACLResourceTypeGroup: access.Group, kmsg.ACLResourceTypeCluster: access.Cluster,
}

// operation is one of Kafka's operations on a kind of resource, with the rights that it represents.
type operation struct {
	kind   access.Kind
	is     kmsg.ACLOperation
	rights access.Rights
}

// operations lists all supported operations. ALL is the first of each kind.
var operations = []operation{
	{access.Log, kmsg.ACLOperationAll, access.Append | access.Read | access.Trim | access.Configure | access.Create | access.Delete | access.Observe},
	{access.Log, kmsg.ACLOperationRead, access.Read},
	{access.Log, kmsg.ACLOperationWrite, access.Append},
	{access.Log, kmsg.ACLOperationCreate, access.Create},
	{access.Log, kmsg.ACLOperationDelete, access.Delete | access.Trim},
	{access.Log, kmsg.ACLOperationAlter, access.Configure},
	{access.Log, kmsg.ACLOperationAlterConfigs, access.Configure},
	{access.Log, kmsg.ACLOperationDescribe, access.Observe},
	{access.Log, kmsg.ACLOperationDescribeConfigs, access.Observe},
	{access.Group, kmsg.ACLOperationAll, access.Read | access.Delete | access.Observe},
	{access.Group, kmsg.ACLOperationRead, access.Read},
	{access.Group, kmsg.ACLOperationDelete, access.Delete},
	{access.Group, kmsg.ACLOperationDescribe, access.Observe},
	{access.Cluster, kmsg.ACLOperationAll, access.Administer},
	{access.Cluster, kmsg.ACLOperationCreate, access.Create},
	{access.Cluster, kmsg.ACLOperationDelete, access.Delete},
	{access.Cluster, kmsg.ACLOperationDescribe, access.Observe},
	{access.Cluster, kmsg.ACLOperationDescribeConfigs, access.Observe},
}

// acl is a grant of one operation.
type acl struct {
	grant     access.Grant // with those of its rights that the operation represents
	operation kmsg.ACLOperation
}

// aclsOf are a grant in Kafka's words.
func aclsOf(g access.Grant) (all []acl) {
	for _, o := range operations {
		held := g.Rights & o.rights
		if o.kind != g.On.Kind || held == access.None {
			continue
		}
		one := acl{access.Grant{Principal: g.Principal, On: g.On, Rights: held}, o.is}
		switch {
		case o.is != kmsg.ACLOperationAll:
			all = append(all, one)
		case held == o.rights:
			return []acl{one}
		}
	}
	return all
}

func (a *acl) kind() kmsg.ACLResourceType {
	for kafka, kind := range kindOf {
		if kind == a.grant.On.Kind {
			return kafka
		}
	}
	return kmsg.ACLResourceTypeUnknown
}

// name and pattern are how Kafka names the object.
func (a *acl) name() (string, kmsg.ACLResourcePatternType) {
	switch o := a.grant.On; {
	case o.Kind == access.Cluster:
		return clusterName, kmsg.ACLResourcePatternTypeLiteral
	case o.Prefix && o.Name == "":
		return wildcard, kmsg.ACLResourcePatternTypeLiteral
	case o.Prefix:
		return o.Name, kmsg.ACLResourcePatternTypePrefixed
	default:
		return o.Name, kmsg.ACLResourcePatternTypeLiteral
	}
}

// principal is a principal as Kafka writes it: User:alice, Node:a, User:*.
func (a *acl) principal() string {
	kind, name, ok := strings.Cut(a.grant.Principal, "/")
	if !ok {
		kind, name = "user", a.grant.Principal
	}
	return strings.ToUpper(kind[:1]) + kind[1:] + ":" + name
}

// objectOf is the object of a name in Kafka's words.
func objectOf(kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType) (o access.Object, err error) {
	o = access.Object{Kind: kindOf[kind], Name: name, Prefix: pattern == kmsg.ACLResourcePatternTypePrefixed}
	switch {
	case o.Kind == "":
		return o, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("resources of type %v have no rights", kind))
	case pattern != kmsg.ACLResourcePatternTypeLiteral && !o.Prefix:
		return o, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("rights cannot be granted on a pattern of type %v", pattern))
	case o.Kind == access.Cluster:
		if name != clusterName || o.Prefix {
			return o, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("the cluster's resource name must be %s", clusterName))
		}
		o.Name = ""
	case name == wildcard && !o.Prefix:
		o.Name, o.Prefix = "", true
	}
	return o, nil
}

// grantOf is the grant that an ACL asks for.
func grantOf(c *kmsg.CreateACLsRequestCreation) (g access.Grant, err error) {
	if g.On, err = objectOf(c.ResourceType, c.ResourceName, c.ResourcePatternType); err != nil {
		return g, err
	}
	kind, name, ok := strings.Cut(c.Principal, ":")
	if g.Principal = strings.ToLower(kind) + "/" + name; kind == "User" && name == wildcard {
		g.Principal = access.Anybody
	}
	switch {
	case !ok:
		return g, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("the principal must be User:NAME, not %q", c.Principal))
	case c.PermissionType != kmsg.ACLPermissionTypeAllow:
		return g, protocol.Refuse(kerr.InvalidRequest, "rules that deny are not supported: anything not granted is refused")
	case c.Host != wildcard:
		return g, protocol.Refuse(kerr.InvalidRequest, "the host must be *: rights do not depend on the host")
	}
	for _, o := range operations {
		if o.kind == g.On.Kind && o.is == c.Operation {
			g.Rights = o.rights
			return g, nil
		}
	}
	return g, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("the operation %v is not supported on a %v", c.Operation, c.ResourceType))
}

// aclFilter is the filter of DescribeAcls and DeleteAcls.
type aclFilter struct {
	kind            kmsg.ACLResourceType
	name, principal *string
	pattern         kmsg.ACLResourcePatternType
	host            *string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

func (f *aclFilter) matches(a *acl) bool {
	switch {
	case f.kind != kmsg.ACLResourceTypeAny && f.kind != a.kind(),
		f.operation != kmsg.ACLOperationAny && f.operation != a.operation,
		f.permission != kmsg.ACLPermissionTypeAny && f.permission != kmsg.ACLPermissionTypeAllow,
		f.principal != nil && *f.principal != a.principal(),
		f.host != nil && *f.host != wildcard:
		return false
	}
	return f.matchesName(a)
}

func (f *aclFilter) matchesName(a *acl) bool {
	name, pattern := a.name()
	switch f.pattern {
	case kmsg.ACLResourcePatternTypeAny:
		return f.name == nil || *f.name == name
	case kmsg.ACLResourcePatternTypeMatch:
		return f.name == nil || *f.name == name || name == wildcard ||
			pattern == kmsg.ACLResourcePatternTypePrefixed && strings.HasPrefix(*f.name, name)
	}
	return f.pattern == pattern && (f.name == nil || *f.name == name)
}

// found are the ACLs of a list of grants that a filter matches.
func (f *aclFilter) found(grants []access.Grant) (all []acl) {
	for _, g := range grants {
		for _, one := range aclsOf(g) {
			if f.matches(&one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// literalAtFirst: version 0 knows no patterns, and means literal names.
func literalAtFirst(pattern kmsg.ACLResourcePatternType) kmsg.ACLResourcePatternType {
	return cmp.Or(pattern, kmsg.ACLResourcePatternTypeLiteral)
}

// Describe lists the ACLs that a filter matches.
func Describe(q *backend.Call, m *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	r := kmsg.NewPtrDescribeACLsResponse()
	grants, _, err := q.Node.Grants(q.Ctx, q.Caller)
	err = protocol.DeniedOn(access.OfCluster, err)
	r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
	if err != nil {
		return r
	}
	f := aclFilter{m.ResourceType, m.ResourceName, m.Principal, literalAtFirst(m.ResourcePatternType), m.Host, m.Operation, m.PermissionType}
	at := map[access.Object]int{}
	for _, one := range f.found(grants) {
		i, known := at[one.grant.On]
		if !known {
			i = len(r.Resources)
			at[one.grant.On] = i
			out := kmsg.NewDescribeACLsResponseResource()
			out.ResourceType = one.kind()
			out.ResourceName, out.ResourcePatternType = one.name()
			r.Resources = append(r.Resources, out)
		}
		out := kmsg.NewDescribeACLsResponseResourceACL()
		out.Principal, out.Host, out.Operation, out.PermissionType = one.principal(), wildcard, one.operation, kmsg.ACLPermissionTypeAllow
		r.Resources[i].ACLs = append(r.Resources[i].ACLs, out)
	}
	return r
}

// Create adds a grant for each ACL.
func Create(q *backend.Call, m *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	r := kmsg.NewPtrCreateACLsResponse()
	for i := range m.Creations {
		m.Creations[i].ResourcePatternType = literalAtFirst(m.Creations[i].ResourcePatternType)
		g, err := grantOf(&m.Creations[i])
		if err == nil {
			err = q.Node.AddGrants(q.Ctx, q.Caller, []access.Grant{g})
			err = protocol.DeniedOn(access.OfCluster, err)
		}
		out := kmsg.NewCreateACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Results = append(r.Results, out)
	}
	return r
}

// Delete removes the grants that filters match.
func Delete(q *backend.Call, m *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	r := kmsg.NewPtrDeleteACLsResponse()
	for i := range m.Filters {
		f := &m.Filters[i]
		out := kmsg.NewDeleteACLsResponseResult()
		all, err := removeGrants(q, &aclFilter{f.ResourceType, f.ResourceName, f.Principal, literalAtFirst(f.ResourcePatternType), f.Host, f.Operation, f.PermissionType})
		err = protocol.DeniedOn(access.OfCluster, err)
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		for _, one := range all {
			removed := kmsg.NewDeleteACLsResponseResultMatchingACL()
			removed.ResourceType = one.kind()
			removed.ResourceName, removed.ResourcePatternType = one.name()
			removed.Principal, removed.Host, removed.Operation, removed.PermissionType = one.principal(), wildcard, one.operation, kmsg.ACLPermissionTypeAllow
			out.MatchingACLs = append(out.MatchingACLs, removed)
		}
		r.Results = append(r.Results, out)
	}
	return r
}

// removeGrants removes what a filter matches, all or nothing.
func removeGrants(q *backend.Call, f *aclFilter) ([]acl, error) {
	n, ctx, caller := q.Node, q.Ctx, q.Caller
	grants, _, err := n.Grants(ctx, caller)
	if err != nil {
		return nil, err
	}
	all := f.found(grants)
	var gone []access.Grant
	for _, g := range grants {
		var rights access.Rights
		for _, one := range all {
			if one.grant.Principal == g.Principal && one.grant.On == g.On {
				rights |= one.grant.Rights
			}
		}
		if rights != access.None {
			gone = append(gone, access.Grant{Principal: g.Principal, On: g.On, Rights: rights})
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return all, n.RemoveGrants(ctx, caller, gone)
}
