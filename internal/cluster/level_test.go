package cluster

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
	"strandline.dev/test/corpus"
)

func TestTheLevelRisesWhenAllNodesUnderstandIt(t *testing.T) {
	newer, older := Levels{1, 2}, Levels{}
	for _, row := range []struct {
		what      string
		level     int
		announced map[uint64]Levels
		to        int
		change    Change
		refused   []string
	}{
		{"all are newer", 0, map[uint64]Levels{1: newer, 2: newer, 3: newer}, 2, Change{Level: 2}, nil},
		{"all are older", 0, map[uint64]Levels{1: older, 2: older, 3: older}, 1, Change{}, nil},
		{"again", 2, map[uint64]Levels{1: newer, 2: newer, 3: newer}, 2, Change{}, nil},
		{"again, with a node that is down", 2, map[uint64]Levels{1: newer}, 2, Change{}, nil},
		{"one is older", 0, map[uint64]Levels{1: newer, 2: older, 3: newer}, 2, Change{}, []string{`"node2" understands 1`}},
		{"one does not answer", 0, map[uint64]Levels{1: newer, 2: newer}, 2, Change{}, []string{`"node3" does not answer`}},
		{"two cannot", 0, map[uint64]Levels{1: newer, 3: {1, 1}}, 2, Change{}, []string{`"node2" does not answer`, `"node3" understands 1`}},
		{"as far as the newest", 2, map[uint64]Levels{1: {2, 3}, 2: newer, 3: {2, 3}}, 3, Change{}, []string{`"node2" understands 1 to 2`}},
	} {
		s := members(3)
		s.Level = row.level
		level, change, refusal := Finalize(s, row.announced)
		require.Equal(t, row.change, change, row.what)
		for _, part := range row.refused {
			require.ErrorContains(t, refusal, part, row.what)
		}
		if row.refused == nil {
			require.Nil(t, refusal, row.what)
			require.Equal(t, row.to, level, row.what)
		}
	}
}

func TestANodeThatDoesNotUnderstandTheLevelIsRefused(t *testing.T) {
	require.Nil(t, RefuseLevels("a", Levels{1, 2}, 1))
	require.Nil(t, RefuseLevels("a", Levels{1, 2}, 2))
	require.Nil(t, RefuseLevels("a", Levels{}, 1))
	require.ErrorContains(t, RefuseLevels("a", Levels{}, 2), "too old")
	require.ErrorContains(t, RefuseLevels("a", Levels{2, 3}, 1), "too new")

	s := members(1)
	s.Level = 2
	s.Announced["d"] = Announced{Name: "d"}
	q := JoinRequest{Name: "d", Address: "a:1", Nonce: "n"}
	_, change, refusal := Admit(s, q, 0)
	require.ErrorContains(t, refusal, "too old")
	require.True(t, change.Empty())
	q.Levels = Understood
	_, change, refusal = Admit(s, q, 0)
	require.Nil(t, refusal)
	require.False(t, change.Empty())
}

func TestAClusterBeginsAtWhatAllItsNodesUnderstand(t *testing.T) {
	require.Equal(t, 2, FirstLevel([]Levels{{1, 2}, {2, 3}}))
	require.Equal(t, 1, FirstLevel([]Levels{{1, 2}, {}}))
	for level, want := range map[int]int{1: 0, 2: 2} { // what older nodes would not understand is not written
		s := NewState()
		change, refusal := Introduce(&s, Node{ID: 1, Name: "a", Address: "a:1"}, nil, level, "")
		require.Nil(t, refusal)
		require.Equal(t, want, change.Level)
		require.NoError(t, s.Fold(change))
		require.Equal(t, level, s.FeatureLevel())
		change, refusal = Introduce(&s, Node{ID: 1, Name: "a", Address: "a:2"}, nil, 3, "user/root")
		require.Nil(t, refusal)
		require.Zero(t, change.Level)
		require.Nil(t, change.Access, "only a new cluster begins so")
	}
}

