package filter

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"strandline.dev/internal/record"
)

// environment declares the variables of an expression.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("key", cel.StringType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("timestamp", cel.TimestampType),
		cel.Variable("offset", cel.IntType),
		cel.Variable("size", cel.IntType),
		cel.Variable("value", cel.DynType),
		cel.ParserExpressionSizeLimit(MaxExpressionBytes),
		cel.ParserRecursionLimit(100),
	)
})

// expression is a checked expression with the record on which it is evaluated.
type expression struct {
	program cel.Program
	keys    keySet // it is false for all other keys
	subject subject
}

// compile checks the syntax and types of an expression, and that it can stay within MaxCost.
func compile(text string) (*expression, error) {
	if len(text) > MaxExpressionBytes {
		return nil, invalid(1, 1, "the expression has %d bytes, the limit is %d", len(text), MaxExpressionBytes)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if all := issues.Errors(); len(all) > 0 {
		at := all[0].Location
		return nil, invalid(max(at.Line(), 1), max(at.Column(), 0)+1, "%s", all[0].Message)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, invalid(1, 1, "the expression has type %s, not bool", t)
	}
	if refusal := checkPatterns(checked.NativeRep()); refusal != nil {
		return nil, refusal
	}
	cost, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, invalid(1, 1, "%v", err)
	}
	if cost.Min > MaxCost {
		return nil, invalid(1, 1, "the expression costs at least %d on each record, the limit is %d", cost.Min, uint64(MaxCost))
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if cost.Max > MaxCost {
		options = append(options, cel.CostTracking(costs{}), cel.CostLimit(MaxCost)) // only if necessary, since counting takes time
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, invalid(1, 1, "%v", err)
	}
	return &expression{program: program, keys: keysOf(checked.NativeRep().Expr())}, nil
}

// holds evaluates the expression on the current record of a walk. The error quotes little of the
// record.
func (e *expression) holds(w *record.Walk) (bool, error) {
	e.subject = subject{walk: w}
	out, _, err := e.program.Eval(&e.subject)
	if err != nil {
		return false, errors.New(short(err.Error()))
	}
	holds, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the result has type %s, not bool", out.Type().TypeName())
	}
	return bool(holds), nil
}

// maxText bounds the description of an error, in bytes: it is sent in headers of answers, of
// which some clients accept 8 KiB.
const maxText = 300

// short truncates a text that may quote an expression or a record, and replaces invalid UTF-8.
func short(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "") // replacements may take more bytes
}
