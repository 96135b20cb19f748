package filter

import (
	"fmt"
	"math"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"strandline.dev/internal/record"
)

// MaxCost bounds what an expression may cost on one record, in CEL's units: about a
// hundred make a microsecond of work, and no step that counts nothing takes long.
const MaxCost = 100_000

// environment declares what an expression can name.
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

// expression is a checked one with the record that it is evaluated on.
type expression struct {
	program cel.Program
	subject subject
}

// compile checks an expression: its syntax, its types, and that it can stay within MaxCost.
func compile(text string) (*expression, error) {
	if len(text) > MaxExpressionBytes {
		return nil, invalid(1, 1, "it has %d bytes, the limit is %d", len(text), MaxExpressionBytes)
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
		return nil, invalid(1, 1, "it is of type %s and has to be true or false", t)
	}
	cost, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, invalid(1, 1, "%v", err)
	}
	if cost.Min > MaxCost {
		return nil, invalid(1, 1, "it costs at least %d on each record, the limit is %d", cost.Min, uint64(MaxCost))
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if cost.Max > MaxCost {
		options = append(options, cel.CostLimit(MaxCost)) // counting takes time
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, invalid(1, 1, "%v", err)
	}
	return &expression{program: program}, nil
}

// holds evaluates the expression on the newest record of a walk.
func (e *expression) holds(w *record.Walk) (bool, error) {
	e.subject = subject{walk: w}
	out, _, err := e.program.Eval(&e.subject)
	if err != nil {
		return false, err
	}
	holds, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it is of type %s and has to be true or false", out.Type().TypeName())
	}
	return bool(holds), nil
}

// subject gives an expression the record where it lies: what is not named is not decoded.
type subject struct {
	walk  *record.Walk
	value ref.Val // nil: not decoded yet
}

// Parent implements cel.Activation.
func (s *subject) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (s *subject) ResolveName(name string) (any, bool) {
	switch name {
	case "key":
		return types.String(s.walk.Key()), true
	case "headers":
		return headers{s.walk}, true
	case "timestamp":
		return types.Timestamp{Time: time.UnixMilli(s.walk.Timestamp()).UTC()}, true
	case "offset":
		return types.Int(s.walk.Offset()), true
	case "size":
		return types.Int(s.walk.Size()), true
	case "value":
		if s.value == nil {
			s.value = decodeJSON(s.walk.Value())
		}
		return s.value, true
	}
	return nil, false
}

// sizes tells CEL's estimate of costs how large things can be at most.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if len(n.Path()) == 0 {
		return nil
	}
	switch n.Path()[0] {
	case "key", "headers":
		return &checker.SizeEstimate{Max: record.MaxRecordBytes}
	case "value":
		return &checker.SizeEstimate{Max: maxJSONBytes}
	}
	return &checker.SizeEstimate{Max: math.MaxInt64}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
