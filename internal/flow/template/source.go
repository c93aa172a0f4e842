package template

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/parser"
	liquidrender "github.com/osteele/liquid/render"
	"github.com/osteele/liquid/tags"

	"github.com/plait-run/plait/internal/sys/number"
)

// Filters that templates get when they are compiled, and cannot name themselves.
const (
	opPrefix         = "plait_"
	opText           = opPrefix + "text" // of each {{ }}: maps and lists as JSON, numbers as people write them
	opRange          = opPrefix + "range"
	opEqual          = opPrefix + "eq"
	opNotEqual       = opPrefix + "ne"
	opLess           = opPrefix + "lt"
	opGreater        = opPrefix + "gt"
	opLessOrEqual    = opPrefix + "le"
	opGreaterOrEqual = opPrefix + "ge"
	opContains       = opPrefix + "contains"
	opCase           = opPrefix + "case"
	opWhen           = opPrefix + "when"
	opEach           = opPrefix + "each"  // of what a loop iterates over
	opRound          = opPrefix + "round" // and a tag at the beginning of each loop's body
	opScope          = opPrefix + "scope" // only a tag, before everything else
)

var operators = map[string]string{
	"..": opRange, "==": opEqual, "!=": opNotEqual, "<": opLess, ">": opGreater, "<=": opLessOrEqual,
	">=": opGreaterOrEqual, "contains": opContains,
}

// Templates are parsed recursively. Go cannot recover from a stack that is too deep.
const (
	maxBlocks     = 100     // of blocks
	maxExpression = 1 << 16 // bytes
)

// The grammars of templates as people write them, and as they are rendered. They have no filters.
var (
	writtenGrammar = newGrammar()
	meteredGrammar = newMeteredGrammar()
)

func newGrammar() liquidrender.Config {
	c := liquidrender.NewConfig()
	tags.AddStandardTags(c)
	// The engine's own include would open files.
	c.AddTag("include", func(string) (func(io.Writer, liquidrender.Context) error, error) {
		return nil, errors.New("include is refused in a template")
	})
	return c
}

func newMeteredGrammar() liquidrender.Config {
	c := newGrammar()
	c.AddTag(opRound, func(size string) (func(io.Writer, liquidrender.Context) error, error) {
		round, err := expressions.Parse(size + " | " + opRound)
		return func(_ io.Writer, ctx liquidrender.Context) error {
			_, err := ctx.Evaluate(round)
			return err
		}, err
	})
	c.AddTag(opScope, func(string) (func(io.Writer, liquidrender.Context) error, error) {
		return func(_ io.Writer, ctx liquidrender.Context) error {
			ctx.Get(budgetKey).(*budget).scope = ctx.Bindings()
			return nil
		}, nil
	})
	return c
}

// A Template is a compiled template.
type Template struct {
	root    liquidrender.Node
	lines   int
	tokens  map[int]parser.Token // by the line that they have in the metered source
	printed [][]Ref              // what each {{ }} refers to
}

// budgetKey is the binding of the budget. No template can name it.
const budgetKey = "the budget"

// templateName makes the engine report the innermost line of an error.
const templateName = "template"

// An Error is why a template cannot be compiled.
type Error struct {
	Line int // from 0
	Text string
}

func (e *Error) Error() string { return e.Text }

// Compile parses a template.
func Compile(src string) (t *Template, err *Error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, &Error{Text: panicked(p).Error()}
		}
	}()
	t = &Template{lines: strings.Count(src, "\n") + 1, tokens: map[int]parser.Token{}}
	metered, err := t.metered(src)
	if err != nil {
		return nil, err
	}
	if _, err := writtenGrammar.Compile(src, parser.SourceLoc{}); err != nil {
		return nil, &Error{err.LineNumber(), clip(preface.ReplaceAllString(err.Error(), ""))}
	}
	root, perr := meteredGrammar.Compile(metered, parser.SourceLoc{Pathname: templateName})
	if perr != nil {
		return nil, &Error{perr.LineNumber(), perr.Error()}
	}
	t.root = root
	return t, nil
}

// metered returns the source of a template in which all that may take long is a filter, and so
// counted: the operators, ranges, and what loops iterate over. A tag counts the rounds of loops.
// Each of these tokens ends on a later line than it begins, so that an error's line finds it.
func (t *Template) metered(src string) (out string, err *Error) {
	type loop struct{ part, begin int }
	var parts []string
	var loops []loop
	line, depth, size := 0, 0, 0
	add := func(k parser.Token, part string) {
		t.tokens[line] = k
		line += strings.Count(part, "\n")
		parts = append(parts, part)
	}
	add(parser.Token{}, "{% "+opScope+"\n%}")
	EachToken(src, func(k parser.Token) {
		if err != nil {
			return
		}
		size += len(k.Source)
		isTag := k.Type == parser.TagTokenType
		switch {
		case isTag && blocks[k.Name]:
			depth++
		case isTag && blocks[strings.TrimPrefix(k.Name, "end")]:
			depth--
		}
		switch {
		case len(k.Args) > maxExpression:
			err = &Error{k.SourceLoc.LineNo, fmt.Sprintf("an expression has more than %d bytes", maxExpression)}
		case depth > maxBlocks:
			err = &Error{k.SourceLoc.LineNo, fmt.Sprintf("blocks are nested more than %d deep", maxBlocks)}
		}
		add(k, meteredToken(k, len(t.printed)))
		if k.Type == parser.ObjTokenType {
			refs, _ := References(k.Args)
			t.printed = append(t.printed, refs)
		}
		switch {
		case isTag && (k.Name == "for" || k.Name == "tablerow"):
			loops = append(loops, loop{len(parts), size})
			add(k, "\n")
		case isTag && (k.Name == "endfor" || k.Name == "endtablerow") && len(loops) > 0:
			l := loops[len(loops)-1]
			loops = loops[:len(loops)-1]
			parts[l.part] = fmt.Sprintf("{%% %s %d\n%%}", opRound, size-l.begin)
		}
	})
	return strings.Join(parts, ""), err
}

