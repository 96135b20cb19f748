package access

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestAQuotaIsOfAPrincipalOrALog(t *testing.T) {
	for subject, valid := range map[string]bool{
		"user/bob": true, "*": true, "log/orders": true, "log/*": true,
		"": false, "node/a": false, "group/billing": false, "cluster": false, "user/": false, "user/*": false, "bob": false, "log/": false,
		"log/audit-*": false, "log/orders/3": false, "log/_catalog": false,
	} {
		refusal := CheckQuota(Quota{Subject: subject, Requests: 1})
		require.Equal(t, valid, refusal == nil, "%q: %v", subject, refusal)
	}
	require.Equal(t, record.Invalid, CheckQuota(Quota{Subject: "*", Requests: -1}).Reason)
	require.ErrorContains(t, CheckQuota(Quota{Subject: "log/orders", Streams: 1}), "streams and connections are those of a principal")
}

func TestAQuotaOfItsOwnTakesThePlaceOfTheCommonOne(t *testing.T) {
	l := List{}
	set := func(q Quota) {
		c, refusal := SetQuota(l, q)
		require.Nil(t, refusal)
		l = l.With(&c)
	}
	require.False(t, Compile(l).HasQuotas())
	set(Quota{Subject: Anybody, AppendBytes: 10, Requests: 5})
	set(Quota{Subject: AnyLog, ReadBytes: 20})
	set(Quota{Subject: "user/bob", AppendBytes: 30})
	set(Quota{Subject: "user/root"})
	set(Quota{Subject: "log/orders", ReadBytes: 40})
	r := Compile(l)
	require.True(t, r.HasQuotas())
	for who, want := range map[string]Quota{
		"user/carol": {Subject: Anybody, AppendBytes: 10, Requests: 5}, "10.0.0.1": {Subject: Anybody, AppendBytes: 10, Requests: 5},
		"user/bob": {Subject: "user/bob", AppendBytes: 30}, "user/root": {Subject: "user/root"},
	} {
		q, ok := r.QuotaOf(who)
		require.True(t, ok)
		require.Equal(t, want, q, who)
	}
	_, ok := r.QuotaOf("node/a")
	require.False(t, ok, "nodes have none")
	for log, want := range map[string]int64{"orders": 40, "orders/3": 40, "audit": 20} {
		q, ok := r.QuotaOn(OfLog(log))
		require.True(t, ok)
		require.Equal(t, want, q.ReadBytes, log)
	}
	_, ok = r.QuotaOn(OfLog("_offsets"))
	require.False(t, ok, "logs of the system have none")

	same, refusal := SetQuota(l, Quota{Subject: "user/bob", AppendBytes: 30})
	require.Nil(t, refusal)
	require.True(t, same.Empty())
	c, refusal := RemoveQuota(l, "user/bob")
	require.Nil(t, refusal)
	require.NotContains(t, l.With(&c).Quotas, "user/bob")
	_, refusal = RemoveQuota(l, "user/eve")
	require.ErrorContains(t, refusal, "has no quota")
	c, refusal = RemoveUser(l, "bob")
	require.Nil(t, refusal)
	require.NotContains(t, l.With(&c).Quotas, "user/bob", "a later user of the name has none")
}

func TestAQuotaWithoutLimitsIsRemovedByAChange(t *testing.T) {
	c, refusal := ChangeQuota(List{}, "user/bob", func(q *Quota) { q.AppendBytes = 7 })
	require.Nil(t, refusal)
	l := List{}.With(&c)
	c, refusal = ChangeQuota(l, "user/bob", func(q *Quota) { q.ReadBytes = 8 })
	require.Nil(t, refusal)
	l = l.With(&c)
	require.Equal(t, Quota{Subject: "user/bob", AppendBytes: 7, ReadBytes: 8}, l.Quotas["user/bob"])
	c, refusal = ChangeQuota(l, "user/bob", func(q *Quota) { q.AppendBytes, q.ReadBytes = 0, 0 })
	require.Nil(t, refusal)
	require.Empty(t, l.With(&c).Quotas)
	c, refusal = ChangeQuota(List{}, "user/bob", func(*Quota) {})
	require.Nil(t, refusal)
	require.True(t, c.Empty())
	_, refusal = ChangeQuota(List{}, "node/a", func(*Quota) {})
	require.NotNil(t, refusal)
}

func TestQuotasHaveALimit(t *testing.T) {
	l := List{Quotas: map[string]Quota{}}
	for i := range MaxQuotas {
		subject := fmt.Sprint("user/", i)
		l.Quotas[subject] = Quota{Subject: subject}
	}
	_, refusal := SetQuota(l, Quota{Subject: "user/more", Requests: 1})
	require.Equal(t, record.TooLarge, refusal.Reason)
	_, refusal = SetQuota(l, Quota{Subject: "user/7", Requests: 1})
	require.Nil(t, refusal)
}
