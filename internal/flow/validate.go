package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/flow/schema"
	"github.com/plait-run/plait/internal/flow/template"
)

// render fills in a template. If strict, a variable that is not in vars is an error.
func (d *Definition) render(src string, vars map[string]any, strict bool) (string, error) {
	if !strings.Contains(src, "{{") && !strings.Contains(src, "{%") {
		return src, nil
	}
	t, ok := d.templates.Load(src)
	if !ok {
		compiled, err := template.Compile(src)
		if err != nil {
			return "", err
		}
		t, _ = d.templates.LoadOrStore(src, compiled)
	}
	return t.(*template.Template).Render(vars, strict)
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

// Validate checks that meta is a valid output of role. A suspended step, {$status: "$SUSPEND",
// reason}, always is. The error is written for the agent, with one line per problem and its
// position.
func (d *Definition) Validate(role string, meta map[string]any) error {
	r, ok := d.Role(role)
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
	c.once.Do(func() { c.schema, c.err = schema.Compile(r.Frontmatter) })
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
	if schema.TooMuch(c.schema, doc, len(data)) {
		return fmt.Errorf("the schema of role %s applies too often to parts of the output: make it less nested", role)
	}
	err = c.schema.Validate(doc)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	lines := schema.Faults(ve, doc)
	if len(lines) == 0 {
		want := make([]any, 0)
		for _, s := range d.Statuses(role) {
			want = append(want, s)
		}
		lines = []string{"/$status: " + schema.Brief(meta["$status"]) + schema.MustBe(want)}
	}
	return errors.New(strings.Join(lines, "\n"))
}
