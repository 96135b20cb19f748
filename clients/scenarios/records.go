package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"strandline.dev/client"
)

// recordsOf are records as scenarios write them: a list of values, in which there may be groups
// of records, {values, key, headers, size}.
func recordsOf(from any) ([]client.Record, error) {
	items, ok := from.([]any)
	if !ok {
		items = []any{map[string]any{"values": from}}
	}
	var all []client.Record
	for _, item := range items {
		group, ok := item.(map[string]any)
		if !ok {
			group = map[string]any{"values": []any{item}}
		}
		values, err := list(group["values"])
		if err != nil {
			return nil, err
		}
		var like client.Record
		if key, ok := group["key"]; ok {
			like.Key = fmt.Append(nil, key)
		}
		headers, _ := group["headers"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			like.Headers = append(like.Headers, client.Header{Key: name, Value: fmt.Append(nil, headers[name])})
		}
		for _, v := range padded(values, intOf(group["size"])) {
			like.Value = []byte(v)
			all = append(all, like)
		}
	}
	return all, nil
}

// padded are values of at least so many bytes.
func padded(values []string, size int) []string {
	all := slices.Clone(values)
	for i, v := range all {
		all[i] = v + strings.Repeat(".", max(size-len(v), 0))
	}
	return all
}