func TestAChangeNeedsTheLevelThatAllowsIt(t *testing.T) {
	type change struct {
		ID    string
		Users []string `since:"2"`
		Later int      `since:"3"`
	}
	require.Equal(t, 1, neededLevel(change{ID: "x"}))
	require.Equal(t, 2, neededLevel(change{Users: []string{"a"}}))
	require.Equal(t, 3, neededLevel(change{Users: []string{"a"}, Later: 1}))

	s := members(1)
	require.ErrorContains(t, Allow(s, Change{Access: &access.Change{Enforce: new(true)}}), "this needs feature level 2, and the cluster is at 1")
	require.Nil(t, Allow(s, Change{Put: []Log{{Name: "orders"}}, Level: 2}))

	// Nodes that understand 3 do not all know the secret.
	s.Level = 3
	secret := Change{Access: &access.Change{Enforce: new(true), Secret: []byte("x")}}
	require.ErrorContains(t, Allow(s, secret), "this needs feature level 4, and the cluster is at 3")
	s.Level = 4
	require.Nil(t, Allow(s, secret))

	for _, quota := range []*access.Change{{Quotas: []access.Quota{{Subject: "*"}}}, {RemoveQuotas: []string{"*"}}} {
		s.Level = 5
		require.ErrorContains(t, Allow(s, Change{Access: quota}), "this needs feature level 6, and the cluster is at 5")
		s.Level = 6
		require.Nil(t, Allow(s, Change{Access: quota}))
	}

	require.Nil(t, AllowCommand(1, record.Trim))
	require.Nil(t, AllowCommand(2, record.SetHold))
	require.ErrorContains(t, AllowCommand(1, record.SetHold), "this needs feature level 2, and the cluster is at 1")
}

// Whatever is added to the catalog has to keep what a newer version adds to it.
func TestWhatTheCatalogHoldsKeepsUnknownMembers(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(of.Elem())
		case reflect.Map:
			visit(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				if f := of.Field(i); !f.Anonymous {
					visit(f.Type)
				}
			}
			for _, f := range reflect.VisibleFields(of) {
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[Change]())
	delete(seen, reflect.TypeFor[Change]())    // refused instead, as is its Access
	delete(seen, reflect.TypeFor[Placement]()) // parts of Log
	delete(seen, reflect.TypeFor[Reserved]())
	require.Greater(t, len(seen), 5)
	for of := range seen {
		object := reflect.New(of)
		require.NoError(t, json.Unmarshal([]byte(`{"from_the_future":{"a":[1]}}`), object.Interface()))
		text, err := json.Marshal(object.Elem().Interface())
		require.NoError(t, err)
		require.Contains(t, string(text), `"from_the_future":{"a":[1]}`, "%s drops what it does not know: give it Unknown, see unknown.go", of)
	}
}

func TestStateThatPassesThroughAnOlderNodeIsWhole(t *testing.T) {
	s := NewState()
	change, err := DecodeChange([]byte(`{"change":"x",
		"put":[{"id":1,"name":"orders","config":{"durability":"disk","x1":1},"created_ms":0,"founders":[1],"replicas":[{"id":1,"node":1,"x2":2}],"x3":3}],
		"node":[{"id":1,"name":"a","address":"a:1","nonce":"n","catalog_replica":1,"x4":4}],
		"announce":[{"name":"d","x5":5}],
		"checkpoint":{"logs":{},"nodes":{},"gone":{},"next_log":1,"next_node":2,"next_replica":2,"next_session":1,"x6":{"u":6}}}`))
	require.NoError(t, err)
	require.NoError(t, s.Fold(change))
	for _, address := range []string{"a:2", "b:1"} {
		change, refusal := ReconfigureLog(&s, "orders", 0, Config{Durability: "disk", Fenced: true})
		require.Nil(t, refusal)
		require.NoError(t, s.Fold(change))
		first, refusal := Introduce(&s, Node{ID: 1, Name: "a", Address: address}, nil, 1, "")
		require.Nil(t, refusal)
		require.NoError(t, s.Fold(first))
		text, err := json.Marshal(s.Checkpoint("y"))
		require.NoError(t, err)
		s = NewState()
		again, err := DecodeChange(text)
		require.NoError(t, err)
		require.NoError(t, s.Fold(again))
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	for _, member := range []string{`"x1":1`, `"x2":2`, `"x3":3`, `"x4":4`, `"x5":5`, `"x6":{"u":6}`, `"address":"b:1"`, `"fenced":true`} {
		require.Contains(t, string(text), member)
	}
}

func TestAChangeOfANewerVersionIsNotGuessedAt(t *testing.T) {
	s := NewState()
	change, err := DecodeChange([]byte(`{"change":"x","sessions":7,"rename":["a","b"]}`))
	require.NoError(t, err)
	err = s.Fold(change)
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "rename")
	require.Equal(t, NewState(), s, "no part of it has an effect")

	change, err = DecodeChange([]byte(`{"change":"x","access":{"enforce":true,"deny":["user/a"]}}`))
	require.NoError(t, err)
	require.ErrorContains(t, s.Fold(change), "deny: unknown kind of change")

	_, err = DecodeChange([]byte(`{"change":"x","checkpoint_format":2,"checkpoint":{"logs":[]}}`))
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "format 2")
	require.NotErrorIs(t, s.Fold(Change{ID: "x"}), ErrNewer)
}

