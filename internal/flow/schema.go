package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A schema is a role's frontmatter, analysed independently of any value: its variants, their
// statuses and their fields.
type schema struct {
	root any
	alts []alternative
	work int // amount of expansion so far; expanding a recursive schema would never end
}

// An alternative is one way to satisfy a schema: parts that must all hold.
type alternative struct {
	parts  []map[string]any
	branch []string // JSON pointer of the oneOf or anyOf branch; nil without branches
}

const (
	maxAlternatives = 256
	maxExpansion    = 16
	maxWork         = 50_000
)

func readSchema(data json.RawMessage) (*schema, error) {
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	s := &schema{root: root}
	s.alts = s.expand(root, nil, 0)
	return s, nil
}

// deref follows "#/…" references within the document, but no others.
func (s *schema) deref(x any) map[string]any {
	m, _ := x.(map[string]any)
	for range maxExpansion {
		to, ok := m["$ref"].(string)
		if !ok || to != "#" && !strings.HasPrefix(to, "#/") {
			break
		}
		at := s.root
		for _, p := range strings.Split(to, "/")[1:] {
			p = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
			switch v := at.(type) {
			case map[string]any:
				at = v[p]
			case []any:
				at = nil
				if i, err := strconv.Atoi(p); err == nil && i >= 0 && i < len(v) {
					at = v[i]
				}
			default:
				at = nil
			}
		}
		next, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		m = next
	}
	return m
}

// expand lists the ways to satisfy x. nil means that there are too many.
func (s *schema) expand(x any, branch []string, depth int) []alternative {
	m := s.deref(x)
	s.work++
	if m == nil || depth > maxExpansion || s.work > maxWork {
		return nil
	}
	parts := []map[string]any{m}
	for _, k := range []string{"then", "else"} {
		if p := s.deref(m[k]); p != nil {
			parts = append(parts, p)
		}
	}
	alts := []alternative{{parts: parts, branch: branch}}
	all, _ := m["allOf"].([]any)
	for _, a := range all {
		alts = cross(alts, s.expand(a, branch, depth+1))
		if alts == nil {
			return nil
		}
	}
	for _, k := range []string{"oneOf", "anyOf"} {
		list, ok := m[k].([]any)
		if !ok {
			continue
		}
		var among []alternative
		for i, b := range list {
			at := append(slices.Clone(branch), k, strconv.Itoa(i))
			// A branch of another type is reported by the compiler.
			if one := s.expand(b, at, depth+1); one != nil {
				among = append(among, one...)
			} else {
				among = append(among, alternative{branch: at})
			}
		}
		alts = cross(alts, among)
		if alts == nil {
			return nil
		}
	}
	return alts
}

func cross(a, b []alternative) []alternative {
	if len(a)*len(b) == 0 || len(a)*len(b) > maxAlternatives {
		return nil
	}
	var out []alternative
	for _, x := range a {
		for _, y := range b {
			branch := y.branch
			if branch == nil {
				branch = x.branch
			}
			out = append(out, alternative{parts: append(slices.Clone(x.parts), y.parts...), branch: branch})
		}
	}
	return out
}

// statuses returns the possible values of $status in a. open means that it is not fixed, bad that
// it is fixed to something other than a string.
func (a alternative) statuses() (list []string, open, bad bool) {
	for _, p := range a.parts {
		props, _ := p["properties"].(map[string]any)
		st, ok := props["$status"].(map[string]any)
		if !ok {
			continue
		}
		values, fixed := st["enum"].([]any)
		if c, ok := st["const"]; ok {
			values, fixed = []any{c}, true
		}
		if !fixed {
			continue
		}
		for _, v := range values {
			s, ok := v.(string)
			if !ok || s == "" {
				return nil, false, true
			}
			list = append(list, s)
		}
		return list, false, false
	}
	return nil, true, false
}

// statuses returns all statuses that can be routed. open means that some variant leaves $status
// free.
func (s *schema) statuses() (list []string, open bool) {
	if s.alts == nil {
		return nil, true
	}
	for _, a := range s.alts {
		l, o, bad := a.statuses()
		open = open || o || bad
		for _, st := range l {
			if st != Suspend && !slices.Contains(list, st) {
				list = append(list, st)
			}
		}
	}
	return list, open
}

// with returns the alternatives that can have status.
func (s *schema) with(status string) []alternative {
	var out []alternative
	for _, a := range s.alts {
		if l, open, _ := a.statuses(); open || slices.Contains(l, status) {
			out = append(out, a)
		}
	}
	return out
}

// field looks up name in the alternatives: its possible schemas, and whether any alternative has
// it. An alternative that lists no fields, or allows others, has every field.
func field(alts []alternative, name string) (schemas []any, found bool) {
	for _, a := range alts {
		said := false
		for _, p := range a.parts {
			props, ok := p["properties"].(map[string]any)
			said = said || ok
			if sub, ok := props[name]; ok {
				schemas, found = append(schemas, sub), true
			}
			if pp, _ := p["patternProperties"].(map[string]any); len(pp) > 0 {
				schemas, found = append(schemas, true), true
			}
			switch extra := p["additionalProperties"].(type) {
			case bool:
				if extra {
					schemas, found = append(schemas, true), true
				}
			case map[string]any:
				schemas, found = append(schemas, extra), true
			}
			if _, ok := p["$ref"]; ok {
				schemas, found = append(schemas, true), true
			}
		}
		if !said {
			schemas, found = append(schemas, true), true
		}
	}
	return schemas, found
}