var blocks = map[string]bool{
	"if": true, "unless": true, "case": true, "for": true, "tablerow": true, "capture": true,
}

// meteredToken returns the metered source of one token. printed counts the {{ }} before it.
func meteredToken(k parser.Token, printed int) string {
	args := k.Args
	switch {
	case k.Type == parser.ObjTokenType:
		args = fmt.Sprintf("(%s) | %s: %d", meteredExpression("", args), opText, printed)
	case k.Type != parser.TagTokenType || strings.HasSuffix(k.Name, "raw") || strings.HasSuffix(k.Name, "comment"):
		return k.Source
	case k.Name == "case":
		args = "(" + meteredExpression("", args) + ") | " + opCase
	case k.Name == "when":
		args = "(" + meteredExpression(k.Name, args) + " | " + opWhen + ")"
	case k.Name != "cycle" && k.Name != "capture":
		args = meteredExpression(k.Name, args)
	}
	open, end := k.Source[:2]+" ", "\n"+k.Source[len(k.Source)-2:]
	if k.Source[2] == '-' {
		open = k.Source[:3] + " "
	}
	if k.Source[len(k.Source)-3] == '-' {
		end = "\n" + k.Source[len(k.Source)-3:]
	}
	return open + strings.TrimSpace(k.Name+" "+args) + end
}

// lexeme matches what the engine reads as one word of an expression.
var lexeme = regexp.MustCompile(`"[^"]*"|'[^']*'|-?\d+(?:\.\d+)?|\.?[A-Za-z_][\w-]*\??:?|\.\.|[=!<>]=|(?s:.)`)

// meteredExpression replaces operators by filters, and groups "and" and "or" from the right, as
// Liquid does. It adds filters to what a loop iterates over, and to the values of a "when". The filter of a loop has
// the loop's modifiers as arguments: the engine would apply "reversed" first, Liquid applies it last.
func meteredExpression(tag, src string) string {
	all := &strings.Builder{}
	b := all
	modifiers := map[string]*strings.Builder{}
	owed := []int{0}                                          // parentheses to close, by the depth of brackets
	loop, operand := tag == "for" || tag == "tablerow", false // operand: the word before ends one
	iterated := false                                         // between "in" and the loop's modifiers
	for _, w := range lexeme.FindAllString(src, -1) {
		top := len(owed) - 1
		switch {
		case operators[w] != "":
			w, operand = " | "+operators[w]+": ", false
		case w == "and" || w == "or":
			w, operand = w+" (", false
			owed[top]++
		case w == "(" || w == "[":
			owed, operand = append(owed, 0), false
		case w == ")" || w == "]":
			w = strings.Repeat(")", owed[top]) + w
			owed, operand = owed[:max(top, 1)], true
		case w == "," && tag == "when" && top == 0:
			w = " | " + opWhen + "), ("
		case w == "in" && loop:
			loop, iterated, operand = false, true, false
		case iterated && operand && isLetter(w[0]) && top == 0:
			b, operand = &strings.Builder{}, w == "reversed"
			modifiers[w], w = b, ""
		case strings.TrimSpace(w) != "":
			operand = w != "|" && w != "," && !strings.HasSuffix(w, ":")
		}
		b.WriteString(w)
	}
	b.WriteString(strings.Repeat(")", owed[0]))
	if iterated {
		value := func(modifier string, otherwise int) string {
			if b := modifiers[modifier]; b != nil {
				return b.String()
			}
			return strconv.Itoa(otherwise)
		}
		fmt.Fprintf(all, " | %s: %s, %s, %t", opEach, value("offset:", 0), value("limit:", number.MaxExact),
			modifiers["reversed"] != nil)
		if b := modifiers["cols:"]; b != nil {
			all.WriteString(" cols: " + b.String())
		}
	}
	return all.String()
}

// EachToken calls f with the tokens of src in order. The content of raw blocks is passed as text.
func EachToken(src string, f func(parser.Token)) {
	inside := ""
	for _, t := range parser.Scan(src, parser.SourceLoc{}, nil) {
		switch {
		case t.Source == "": // trim marks are also part of the adjacent token
			continue
		case inside != "":
			if t.Type == parser.TagTokenType && t.Name == "end"+inside {
				inside = ""
			} else {
				t = parser.Token{Type: parser.TextTokenType, SourceLoc: t.SourceLoc, Source: t.Source, Name: "raw"}
			}
		case t.Type == parser.TagTokenType && (t.Name == "raw" || t.Name == "comment"):
			inside = t.Name
		}
		f(t)
	}
}
