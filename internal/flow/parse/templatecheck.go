package parse

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/osteele/liquid/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/schema"
	"github.com/plait-run/plait/internal/flow/template"
)

// checkTemplates parses every prompt and location and looks up their variables. The engine's
// strict mode would not check conditions, loops and arguments.
func checkTemplates(d *draft) {
	roles := map[string]roleSite{}
	for _, r := range d.roles {
		roles[r.name] = r
	}
	joins := map[string]*schema.Schema{}
	for _, j := range d.joins {
		if !j.damaged {
			joins[j.name] = j.outcome()
		}
	}
	leading := map[string][]incomingRoute{} // to forks and gates
	for _, n := range d.nodes {
		if d.isGate(n.name) {
			continue
		}
		for _, rs := range n.routes {
			sc := d.scopeOf(roles[n.name], joins[n.name], n.name, rs.status)
			sc.template(rs.at("prompt"), rs.Prompt)
			sc.template(rs.at("location"), rs.Location)
			if d.isFork(rs.Role) || d.isGate(rs.Role) {
				leading[rs.Role] = append(leading[rs.Role], incomingRoute{sc, ""})
			}
		}
	}
	looks := &templateChecker{draft: d, budget: maxChecks}
	looks.checkGates(leading)
	// The prompt of a path sees the data of the route to its fork.
	for _, f := range d.forks {
		for i, p := range f.Paths {
			looks.check(leading[f.name], f.paths[i].prompt, p.Prompt)
		}
	}
}

// scopeOf returns the scope of the routes of a node. r is its role, join the result if it is a
// join.
func (d *draft) scopeOf(r roleSite, join *schema.Schema, node, status string) *scope {
	sc := &scope{draft: d, node: "role " + node, status: status}
	switch {
	case node == flow.Start:
		sc.start = true
	case join != nil:
		sc.node, sc.schema, sc.alts = "join "+node, join, join.Alts
	case r.schema == nil && r.calls() != nil && r.schemaNode == nil:
		sc.schema = callResult()
		sc.alts = sc.schema.Alts
	case r.schema != nil:
		sc.schema = r.schema
		sc.alts = sc.schema.With(status)
		if r.calls() != nil && slices.Contains(flow.CallStatuses, status) {
			sc.alts = append(sc.alts, callResult().Alts...)
		}
		// An unknown status is reported elsewhere, and has no fields to look up.
		sc.open = len(sc.alts) == 0
		if a := d.def.Roles[node].Agent; a != nil && a.Inline != nil && a.Inline.Kind == "command" {
			sc.extra = "exitCode"
		}
	default:
		sc.open = true
	}
	return sc
}

// callResult returns the schema of a call role's output if the role's own does not accept the called flow's.
func callResult() *schema.Schema {
	return schema.OfFields(map[string]*jsonschema.Schema{"returnCode": schema.Anything, "summary": schema.Anything})
}

// outcome returns the schema of what a join's routes can refer to. The meta of paths is not analyzed.
func (j *joinSite) outcome() *schema.Schema {
	paths := map[string]*jsonschema.Schema{}
	path := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"status": schema.Anything,
		"meta": schema.Anything, "text": schema.Anything, "failure": schema.Anything}}
	for _, id := range j.PathIDs {
		paths[id] = path
	}
	return schema.OfFields(map[string]*jsonschema.Schema{"decidedBy": schema.Anything, "paths": {Properties: paths}})
}

// A scope is what a route's templates can refer to.
type scope struct {
	*draft
	node, status string // node with its kind: "role x"
	start        bool   // only prompt is known, and problems are warnings
	open         bool   // every variable is known
	schema       *schema.Schema
	alts         []schema.Alternative
	extra        string
	gate         string                          // the gate whose routes see this, "" for other nodes
	locals       map[string][]*jsonschema.Schema // name → schemas, nil for any
	shadowed     []shadowed

	val    *yaml.Node
	cursor int // where in the raw file to look for the next token
}

type shadowed struct {
	name    string
	schemas []*jsonschema.Schema
	had     bool
}

