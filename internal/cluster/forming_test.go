package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLowestNameForms(t *testing.T) {
	for _, row := range []struct {
		what    string
		of      Candidate
		former  string
		refused string
	}{
		{"the lowest itself", Candidate{Name: "a", Peers: []string{"b", "a", "c"}}, "a", ""},
		{"another", Candidate{Name: "c", Peers: []string{"b", "a", "c"}}, "a", ""},
		{"alone", Candidate{Name: "x", Peers: []string{"x"}}, "x", ""},
		{"without peers", Candidate{Name: "d"}, "", "without --peers"},
		{"not among them", Candidate{Name: "d", Peers: []string{"a", "b"}}, "", "not among its own --peers"},
	} {
		former, refusal := FormerOf(row.of)
		require.Equal(t, row.former, former, row.what)
		if row.refused == "" {
			require.Nil(t, refusal, row.what)
		} else {
			require.ErrorContains(t, refusal, row.refused, row.what)
		}
	}
}

func TestAClusterIsFormedOfNodesThatAgree(t *testing.T) {
	me := Candidate{Name: "a", Peers: []string{"c", "b", "a"}}
	for _, row := range []struct {
		what    string
		other   Candidate
		refused string
	}{
		{"they name the same", Candidate{Name: "b", Peers: []string{"a", "b", "c"}}, ""},
		{"another node is there", Candidate{Name: "x", Peers: []string{"a", "b", "c"}}, `is called "x"`},
		{"it is a member", Candidate{Name: "b", Cluster: "K7", Peers: []string{"a", "b", "c"}}, "belongs to cluster K7 already"},
		{"it names fewer", Candidate{Name: "b", Peers: []string{"b", "c"}}, "start all with the same nodes"},
		{"it names none", Candidate{Name: "b"}, "with none"},
	} {
		refusal := MayForm(me, "b", row.other)
		if row.refused == "" {
			require.Nil(t, refusal, row.what)
		} else {
			require.ErrorContains(t, refusal, row.refused, row.what)
		}
	}
}
