// Package unknown keeps the members of JSON objects that this version does not know, so
// that what a newer version wrote passes whole through an older one.
package unknown

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Members are the members of one object that its Go type has no field for, sorted by
// name: the text between the braces. Two of the same members are equal.
type Members string

// Names are those of the members, sorted.
func (m Members) Names() []string {
	var all map[string]json.RawMessage
	_ = json.Unmarshal([]byte("{"+m+"}"), &all) // it was made of such an object
	return slices.Sorted(maps.Keys(all))
}

// Unmarshal decodes an object into known, a pointer to a struct, and returns the members
// that the struct has no field for. The struct must not have this as its UnmarshalJSON.
func Unmarshal(object []byte, known any) (Members, error) {
	if err := json.Unmarshal(object, known); err != nil {
		return "", err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return "", err
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(known).Elem()) {
		for name := range all {
			if strings.EqualFold(name, nameOf(field)) { // as encoding/json compares them
				delete(all, name)
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	rest, err := json.Marshal(all) // sorts by name
	if err != nil {
		return "", fmt.Errorf("keep unknown members: %w", err)
	}
	return Members(rest[1 : len(rest)-1]), nil
}

// Marshal encodes known, a struct, with the members that it has no field for. The struct
// must not have this as its MarshalJSON.
func Marshal(known any, rest Members) ([]byte, error) {
	object, err := json.Marshal(known)
	if err != nil || rest == "" {
		return object, err
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(object, rest...), '}'), nil
}

// nameOf is the name of a field's member; empty: it has none.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case name == "-" || !field.IsExported() || field.Anonymous && name == "":
		return ""
	case name == "":
		return field.Name
	}
	return name
}
