package filter

import (
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// MaxCost bounds the cost of an expression on one record, in CEL's units: about a hundred of
	// them take a microsecond, and no step without a cost takes long.
	MaxCost = 100_000
	// maxCompared is how many nested values are compared at once. Each takes about as long as ten
	// units.
	maxCompared = 10_000
	// zoneCost is the cost of a function that looks up a time zone, which is in a file.
	zoneCost = 1_000
	// bytesPerUnit is how many bytes of text are read for one unit.
	bytesPerUnit = 20
)

// sizes provides the size limits for CEL's cost estimate.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	path := n.Path()
	switch {
	case len(path) == 0:
		return nil
	case len(path) == 1 && path[0] == "headers":
		return &cost.SizeEstimate{Max: maxHeaders}
	case path[0] == "key" || path[0] == "headers" || path[0] == "value":
		return &cost.SizeEstimate{Max: maxRead}
	}
	return &cost.SizeEstimate{Max: math.MaxInt64}
}

// EstimateCallCost implements cost.Estimator. CEL estimates a comparison by the outermost of
// nested values. If both sides come from the record, the cost must be counted at run time
// (costs).
func (sizes) EstimateCallCost(function, _ string, _ *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		if mayNest(args[0]) && mayNest(args[1]) {
			return cost.NewCallEstimate(cost.Estimate{Min: 1, Max: MaxCost + 1}, nil)
		}
	}
	return nil
}

// mayNest reports whether an argument may have nested values that the expression does not spell
// out.
func mayNest(n cost.AstNode) bool {
	switch n.Type().Kind() {
	case types.DynKind, types.AnyKind, types.ListKind, types.MapKind:
		return !spelledOut(n.Expr())
	}
	return false
}

func spelledOut(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		return !slices.ContainsFunc(e.AsList().Elements(), func(of ast.Expr) bool { return !spelledOut(of) })
	}
	return false
}

// costs counts calls that CEL counts as one unit, or by the outermost of nested values, although
// they examine more.
type costs struct{}

var compared = types.NewSizeCalculator(types.SizeCalculatorMaxDepth(math.MaxInt), types.SizeCalculatorMaxTraversal(maxCompared))

// CallCost implements interpreter.ActualCostEstimator. It returns nil if CEL's own cost is right.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	switch {
	case (function == operators.Equals || function == operators.NotEquals) && isAggregate(args[0]) && isAggregate(args[1]):
		return new(uint64(min(compared.AggregateSize(args[0]), compared.AggregateSize(args[1]))))
	case function == operators.In && isAggregate(args[0]):
		return new(uint64(compared.AggregateSize(args[1])))
	case strings.HasPrefix(function, "get") && len(args) == 2:
		return new(uint64(zoneCost))
	}
	switch function {
	case overloads.Size, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble, overloads.TypeConvertBool,
		overloads.TypeConvertTimestamp, overloads.TypeConvertDuration:
		if text, ok := args[0].(types.String); ok {
			return new(uint64(1 + len(text)/bytesPerUnit))
		}
	}
	return nil
}

func isAggregate(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}
