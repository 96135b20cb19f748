//go:build !broken

package flaw

// Is reports whether this program makes the mistake f: it does not.
func Is(Flaw) bool { return false }
