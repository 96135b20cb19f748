package tidy

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notLimits are constants that bound nothing which a client, a node or a disk can see.
var notLimits = map[string]string{
	"client.maxReceiveSize":      "what a server sends is bounded there",
	"cluster.maxStrikes":         "tries before a pause",
	"core.maxSpareQueue":         "memory that is used again",
	"format.maxPosition":         "a check of what is read",
	"format.MaxConfState":        "a field of a file",
	"format.MaxPayload":          "record.MaxEntryBytes",
	"lean.mostPiece":             "how a frame is received",
	"replicas.MaxMemoryOffset":   "offsets of logs in memory and on disk divide 2^63",
	"verbs.maxOffset":            "2^63",
	"replicas.maxReopenPause":    "a pause",
	"record.MaxSessionPrincipal": "a field of a number",
	"rpc.maxPiece":               "how a file is sent",
	"peer.maxPart":               "how a message is sent",
	"readers.maxKept":            "memory that is used again",
	"runtime.maxRest":            "a pause",
	"segment.MaxClusterID":       "a field of a file",
	"sequence.MaxLeaseMs":        "node.MaxLease",
	"sequence.maxSpareBuffers":   "memory that is used again",
	"sequence.maxSpareBytes":     "memory that is used again",
	"client.MaxRecordBytes":      "record.MaxRecordBytes",
	"wire.maxDuration":           "the size of a field",
	"records.maxJSONLine":        "a line of the command's input, as long as the largest record is in JSON",
	"sequence.maxExpiredAtOnce":  "pace of the upkeep",
	"store.maxChunk":             "a check of what is read",
	"store.maxGap":               "a check of what is read",
	"topics.maxTimeScan":         "cost of a look-up",
	"grpcserver.maxDecoded":      "cost of a request, which the memory for appends holds up",
}

// Every limit that a document names is in the code, with this value.
func TestTheDocumentsOfLimitsSayWhatTheCodeDoes(t *testing.T) {
	declared := declarations(t)
	for path, rows := range limitRows(t) {
		for _, row := range rows {
			for _, name := range row.names {
				d, ok := declared[name]
				if !ok {
					t.Errorf("%s names %s, which is not declared", path, name)
					continue
				}
				value, isDuration, ok := declared.value(d)
				if !ok {
					continue
				}
				if !row.says(name, value, isDuration) {
					t.Errorf("%s: %s is %d (duration: %v), and the row says %q", path, name, value, isDuration, row.text)
				}
			}
		}
	}
}

// Every limit of the code is in a document.
func TestEveryLimitIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, rows := range limitRows(t) {
		for _, row := range rows {
			for _, name := range row.names {
				documented[name] = true
			}
		}
	}
	declared := declarations(t)
	limit := regexp.MustCompile(`\.(max|Max|most|Most)[A-Z]\w*$`)
	for name, d := range declared {
		if _, _, isNumber := declared.value(d); isNumber && limit.MatchString(name) && !documented[name] && notLimits[name] == "" {
			t.Errorf("%s is in neither docs/limits.md nor docs/kafka.md", name)
		}
	}
	for name := range notLimits {
		_, ok := declared[name]
		require.True(t, ok && !documented[name], "%s is a limit, or is gone", name)
	}
}

var milliseconds = regexp.MustCompile(`(Ms|Millis)$`)

type limitRow struct {
	text  string   // without where it is in the code
	names []string // as package.Name
}

// limitRows are the rows of the tables that name constants in their last column.
func limitRows(t *testing.T) map[string][]limitRow {
	t.Helper()
	name := regexp.MustCompile("`([a-z]+\\.[A-Za-z]\\w*)`")
	all := map[string][]limitRow{}
	for _, path := range []string{"../../docs/limits.md", "../../docs/kafka.md"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		inTable := false
		for line := range strings.SplitSeq(string(text), "\n") {
			inTable = strings.HasSuffix(line, "| where |") || inTable && strings.HasPrefix(line, "|")
			if !inTable {
				continue
			}
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			row := limitRow{text: strings.Join(cells[:len(cells)-1], " | ")}
			for _, found := range name.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				row.names = append(row.names, found[1])
			}
			all[path] = append(all[path], row)
		}
		require.NotEmpty(t, all[path], path)
	}
	return all
}

