package filter

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// keySet is a set of keys. If keys is not empty, a key must be one of keys; if prefixes is not
// empty, it must begin with one of prefixes. The zero value contains every key, and also records
// without a key.
type keySet struct{ keys, prefixes [][]byte }

// keysOf returns a set of keys such that a checked expression is false, and does not fail, for
// every other key, regardless of the rest of the record. Keys longer than an expression reads are
// excepted. The set may be larger than necessary. It never contains the empty key, which an
// expression sees for a record without a key.
//
// In CEL, "false && x" and "x && false" are false even if x fails, so either side bounds a
// conjunction. A disjunction is false if both sides are. Negations, conditionals, and
// comprehensions, whose variables may hide key, do not bound the set.
func keysOf(e ast.Expr) keySet {
	if e.Kind() != ast.CallKind {
		return keySet{}
	}
	call := e.AsCall()
	args := call.Args()
	switch function := call.FunctionName(); {
	case function == operators.LogicalAnd:
		var both keySet
		for _, side := range args {
			both = both.and(keysOf(side))
		}
		return both
	case function == operators.LogicalOr:
		either := keysOf(args[0])
		for _, side := range args[1:] {
			either = either.or(keysOf(side))
		}
		return either
	case function == operators.Equals && isKey(args[0]):
		return keySet{keys: texts(args[1])}
	case function == operators.Equals && isKey(args[1]):
		return keySet{keys: texts(args[0])}
	case function == operators.In && isKey(args[0]) && args[1].Kind() == ast.ListKind:
		return keySet{keys: texts(args[1].AsList().Elements()...)}
	case function == overloads.StartsWith && call.IsMemberFunction() && isKey(call.Target()):
		return keySet{prefixes: texts(args...)}
	}
	return keySet{}
}

func isKey(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "key" }

// texts returns the bytes of expressions if all are non-empty string literals, and nil otherwise.
func texts(all ...ast.Expr) [][]byte {
	var found [][]byte
	for _, e := range all {
		if e.Kind() != ast.LiteralKind {
			return nil
		}
		text, ok := e.AsLiteral().(types.String)
		if !ok || text == "" {
			return nil
		}
		found = append(found, []byte(text))
	}
	return found
}

// and returns a set that contains all keys in both sets. Of two lists it uses one.
func (s keySet) and(o keySet) keySet {
	return keySet{keys: fewer(s.keys, o.keys), prefixes: fewer(s.prefixes, o.prefixes)}
}

// fewer returns the shorter of two lists, where an empty list is no bound.
func fewer(a, b [][]byte) [][]byte {
	if len(a) == 0 || len(b) > 0 && len(b) < len(a) {
		return b
	}
	return a
}

// or returns a set that contains all keys in either set.
func (s keySet) or(o keySet) keySet {
	if len(s.keys) > 0 && len(o.keys) > 0 {
		return keySet{keys: slices.Concat(s.keys, o.keys)}
	}
	a, b := s.beginnings(), o.beginnings()
	if len(a) == 0 || len(b) == 0 {
		return keySet{}
	}
	return keySet{prefixes: slices.Concat(a, b)}
}

// beginnings returns prefixes with one of which each key of the set begins; none: any.
func (s keySet) beginnings() [][]byte {
	if len(s.prefixes) > 0 {
		return s.prefixes
	}
	return s.keys
}

// within returns the set with the bounds of another where it has none of its own.
func (s keySet) within(o keySet) keySet {
	if len(s.keys) == 0 {
		s.keys = o.keys
	}
	if len(s.prefixes) == 0 {
		s.prefixes = o.prefixes
	}
	return s
}
