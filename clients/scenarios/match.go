package scenarios

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	span    = regexp.MustCompile(`^(\D*)(\d+)\.\.(\d+)$`)
	compare = regexp.MustCompile(`^(>=|<=|>|<) *(-?\d+)$`)
)

// list is a list as scenarios write it: `a b c`, `r0..r9` as `r0..9`, or a list.
func list(from any) ([]string, error) {
	switch v := from.(type) {
	case nil:
		return nil, nil
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, fmt.Sprint(item))
		}
		return all, nil
	case []string:
		return v, nil
	}
	var all []string
	for _, word := range strings.Fields(fmt.Sprint(from)) {
		found := span.FindStringSubmatch(word)
		if found == nil {
			all = append(all, word)
			continue
		}
		first, err := strconv.Atoi(found[2])
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(found[3])
		if err != nil {
			return nil, err
		}
		for i := first; i <= last; i++ {
			all = append(all, found[1]+strconv.Itoa(i))
		}
	}
	return all, nil
}

// fill puts saved values in the places of $NAME, also where that is a key.
func fill(from any, saved map[string]any) (any, error) {
	switch v := from.(type) {
	case string:
		name, is := strings.CutPrefix(v, "$")
		if !is {
			return v, nil
		}
		value, known := saved[name]
		if !known {
			return nil, fmt.Errorf("$%s has not been saved", name)
		}
		return value, nil
	case map[string]any:
		filled := make(map[string]any, len(v))
		for key, item := range v {
			value, err := fill(item, saved)
			if err != nil {
				return nil, err
			}
			name, err := fill(key, saved)
			if err != nil {
				return nil, err
			}
			filled[fmt.Sprint(name)] = value
		}
		return filled, nil
	case []any:
		filled := make([]any, len(v))
		for i, item := range v {
			value, err := fill(item, saved)
			if err != nil {
				return nil, err
			}
			filled[i] = value
		}
		return filled, nil
	}
	return from, nil
}

// match reports how got differs from want, with the path to the place; empty: it does
// not. Of an object only the keys that want names count. Numbers may be bounds: ">= 3".
func match(path string, want, got any) string {
	differs := func() string { return fmt.Sprintf("%s is %s, not %s", path, show(got), show(want)) }
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		for key, item := range w {
			if d := match(path+"."+key, item, g[key]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return differs()
		}
		for i := range w {
			if d := match(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		if bound := compare.FindStringSubmatch(w); bound != nil {
			limit, err := strconv.ParseFloat(bound[2], 64)
			n, isNumber := number(got)
			if err != nil || !isNumber || !holds(bound[1], n, limit) {
				return differs()
			}
			return ""
		}
	case nil:
		if got != nil {
			return differs()
		}
		return ""
	}
	if g, isList := got.([]any); isList {
		return matchList(path, fmt.Sprint(want), g)
	}
	if a, ok := number(want); ok {
		if b, ok := number(got); ok && a == b {
			return ""
		}
		return differs()
	}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		return differs()
	}
	return ""
}

// matchList compares a list as scenarios write it.
func matchList(path, want string, got []any) string {
	w, err := list(want)
	if err != nil {
		return err.Error()
	}
	g := make([]string, len(got))
	for i, item := range got {
		g[i] = strings.TrimRight(plain(item), ".")
	}
	if !slices.Equal(w, g) {
		return fmt.Sprintf("%s is %v, not %v", path, g, w)
	}
	return ""
}

func holds(operator string, n, limit float64) bool {
	switch operator {
	case ">=":
		return n >= limit
	case "<=":
		return n <= limit
	case ">":
		return n > limit
	}
	return n < limit
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// plain is a value of an answer as a word.
func plain(v any) string {
	if n, ok := number(v); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
