package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
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
