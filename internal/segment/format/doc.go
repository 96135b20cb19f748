// Package format is the encoding of a log's files. It does no I/O.
package format