func (s *scope) template(n *yaml.Node, src string) {
	if n == nil || !strings.Contains(src, "{{") && !strings.Contains(src, "{%") {
		return
	}
	s.val, s.locals, s.shadowed, s.cursor = resolve(n), map[string][]*jsonschema.Schema{}, nil, -1
	before := len(s.problems)
	template.EachToken(src, func(t parser.Token) {
		switch t.Type {
		case parser.ObjTokenType:
			if err := template.ParseExpression(t.Args); err != nil {
				hint := ""
				if strings.HasPrefix(t.Args, "{") {
					hint = "; triple braces are of an older format, write {{ name }}"
				}
				s.badTemplate(t, 0, "%v%s", err, hint)
				return
			}
			s.expression(t, t.Args)
		case parser.TagTokenType:
			s.tag(t)
		default:
			if i := strings.Index(t.Source, "{{"); i >= 0 && t.Name != "raw" {
				s.badTemplate(t, i, "{{ has no }} on its line")
			} else if i := strings.Index(t.Source, "{%"); i >= 0 && t.Name != "raw" {
				s.badTemplate(t, i, "{%% is not followed by the name of a tag and %%}")
			} else {
				s.seek(t.Source)
			}
		}
	})
	for _, p := range s.problems[before:] {
		if p.Code == codeBadTemplate {
			return
		}
	}
	// The tokens alone do not show unclosed blocks, unknown tags and bad arguments.
	if _, err := template.Compile(src); err != nil {
		s.reportAt(s.lineOf(err.Line), codeBadTemplate, false, "%v", err)
	}
}

