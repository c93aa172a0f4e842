package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/plait-run/plait/internal/sys/text"
)

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

func compileSchema(data json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if deeper(doc, maxSchemaDepth) {
		return nil, fmt.Errorf("nested deeper than %d levels", maxSchemaDepth)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, explainSchema(err, doc)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, explainSchema(err, doc)
	}
	return s, nil
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
	lines := leaves(ve, doc)
	if len(lines) == 0 {
		want := make([]any, 0)
		for _, s := range d.Statuses(role) {
			want = append(want, s)
		}
		lines = []string{"/$status: " + brief(meta["$status"]) + mustBe(want)}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// leaves lists the innermost errors, each with its place in doc and what is there. Of a oneOf it
// keeps those of the variant that $status selects: errors of other variants do not help, nor do
// properties that are only disallowed because no variant matches.
func leaves(e *jsonschema.ValidationError, doc any) []string {
	at := "/" + strings.Join(e.InstanceLocation, "/")
	var out []string
	if k, ok := e.ErrorKind.(*kind.PropertyNames); ok { // the place is not reliable: the validator overwrites it
		for _, c := range e.Causes {
			for _, line := range leaves(c, k.Property) {
				out = append(out, "key "+strings.TrimPrefix(line, "/: "))
			}
		}
		if len(out) == 0 {
			out = []string{"key " + brief(k.Property) + " is not allowed"}
		}
		return out
	}
	if len(e.Causes) == 0 {
		return []string{at + ": " + misfit(e, doc)}
	}
	if choice(e) {
		for _, c := range e.Causes {
			if !wrongStatus(c) {
				out = append(out, leaves(c, doc)...)
			}
		}
		return out
	}
	chosen := slices.ContainsFunc(e.Causes, choice)
	for _, c := range e.Causes {
		if _, never := c.ErrorKind.(*kind.FalseSchema); !never || !chosen {
			out = append(out, leaves(c, doc)...)
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

// misfit says what is wrong with the value at an innermost error, and what the value is unless
// that is said anyway.
func misfit(e *jsonschema.ValidationError, doc any) string {
	got := brief(valueAt(doc, e.InstanceLocation))
	switch what := e.ErrorKind.(type) {
	case *kind.OneOf:
		if len(what.Subschemas) > 1 {
			return "it fits more than one variant"
		}
	case *kind.FalseSchema:
		return got + " is not allowed"
	case *kind.Enum:
		return got + mustBe(what.Want)
	case *kind.Const:
		return got + mustBe([]any{what.Want})
	case *kind.Type:
		return fmt.Sprintf("%s; it must be of type %s", got, orList(what.Want))
	case *kind.Pattern:
		return fmt.Sprintf("%s; it must match the pattern %s", got, what.Want)
	case *kind.Format:
		if pattern, ok := what.Got.(string); ok && what.Want == "regex" {
			return got + "; " + badPattern(pattern)
		}
		return fmt.Sprintf("%s; it must be a valid %s", got, what.Want)
	}
	_, msg, ok := strings.Cut(e.Error(), "': ")
	if !ok {
		msg = e.Error()
	}
	if strings.HasPrefix(got, "{") || strings.HasPrefix(got, "[") {
		return msg
	}
	return got + "; " + msg
}

// valueAt returns the value at a place in a JSON document, which it has.
func valueAt(doc any, at []string) any {
	for _, key := range at {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i < len(v) {
				doc = v[i]
			}
		}
	}
	return doc
}

// brief returns the beginning of the JSON of a value.
func brief(v any) string { return text.Shorten(jsonText(v), 80) }

func mustBe(want []any) string {
	const most = 20
	var list []string
	for _, v := range want[:min(len(want), most)] {
		list = append(list, brief(v))
	}
	if over := len(want) - most; over > 0 {
		list = append(list, fmt.Sprintf("one of %d others", over))
	}
	return "; it must be " + orList(list)
}

// orList joins words: "a, b or c".
func orList(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	return strings.Join(list, "")
}