// says reports whether the row has the value in one of the ways to write it.
func (r limitRow) says(name string, value int64, isDuration bool) bool {
	var spellings []string
	units := map[string]int64{"": 1, " Ki": 1 << 10, " Mi": 1 << 20, " KiB": 1 << 10, " MiB": 1 << 20, " GiB": 1 << 30}
	if isDuration || milliseconds.MatchString(name) {
		if !isDuration {
			value *= 1e6
		}
		units = map[string]int64{" ms": 1e6, " s": 1e9, " min": 60e9, " h": 3600e9, " days": 24 * 3600e9}
	}
	for unit, size := range units {
		if value%size == 0 {
			spellings = append(spellings, thousands(value/size)+unit)
		}
	}
	if mib, rest := value>>20, value%(1<<20); rest > 0 && rest%(1<<10) == 0 {
		spellings = append(spellings, fmt.Sprintf("%d MiB + %d KiB", mib, rest>>10))
	}
	for power := range 63 {
		if value == 1<<power {
			spellings = append(spellings, fmt.Sprintf("2^%d", power))
		}
	}
	for _, s := range spellings {
		if regexp.MustCompile(`(^|[^\d,.^])` + regexp.QuoteMeta(s) + `($|[^\d\w])`).MatchString(r.text) {
			return true
		}
	}
	return false
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// declared are the package-level names of the rooms, as package.Name; of a constant, the
// expression.
type declared map[string]declaration

type declaration struct {
	in    string // the package
	value ast.Expr
}

var serverRoom = regexp.MustCompile(`^../../(internal|client|embed|statemachine)/`)

func declarations(t *testing.T) declared {
	t.Helper()
	all := declared{}
	set := token.NewFileSet()
	for path, text := range files(t, ".go") {
		if !serverRoom.MatchString(path) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		in := file.Name.Name
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[in+"."+d.Name.Name] = declaration{in: in}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						all[in+"."+spec.Name.Name] = declaration{in: in}
					case *ast.ValueSpec:
						for i, name := range spec.Names {
							found := declaration{in: in}
							if d.Tok == token.CONST && i < len(spec.Values) {
								found.value = spec.Values[i]
							}
							all[in+"."+name.Name] = found
						}
					}
				}
			}
		}
	}
	return all
}

// value is that of a constant whole number or duration.
func (all declared) value(d declaration) (value int64, isDuration, ok bool) {
	v := all.evaluate(d.in, d.value, &isDuration)
	if v == nil || v.Kind() != constant.Int {
		return 0, false, false
	}
	value, ok = constant.Int64Val(v)
	return value, isDuration, ok
}

func (all declared) evaluate(in string, e ast.Expr, isDuration *bool) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return all.evaluate(in, e.X, isDuration)
	case *ast.Ident:
		d := all[in+"."+e.Name]
		return all.evaluate(d.in, d.value, isDuration)
	case *ast.SelectorExpr:
		from, ok := e.X.(*ast.Ident)
		if !ok {
			return nil
		}
		if from.Name == "time" {
			*isDuration = true
			unit, ok := map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9}[e.Sel.Name]
			if !ok {
				return nil
			}
			return constant.MakeInt64(unit)
		}
		d := all[from.Name+"."+e.Sel.Name]
		return all.evaluate(d.in, d.value, isDuration)
	case *ast.BinaryExpr:
		x, y := all.evaluate(in, e.X, isDuration), all.evaluate(in, e.Y, isDuration)
		if x == nil || y == nil || x.Kind() != constant.Int || y.Kind() != constant.Int {
			return nil
		}
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n))
		case token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y) // of whole numbers
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	return nil
}
