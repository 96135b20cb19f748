// Package quotas converts between the quotas of users and Kafka's client quotas, whose entities are
// users here. The limits that Kafka has no key for are those of `strandline quota`.
package quotas

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

const userEntity = "user"

// keys are Kafka's names of the limits that it has, too.
var keys = []struct {
	name string
	of   func(*access.Quota) *int64
}{
	{"producer_byte_rate", func(q *access.Quota) *int64 { return &q.AppendBytes }},
	{"consumer_byte_rate", func(q *access.Quota) *int64 { return &q.ReadBytes }},
}

// Describe lists the quotas of users that a filter matches.
func Describe(q *backend.Call, m *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	r := kmsg.NewPtrDescribeClientQuotasResponse()
	all, _, _, err := q.Node.Quotas(q.Ctx, q.Caller)
	err = protocol.DeniedOn(access.OfCluster, err)
	r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
	if err != nil {
		return r
	}
	for _, one := range all {
		name, isUser := entityOf(one.Subject)
		if !isUser || !matches(m.Components, name) {
			continue
		}
		entity := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		entity.Type, entity.Name = userEntity, name
		out := kmsg.NewDescribeClientQuotasResponseEntry()
		out.Entity = append(out.Entity, entity)
		for _, key := range keys {
			if limit := *key.of(&one); limit > 0 {
				value := kmsg.NewDescribeClientQuotasResponseEntryValue()
				value.Key, value.Value = key.name, float64(limit)
				out.Values = append(out.Values, value)
			}
		}
		if len(out.Values) > 0 {
			r.Entries = append(r.Entries, out)
		}
	}
	return r
}

// entityOf returns Kafka's name of the subject of a quota, nil for the default, and reports whether it is a user.
func entityOf(subject string) (name *string, isUser bool) {
	if subject == access.Anybody {
		return nil, true
	}
	user, isUser := access.UserOf(subject)
	return &user, isUser
}

// matches reports whether a filter matches the user with a name, or the default, nil.
func matches(filter []kmsg.DescribeClientQuotasRequestComponent, name *string) bool {
	for _, c := range filter {
		switch {
		case c.EntityType != userEntity,
			c.MatchType == kmsg.QuotasMatchTypeExact && (name == nil || c.Match == nil || *c.Match != *name),
			c.MatchType == kmsg.QuotasMatchTypeDefault && name != nil:
			return false
		}
	}
	return true
}

// Alter sets and removes limits of users. Each entry is changed by itself.
func Alter(q *backend.Call, m *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	r := kmsg.NewPtrAlterClientQuotasResponse()
	refused := q.Node.May(q.Caller, guard.SetQuota, "")
	for i := range m.Entries {
		e := &m.Entries[i]
		err := refused
		if err == nil {
			err = alter(q, e, m.ValidateOnly)
		}
		err = protocol.DeniedOn(access.OfCluster, err)
		out := kmsg.NewAlterClientQuotasResponseEntry()
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		for _, entity := range e.Entity {
			same := kmsg.NewAlterClientQuotasResponseEntryEntity()
			same.Type, same.Name = entity.Type, entity.Name
			out.Entity = append(out.Entity, same)
		}
		r.Entries = append(r.Entries, out)
	}
	return r
}

func alter(q *backend.Call, e *kmsg.AlterClientQuotasRequestEntry, validateOnly bool) error {
	if len(e.Entity) != 1 || e.Entity[0].Type != userEntity {
		return protocol.Refuse(kerr.InvalidRequest, "the entity must be a user: quotas of client ids and addresses are not supported")
	}
	subject := access.Anybody
	if name := e.Entity[0].Name; name != nil {
		subject = access.OfUser(*name)
	}
	limits, err := limitsOf(e.Ops)
	if err != nil {
		return err
	}
	return q.Node.ChangeQuota(q.Ctx, q.Caller, subject, validateOnly, func(quota *access.Quota) {
		for i, limit := range limits {
			if limit != nil {
				*keys[i].of(quota) = *limit
			}
		}
	})
}

// limitsOf returns the new limits in the order of keys; nil: unchanged.
func limitsOf(ops []kmsg.AlterClientQuotasRequestEntryOp) ([]*int64, error) {
	limits := make([]*int64, len(keys))
	for _, op := range ops {
		at := -1
		for i, key := range keys {
			if key.name == op.Key {
				at = i
			}
		}
		switch {
		case at < 0:
			return nil, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("the quota %q is not supported: use producer_byte_rate or consumer_byte_rate; `strandline quota set` has the others", op.Key))
		case op.Remove:
			limits[at] = new(int64)
		case !(op.Value >= 1 && op.Value < math.MaxInt64):
			return nil, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("%s must be at least 1 byte a second, not %v", op.Key, op.Value))
		default:
			limit := int64(op.Value)
			limits[at] = &limit
		}
	}
	return limits, nil
}
