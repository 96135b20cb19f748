package filter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestTheKeysThatAnExpressionCanHoldForAreDerived(t *testing.T) {
	for where, want := range map[string]struct{ keys, prefixes string }{
		`key == "a"`:                                      {keys: "a"},
		`"a" == key`:                                      {keys: "a"},
		`key in ["a", "b"]`:                               {keys: "a b"},
		`key.startsWith("a")`:                             {prefixes: "a"},
		`key == "a\u00e4"`:                                {keys: "a\u00e4"},
		`key == "a" && value.n > 3`:                       {keys: "a"},
		`value.n > 3 && (offset > 5 && key == "a")`:       {keys: "a"},
		`key == "a" || key in ["b", "c"]`:                 {keys: "a b c"},
		`key == "a" || key.startsWith("b")`:               {prefixes: "a b"},
		`key.startsWith("a") || key.startsWith("b")`:      {prefixes: "a b"},
		`key.startsWith("a") && key == "ab"`:              {keys: "ab", prefixes: "a"},
		`key in ["a", "b"] && key == "b"`:                 {keys: "b"},
		`key == "b" && key in ["a", "b"]`:                 {keys: "b"},
		`key == "a" && (key == "b" || offset == 1)`:       {keys: "a"},
		`(key == "a" && offset == 1) || key == "b"`:       {keys: "a b"},
		`key == "a" && key.startsWith("b") || key == "c"`: {keys: "a c"},
		`key == "a" && !(key == "b")`:                     {keys: "a"},
		`headers.exists(key, key == "a") && key == "b"`:   {keys: "b"},
	} {
		e, err := compile(where)
		require.NoError(t, err, where)
		require.Equal(t, want.keys, string(joined(e.keys.keys)), where)
		require.Equal(t, want.prefixes, string(joined(e.keys.prefixes)), where)
	}
}

func joined(all [][]byte) string {
	var texts []string
	for _, b := range all {
		texts = append(texts, string(b))
	}
	return strings.Join(texts, " ")
}

func TestNoKeysAreDerivedWhereAnyKeyMayBeSelected(t *testing.T) {
	for _, where := range []string{
		`true`, `offset > 1`, `value`,
		`key != "a"`, `!(key == "a")`, `!key.startsWith("a")`, `!(key in ["a"])`,
		`key == "a" || offset > 1`, `offset > 1 || key == "a"`, `key == "a" || !(key == "b")`, `key == "a" || key == ""`,
		`key == "a" || value.n == 1 && offset > 1`, `key.startsWith("a") || offset > 1`,
		`key == ""`, `key in ["a", ""]`, `key in []`, `key.startsWith("")`, `key.startsWith("") || key == "a"`,
		`key == "a" ? true : false`, `offset > 1 ? key == "a" : key == "b"`, `(key == "a") == true`, `(key == "a") != false`,
		`[key == "a"].all(b, b)`, `headers.exists(key, key == "a")`, `["a"].exists(key, key == "a")`,
		`key.endsWith("a")`, `key.contains("a")`, `key.matches("^a$")`, `"a".startsWith(key)`,
		`key < "a"`, `key >= "a"`, `size(key) == 1`, `key + "" == "a"`, `string(key) == "a"`, `bytes(key) == b"a"`, `dyn(key) == "a"`,
		`key == headers["a"]`, `key == value.a`, `key == dyn("a")`, `key == string(offset)`, `key.startsWith(headers["a"])`,
		`key in headers`, `key in value.keys`, `key in {"a": 1}`, `key in ["a", string(offset)]`, `key in ["a", value.b]`, `key in ["a"] + ["b"]`,
		`value.key == "a"`, `headers.key == "a"`, `"a" in [key]`, `[key] == ["a"]`, `"a" == "a"`,
	} {
		e, err := compile(where)
		require.NoError(t, err, where)
		require.Empty(t, e.keys, where)
	}
}