// below looks up seg in values of the given schemas.
func (s *schema) below(schemas []any, g segment) (next []any, found bool) {
	if g.dynamic || g.name == "size" || g.name == "first" || g.name == "last" {
		return nil, true
	}
	for _, x := range schemas {
		alts := s.expand(x, nil, 0)
		if alts == nil {
			return nil, true
		}
		if g.index {
			return s.items(schemas), true
		}
		n, ok := field(alts, g.name)
		found = found || ok
		next = append(next, n...)
	}
	return next, found || len(schemas) == 0
}

// items returns the schemas of a list's items; nil if they are not restricted.
func (s *schema) items(schemas []any) (out []any) {
	for _, x := range schemas {
		it, ok := s.deref(x)["items"].(map[string]any)
		if !ok {
			return nil
		}
		out = append(out, it)
	}
	return out
}

type compiled struct {
	once   sync.Once
	schema *jsonschema.Schema
	err    error
}

// compiled returns the entry for a role's compiled schema.
func (d *Definition) compiled(role string) *compiled {
	c, ok := d.schemas.Load(role)
	if !ok {
		c, _ = d.schemas.LoadOrStore(role, &compiled{})
	}
	return c.(*compiled)
}

const schemaURL = "flow:///frontmatter.json"

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document; a role's schema must be self-contained", url)
}

func compileSchema(data json.RawMessage) (s *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("compile schema: %v", p)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// Validate checks that meta is a valid output of role. A suspended step, {$status: "$SUSPEND",
// reason}, always is. The error is written for the agent, with one line per problem and its
// position.
func (d *Definition) Validate(role string, meta map[string]any) error {
	r, ok := d.Roles[role]
	if !ok {
		return fmt.Errorf("validate meta: no role %q", role)
	}
	if meta["$status"] == Suspend {
		if reason, ok := meta["reason"]; ok {
			if _, ok := reason.(string); !ok {
				return errors.New("reason must be text")
			}
		}
		return nil
	}
	if r.Frontmatter == nil {
		return nil
	}
	c := d.compiled(role)
	c.once.Do(func() { c.schema, c.err = compileSchema(r.Frontmatter) })
	if c.err != nil {
		return fmt.Errorf("schema of role %s: %w", role, c.err)
	}
	// The validator accepts only the types of encoding/json.
	data, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("meta is not JSON: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("meta is not JSON: %w", err)
	}
	if tooMuch(c.schema, doc, len(data)) {
		return fmt.Errorf("the schema of role %s applies too often to parts of the output: make it less nested", role)
	}
	err = c.schema.Validate(doc)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	lines := leaves(ve)
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("$status is %s, not one of %s", jsonText(meta["$status"]),
			strings.Join(d.Statuses(role), ", "))}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// leaves lists the innermost errors. Of a oneOf it keeps those of the variant that $status
// selects: errors of other variants do not help, nor do properties that are only disallowed
// because no variant matches.
func leaves(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		at := "/" + strings.Join(e.InstanceLocation, "/")
		switch what := e.ErrorKind.(type) {
		case *kind.OneOf:
			if len(what.Subschemas) > 1 {
				return []string{"meta fits more than one variant"}
			}
		case *kind.FalseSchema:
			return []string{at + ": is not allowed"}
		}
		_, msg, ok := strings.Cut(e.Error(), "': ")
		if !ok {
			msg = e.Error()
		}
		return []string{at + ": " + msg}
	}
	var out []string
	if choice(e) {
		for _, c := range e.Causes {
			if !wrongStatus(c) {
				out = append(out, leaves(c)...)
			}
		}
		return out
	}
	chosen := slices.ContainsFunc(e.Causes, choice)
	for _, c := range e.Causes {
		if _, never := c.ErrorKind.(*kind.FalseSchema); !never || !chosen {
			out = append(out, leaves(c)...)
		}
	}
	return out
}

// choice reports whether e says that no variant matches.
func choice(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return len(e.Causes) > 0
	}
	return false
}

func wrongStatus(e *jsonschema.ValidationError) bool {
	if len(e.Causes) == 0 {
		return len(e.InstanceLocation) == 1 && e.InstanceLocation[0] == "$status"
	}
	return slices.ContainsFunc(e.Causes, wrongStatus)
}

// Statuses returns the statuses of role's steps, sorted: those that its schema fixes, those of
// its command's exit codes, and those of calls. A role that fixes none has the statuses in the
// graph. The statuses of a gate are its answers.
func (d *Definition) Statuses(role string) []string {
	if g, ok := d.Gates[role]; ok {
		return unique(g.Statuses())
	}
	r, ok := d.Roles[role]
	if !ok {
		return nil
	}
	var list []string
	open := true
	if r.Frontmatter != nil {
		if s, err := readSchema(r.Frontmatter); err == nil {
			list, open = s.statuses()
		}
	}
	list = append(list, r.exitStatuses()...)
	if open {
		list = append(list, slices.Sorted(maps.Keys(d.Graph[role]))...)
	}
	if r.Flow != "" {
		for _, st := range callStatuses {
			if _, routed := d.Graph[role][st]; routed || r.Frontmatter == nil {
				list = append(list, st)
			}
		}
	}
	return unique(list)
}

func (r Role) exitStatuses() []string {
	if r.Agent == nil || r.Agent.Inline == nil {
		return nil
	}
	var list []string
	for _, code := range slices.Sorted(maps.Keys(r.Agent.Inline.Exit)) {
		if st := r.Agent.Inline.Exit[code]; st != Suspend {
			list = append(list, st)
		}
	}
	return list
}
