// Package corpus stores the inputs of a fuzz target that reached new code in one file,
// testdata/corpus/FuzzName beside the target: files in the format of testdata/fuzz, one after the
// other. scripts/fuzz-keep writes it.
package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// header is the first line of each input.
const header = "go test fuzz v1\n"

// Add adds the kept inputs of a fuzz target to those that it begins with.
func Add(f *testing.F) {
	f.Helper()
	path := filepath.Join("testdata", "corpus", f.Name())
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	inputs := strings.Split(string(text), header)
	if len(inputs) < 2 || inputs[0] != "" {
		f.Fatalf("%s does not begin with %q", path, header)
	}
	for i, input := range inputs[1:] {
		var values []any
		for line := range strings.Lines(input) {
			v, err := parse(line)
			if err != nil {
				f.Fatalf("%s: input %d: %v", path, i, err)
			}
			values = append(values, v)
		}
		f.Add(values...)
	}
}

// parse reads a line such as []byte("\x01"), uint64(7) or bool(true).
func parse(line string) (any, error) {
	kind, text, _ := strings.Cut(strings.TrimSpace(line), "(")
	text, closed := strings.CutSuffix(text, ")")
	if !closed {
		return nil, fmt.Errorf("not a value: %q", line)
	}
	switch kind {
	case "[]byte":
		s, err := strconv.Unquote(text)
		return []byte(s), err
	case "string":
		return strconv.Unquote(text)
	case "bool":
		return strconv.ParseBool(text)
	case "byte":
		// A byte above 0x7f is written as the rune of that number.
		s, err := strconv.Unquote(text)
		r := []rune(s)
		if err != nil || len(r) != 1 || r[0] > 0xff {
			return nil, fmt.Errorf("not a byte: %s", text)
		}
		return byte(r[0]), nil
	case "uint16":
		n, err := strconv.ParseUint(text, 10, 16)
		return uint16(n), err
	case "uint32":
		n, err := strconv.ParseUint(text, 10, 32)
		return uint32(n), err
	case "uint64":
		return strconv.ParseUint(text, 10, 64)
	case "int":
		return strconv.Atoi(text)
	case "int64":
		return strconv.ParseInt(text, 10, 64)
	}
	return nil, fmt.Errorf("a value of type %s, which is not known here", kind)
}