// What an older catalog holds, or another program has written, is decoded or refused.
func FuzzCatalogChange(f *testing.F) {
	corpus.Add(f)
	whole := NewState()
	for _, c := range []Change{
		{ID: "a", Put: []Log{{ID: 1, Name: "orders", Config: Config{Settings: map[string]string{"a": "b"}}}}, Sessions: record.SessionID(7)},
		{ID: "b", Node: []Node{{ID: 1, Name: "a"}}, Level: 2, Gone: []uint64{3}, Spread: new(true)},
		whole.Checkpoint("c"),
	} {
		text, err := json.Marshal(c)
		require.NoError(f, err)
		f.Add(text)
		f.Add([]byte(strings.Replace(string(text), "{", `{"zz":{"y":1},`, 1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeChange(data)
		if err != nil {
			return
		}
		once, again := NewState(), NewState()
		before := len(encoded(t, once))
		for range 2 { // a change may be folded again
			if once.Fold(c) != nil {
				return
			}
		}
		if c.Checkpoint == nil {
			text, err := json.Marshal(c)
			require.NoError(t, err)
			require.LessOrEqual(t, len(encoded(t, once))-before, MostAdded(len(text)))
		}
		once.Members()
		CatalogMembers(&once)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		c, err = DecodeChange(text)
		require.NoError(t, err)
		require.NoError(t, again.Fold(c))
		require.NoError(t, again.Fold(c))
		require.Equal(t, encoded(t, once), encoded(t, again))
	})
}

func encoded(t *testing.T, s State) string {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return string(text)
}

// A checkpoint is one record. What users decide how much there is of is refused in time; where replicas are is not.
func TestAChangeThatACheckpointHasNoRoomForIsRefused(t *testing.T) {
	const most = 10_000
	s := NewState()
	large := func(bytes int) Config { return Config{Settings: map[string]string{"a": strings.Repeat("x", bytes)}} }
	require.NoError(t, s.Fold(Change{ID: "a", Put: []Log{{ID: 1, Name: "orders", Config: large(most - 500)}}}))
	refused := func(c Change) bool {
		c.ID = "b"
		bytes, refusal := Fit(&s, c, most)
		after := s.Clone()
		require.NoError(t, after.Fold(c))
		whole, err := json.Marshal(after.Checkpoint(""))
		require.NoError(t, err)
		require.Len(t, whole, bytes)
		return refusal != nil
	}
	moved := s.Logs["orders"]
	moved.Placement.Replicas = make([]Replica, 100)
	require.False(t, refused(Change{Put: []Log{moved}}))
	require.True(t, refused(Change{Put: []Log{{ID: 2, Name: "more", Config: large(500)}}}))
	require.True(t, refused(Change{Put: []Log{{ID: 1, Name: "orders", Config: large(most)}}}))
	require.True(t, refused(Change{Tokens: []Token{{Hash: strings.Repeat("x", 500)}}}))
	require.False(t, refused(Change{Put: []Log{{ID: 1, Name: "orders", Config: large(most - 600)}}}))
	require.False(t, refused(Change{Node: []Node{{ID: 7, Name: strings.Repeat("x", 500)}}}))
	require.False(t, refused(Change{Delete: []string{"orders"}}))
}