func TestAFilterTakesTheKeysOfItsExpression(t *testing.T) {
	one := [][]byte{[]byte("a")}
	f, err := New(Spec{Where: `key == "a" || key == "b"`})
	require.NoError(t, err)
	require.Equal(t, "a b", joined(f.Keys()))
	f, err = New(Spec{Keys: one, Where: `key == "b" && key.startsWith("c")`})
	require.NoError(t, err)
	require.Equal(t, "a", joined(f.Keys()), "its own come first")
	require.Equal(t, "c", joined(f.Prefixes()))
	f, err = New(Spec{Prefixes: one, Where: `key == "ab" || key.startsWith("b")`})
	require.NoError(t, err)
	require.Empty(t, f.Keys())
	require.Equal(t, "a", joined(f.Prefixes()))
}

// subjects are records whose keys are near to each other.
func subjects() (all []record.Record) {
	for _, key := range []string{"", "a", "ab", "abc", "b", "ba", "\xff", "a\xff", "\ufffd"} {
		for _, value := range []string{"text", `{"n": 1}`, ""} {
			all = append(all, record.Record{Key: []byte(key), Value: []byte(value)})
		}
	}
	return append(all, record.Record{Value: []byte(`{"n": 1}`)}, record.Record{Key: []byte("a")})
}

// requireSame checks that a filter, which looks at the key first, keeps what its expression holds
// for, and fails on what that fails on.
func requireSame(t *testing.T, where string, f *Filter, r record.Record) {
	t.Helper()
	w := walkOver(t, r)
	holds, failed := f.where.holds(w)
	if failed != nil && strings.Contains(failed.Error(), "cost limit exceeded") {
		return
	}
	keep, err := f.Keep(w)
	require.Equal(t, holds, keep, "%s of key %q", where, r.Key)
	require.Equal(t, failed, err, "%s of key %q", where, r.Key)
}

func TestAnExpressionIsFalseOutsideOfItsKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 20))
	leaves := []string{
		`key == "a"`, `"ab" == key`, `key in ["a", "b"]`, `key.startsWith("a")`, `key.startsWith("ab")`, `key == ""`, `key != "b"`, `key in ["\u00ff", "\ufffd"]`,
		`true`, `false`, `offset == 100`, `value.n == 1`, `value.m == 1`, `headers["none"] == "a"`, `1 / (offset - 100) == 1`, `value`,
	}
	var build func(depth int) string
	build = func(depth int) string {
		if depth == 0 || random.IntN(4) == 0 {
			return leaves[random.IntN(len(leaves))]
		}
		a, b := build(depth-1), build(depth-1)
		switch random.IntN(10) {
		case 0:
			return "!(" + a + ")"
		case 1:
			return fmt.Sprintf("((%s) ? (%s) : (%s))", a, b, build(depth-1))
		case 2:
			return fmt.Sprintf(`["a", "b"].exists(key, %s)`, a)
		case 3, 4, 5:
			return fmt.Sprintf("(%s || %s)", a, b)
		}
		return fmt.Sprintf("(%s && %s)", a, b)
	}
	bounded := 0
	for range 400 {
		where := build(1 + random.IntN(4))
		f, err := New(Spec{Where: where})
		if err != nil {
			continue // a condition of two types
		}
		if len(f.Keys())+len(f.Prefixes()) > 0 {
			bounded++
		}
		for _, r := range subjects() {
			requireSame(t, where, f, r)
		}
	}
	require.Greater(t, bounded, 50)
}

// FuzzKeysOf derives the keys of any expression.
func FuzzKeysOf(f *testing.F) {
	for _, where := range []string{
		`key == "a" && value.n > 3`, `key in ["a", "b"] || key.startsWith("c")`, `!(key == "a") || key == "b"`,
		`["a"].all(key, key == "b") && key == "c"`, `value.n == 1 && key == "a\xff"`,
	} {
		f.Add(where, []byte("a"), []byte(`{"n": 1}`))
	}
	f.Fuzz(func(t *testing.T, where string, key, value []byte) {
		made, err := New(Spec{Where: where})
		if err != nil {
			return
		}
		requireSame(t, where, made, record.Record{Key: key, Value: value})
		requireSame(t, where, made, record.Record{Value: value})
	})
}
