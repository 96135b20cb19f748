package filter

import (
	"regexp/syntax"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"strandline.dev/internal/record"
)

// Limits of a regular expression: each byte that it examines may take a step for each of its
// instructions, which CEL does not count.
const (
	maxPatternBytes        = 1 << 10
	maxPatternInstructions = 500
)

// checkPatterns refuses regular expressions that are too large, or that are not literals.
func checkPatterns(checked *ast.AST) *record.Refusal {
	var refusal *record.Refusal
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if refusal != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		pattern := args[len(args)-1]
		if what := faultOfPattern(pattern); what != "" {
			at := checked.SourceInfo().GetStartLocation(pattern.ID())
			refusal = invalid(max(at.Line(), 1), max(at.Column(), 0)+1, "%s", what)
		}
	}))
	return refusal
}

// faultOfPattern describes what is wrong with a regular expression, or returns "".
func faultOfPattern(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return "a regular expression must be a literal"
	}
	text, ok := e.AsLiteral().(types.String)
	if !ok {
		return "a regular expression must be a string"
	}
	if len(text) > maxPatternBytes {
		return "the regular expression is too long"
	}
	parsed, err := syntax.Parse(string(text), syntax.Perl)
	if err != nil {
		return err.Error()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err.Error()
	}
	if len(program.Inst) > maxPatternInstructions {
		return "the regular expression has too many parts or repetitions"
	}
	return ""
}
