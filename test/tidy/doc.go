// Package tidy tests the rules of the repository, such as the permitted imports between packages
// and the consistency of generated code.
package tidy
