package parse_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// flowSchema is the schema of flow files, compiled.
var flowSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(flow.Schemas()["flow"]))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flow.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("flow.schema.json")
})

// structural lists the problems of a flow's form, which its schema also detects.
var structural = []string{
	"UNKNOWN_KEY", "MISSING_KEY", "WRONG_TYPE", "BAD_VERSION", "OLD_FORMAT", "BAD_NAME", "RESERVED_ROLE", "BAD_ACCESS",
	"BAD_LIMIT", "BAD_DURATION", "BAD_CODE", "BAD_STRATEGY", "BAD_GATE", "BAD_AGENT", "BAD_PLAN", "BAD_CHAT", "BAD_UNTIL",
	"START_MISSING", "START_NEEDS_NEW", "END_HAS_ROUTES", "SUSPEND_AS_NODE", "INVALID_FORK_PATHS",
	"INVALID_FORK_PATH_ITEM", "INVALID_FORK_PATH_IDS",
}

// unknowable matches the messages of structural problems that no schema can detect.
var unknowable = regexp.MustCompile(`below 2\^53|without leading zeros|cannot be kept exactly|is out of range|is outside the working tree|they belong together one by one|` +
	`which is not a role|it needs onTimeout|leads to a gate`)

// schemaAgrees checks that the schema of flow files accepts a valid file, and refuses one whose form is
// invalid.
func schemaAgrees(t *testing.T, text string, problems []flow.Problem) {
	t.Helper()
	value, err := plainValue([]byte(text), "")
	if err != nil {
		return // there is no value to validate: duplicate keys, syntax, an include
	}
	bad := slices.ContainsFunc(problems, func(p flow.Problem) bool {
		return !p.Warning && slices.Contains(structural, p.Code) && !unknowable.MatchString(p.Message)
	})
	schema, err := flowSchema()
	if err != nil {
		t.Fatal(err)
	}
	switch err := schema.Validate(value); {
	case err != nil && !flow.Failed(problems):
		t.Errorf("the schema refuses a flow that is right: %v\n%s", err, text)
	case err == nil && bad:
		t.Errorf("the schema accepts %v\n%s", problems, text)
	}
}

var errNoValue = errors.New("no value of JSON")

// plainValue returns a YAML document as a JSON Schema sees it. Includes are read below dir.
func plainValue(data []byte, dir string) (any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if err := readIncludes(&doc, dir); err != nil {
		return nil, err
	}
	var v any
	if err := doc.Decode(&v); err != nil {
		return nil, err
	}
	return asJSON(v), nil
}

func readIncludes(n *yaml.Node, dir string) error {
	if n.Tag != "!include" {
		if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
			return errNoValue
		}
		for _, c := range n.Content {
			if err := readIncludes(c, dir); err != nil {
				return err
			}
		}
		return nil
	}
	if dir == "" {
		return errNoValue
	}
	file := filepath.Join(dir, n.Value)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if path.Ext(file) == ".md" {
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(data)}
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	*n = *doc.Content[0]
	return readIncludes(n, filepath.Dir(file))
}

// asJSON converts keys and times to text, as in JSON.
func asJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = asJSON(e)
		}
	case map[any]any:
		m := map[string]any{}
		for k, e := range v {
			m[fmt.Sprint(k)] = asJSON(e)
		}
		return m
	case []any:
		for i, e := range v {
			v[i] = asJSON(e)
		}
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}

// Every flow that ships with Plait is also valid against the schema.
func TestFlowSchemaAcceptsWhatIsShipped(t *testing.T) {
	var files []string
	for _, glob := range []string{
		"../../../examples/*.yaml", "../builtin/*.yaml", "../testdata/v1/.workflows/*.yaml", "../testdata/v1/.workflows/*/index.yaml",
		"../../ui/cli/flows/*.yaml",
	} {
		found, err := filepath.Glob(glob)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %v %v", glob, found, err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %v", files)
	}
	schema, err := flowSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, err := plainValue(data, filepath.Dir(file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