var loopHead = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_-]*)\s+in\s+(.*)$`)

func (s *scope) tag(t parser.Token) {
	switch t.Name {
	case "include", "render", "layout", "block":
		s.badTemplate(t, 0, "%s is not allowed: a prompt must be self-contained", t.Name)
	case "assign":
		name, expr, ok := strings.Cut(t.Args, "=")
		if !ok {
			s.seek(t.Source)
			return
		}
		s.expression(t, expr)
		s.locals[strings.TrimSpace(name)] = s.typeOf(expr)
	case "capture":
		s.seek(t.Source)
		s.locals[strings.TrimSpace(t.Args)] = nil
	case "for", "tablerow":
		m := loopHead.FindStringSubmatch(t.Args)
		if m == nil {
			s.seek(t.Source)
			return
		}
		s.expression(t, m[2])
		s.bind(m[1], s.items(m[2]))
		s.bind("forloop", nil)
	case "endfor", "endtablerow":
		s.seek(t.Source)
		for range min(2, len(s.shadowed)) {
			last := s.shadowed[len(s.shadowed)-1]
			s.shadowed = s.shadowed[:len(s.shadowed)-1]
			delete(s.locals, last.name)
			if last.had {
				s.locals[last.name] = last.schemas
			}
		}
	case "if", "elsif", "unless", "case", "when":
		s.expression(t, t.Args)
	default:
		s.seek(t.Source)
	}
}

func (s *scope) bind(name string, schemas []*jsonschema.Schema) {
	was, had := s.locals[name]
	s.shadowed = append(s.shadowed, shadowed{name, was, had})
	s.locals[name] = schemas
}

// typeOf returns the schemas of an expression that is a plain path; nil means any type.
func (s *scope) typeOf(expr string) []*jsonschema.Schema {
	refs, filters := template.References(expr)
	if len(refs) != 1 || len(filters) > 0 || refs[0].String() != strings.TrimSpace(expr) {
		return nil
	}
	schemas, _ := s.lookup(refs[0])
	return schemas
}

func (s *scope) items(expr string) []*jsonschema.Schema {
	word := strings.Fields(expr)
	if len(word) == 0 || s.schema == nil {
		return nil
	}
	if schemas := s.typeOf(word[0]); schemas != nil && !strings.Contains(expr, "|") {
		return s.schema.Items(schemas)
	}
	return nil
}

// expression checks the filters and variables of expr, a part of t.
func (s *scope) expression(t parser.Token, expr string) {
	start := s.seek(t.Source)
	inToken := max(strings.Index(t.Source, expr), 0)
	refs, filters := template.References(expr)
	for _, f := range filters {
		if !template.IsFilter(f) {
			i := max(strings.Index(t.Source, f), 0)
			s.reportAt(s.place(start, i), codeBadTemplate, false, "there is no filter %q", f)
		}
	}
	for _, r := range refs {
		if r.Name == "forloop" && len(r.Path) > 0 && !slices.Contains(loopFields, r.Path[0].Name) {
			s.badTemplate(t, 0, "there is no %s, only %s", r, strings.Join(loopFields, ", "))
			continue
		}
		if _, ok := s.lookup(r); ok {
			continue
		}
		at := s.place(start, inToken+r.Offset)
		switch {
		case s.start && s.gate != "":
			s.reportAt(at, codeUnknownVar, true, "%s is not known at $START, which leads to gate %s; it will be empty",
				r, s.gate)
		case s.start:
			s.reportAt(at, codeUnknownVar, true, "%s is not known at $START, only prompt is; it will be empty", r)
		case s.gate != "":
			s.reportAt(at, codeUnknownVar, false, "%s, which leads to gate %s, does not produce %s with status %q",
				s.node, s.gate, r, s.status)
		default:
			s.reportAt(at, codeUnknownVar, false, "%s does not produce %s with status %q", s.node, r, s.status)
		}
	}
}

// loopFields are what forloop has.
var loopFields = []string{"first", "last", "index", "index0", "rindex", "rindex0", "length"}

// lookup returns the possible schemas of r's value, nil for any, and whether it is known.
func (s *scope) lookup(r template.Ref) ([]*jsonschema.Schema, bool) {
	schemas, ok := s.locals[r.Name]
	if !ok {
		switch {
		case s.open, s.gate != "" && (r.Name == "answer" || r.Name == "status"):
			return nil, true
		case s.start:
			return nil, r.Name == "prompt"
		}
		schemas, ok = schema.Field(s.alts, r.Name)
		if !ok {
			return nil, r.Name == "_body" || r.Name == "prompt" || r.Name == "status" || r.Name == s.extra &&
				s.extra != ""
		}
	}
	for _, g := range r.Path {
		if len(schemas) == 0 || s.schema == nil {
			return nil, true
		}
		switch {
		case g.Dynamic || g.Name == "size" || g.Name == "first" || g.Name == "last":
			return nil, true
		case g.Index:
			schemas = s.schema.Items(schemas)
		default:
			schemas, ok = s.schema.Property(schemas, g.Name)
		}
		if !ok {
			return nil, false
		}
	}
	return schemas, true
}

func (s *scope) badTemplate(t parser.Token, offset int, format string, args ...any) {
	s.reportAt(s.place(s.seek(t.Source), offset), codeBadTemplate, false, format, args...)
}

// A position is a line and a column.
type position struct{ line, col int }

func (s *scope) reportAt(at position, code string, warning bool, format string, args ...any) {
	s.add(flow.Problem{
		File: s.fileOf(s.val), Line: at.line, Col: at.col,
		Code: code, Message: fmt.Sprintf(format, args...), Warning: warning,
	})
}

// seek finds the next occurrence of a token's text in the template's file, so that a problem can
// point at it however the text was quoted. It returns -1 if it is written differently there:
// folded, or with escapes.
func (s *scope) seek(source string) int {
	t := s.texts[s.fileOf(s.val)]
	if s.cursor < 0 {
		s.cursor = t.offset(s.val.Line, s.val.Column)
	}
	i := bytes.Index(t.data[s.cursor:], []byte(source))
	if i < 0 || strings.TrimSpace(source) == "" {
		return -1
	}
	at := s.cursor + i
	s.cursor = at + len(source)
	return at
}

func (s *scope) place(start, offset int) position {
	if start < 0 {
		return position{max(s.val.Line, 1), max(s.val.Column, 1)}
	}
	line, col := s.texts[s.fileOf(s.val)].position(start + offset)
	return position{line, col}
}

// lineOf returns the position of a template's own line, counted from 0.
func (s *scope) lineOf(line int) position {
	if s.val.Style&yaml.LiteralStyle == 0 {
		return position{max(s.val.Line, 1), max(s.val.Column, 1)}
	}
	t := s.texts[s.fileOf(s.val)]
	at := s.val.Line + line
	if mark := t.offset(s.val.Line, s.val.Column); mark < len(t.data) && t.data[mark] == '|' {
		at++ // the text of a block begins on the line after its indicator
	}
	start, col := t.offset(at, 1), 1
	for start < len(t.data) && t.data[start] == ' ' {
		start++
		col++
	}
	return position{at, col}
}
