package filter

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// keySet is which keys a record may have: one of keys, if there are any, that begins with
// one of prefixes, if there are any. The zero value is any key, and none.
type keySet struct{ keys, prefixes [][]byte }

// keysOf returns a set of keys outside of which a checked expression is false and does not
// fail, whatever else is in the record: unless the key is longer than an expression reads. The
// set may be larger than it has to be. It never has the empty key, which for an expression is
// that of a record without one.
//
// In CEL "false && x" and "x && false" are false also where x fails: one side bounds a
// conjunction. A disjunction is false where both of its sides are. Negations, conditions and
// comprehensions, whose variables may hide key, bound nothing.
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

// texts returns the bytes of expressions that are all literals of text and not empty, and
// nil for any others.
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

// and is a set that has all keys which both have: of two lists it takes one.
func (s keySet) and(o keySet) keySet {
	return keySet{keys: fewer(s.keys, o.keys), prefixes: fewer(s.prefixes, o.prefixes)}
}

// fewer is the shorter of two lists of which an empty one is no bound.
func fewer(a, b [][]byte) [][]byte {
	if len(a) == 0 || len(b) > 0 && len(b) < len(a) {
		return b
	}
	return a
}

// or is a set that has all keys which one of the two has.
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

// beginnings are such that each key of the set begins with one of them; none: any.
func (s keySet) beginnings() [][]byte {
	if len(s.prefixes) > 0 {
		return s.prefixes
	}
	return s.keys
}

// within is the set with the bounds of another where it has none of its own.
func (s keySet) within(o keySet) keySet {
	if len(s.keys) == 0 {
		s.keys = o.keys
	}
	if len(s.prefixes) == 0 {
		s.prefixes = o.prefixes
	}
	return s
}
