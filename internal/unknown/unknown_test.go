package unknown

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Deep int `json:"deep,omitempty"`
}

type object struct {
	ID    int    `json:"id"`
	Name  string `json:"name,omitempty"`
	Plain int    `json:",omitempty"`
	inner
	Unknown Members `json:"-"`
}

func (o object) MarshalJSON() ([]byte, error) {
	type known object
	return Marshal(known(o), o.Unknown)
}

func (o *object) UnmarshalJSON(data []byte) (err error) {
	type known object
	o.Unknown, err = Unmarshal(data, (*known)(o))
	return err
}

func TestWhatIsNotKnownPassesThrough(t *testing.T) {
	for _, text := range []string{
		`{"id":1}`,
		`{"id":1,"name":"a","zoo":{"b":[1,{"c":null}]}}`,
		`{"id":1,"Plain":7,"deep":3,"big":18446744073709551615,"html":"<b>"}`,
	} {
		var o object
		require.NoError(t, json.Unmarshal([]byte(text), &o))
		got, err := json.Marshal(o)
		require.NoError(t, err)
		require.JSONEq(t, text, string(got))
	}
	var o object
	require.NoError(t, json.Unmarshal([]byte(`{"z":1,"ID":4,"Deep":2,"a":2}`), &o))
	require.Equal(t, object{ID: 4, inner: inner{2}, Unknown: `"a":2,"z":1`}, o)
	require.Equal(t, []string{"a", "z"}, o.Unknown.Names())
}

func TestOnlyUnknownMembers(t *testing.T) {
	type empty struct{}
	rest, err := Unmarshal([]byte(`{"a":1}`), &empty{})
	require.NoError(t, err)
	got, err := Marshal(empty{}, rest)
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(got))
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, text := range []string{`[]`, `7`, `"a"`} {
		require.Error(t, json.Unmarshal([]byte(text), new(object)), text)
	}
	require.NoError(t, json.Unmarshal([]byte(`null`), new(object)), "as encoding/json has it")
}
