package parse_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/flow/schema"
	"github.com/plait-run/plait/internal/flow/template"
	"github.com/plait-run/plait/internal/flow/yamldoc"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/text"
)

// The public suites are not part of this repository. docs/flow-format.md says where they are from, and has the figures
// below with reasons. With -v, each case that differs is printed.

// A tally counts the cases of a suite by how they end.
type tally map[string]int

// suite returns the directory of a suite.
func suite(t *testing.T, name string) string {
	dir := os.Getenv("PLAIT_SUITES")
	if dir == "" {
		t.Skip("PLAIT_SUITES does not name a directory with checkouts of the public suites")
	}
	return filepath.Join(dir, name)
}

func (got tally) compare(t *testing.T, want tally) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// valueOf returns the value of a document, which must not be empty.
func valueOf(parse func([]byte) (*yaml.Node, error), data []byte) (any, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return yamldoc.Value(root, dag.MaxDepth)
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGoldenLiquid(t *testing.T) {
	var all struct {
		Tests []struct {
			Name, Template, Result string
			Data, Templates        map[string]any
			Results                []string
			Invalid                bool
		}
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(suite(t, "golden-liquid"), "golden_liquid.json")), &all); err != nil {
		t.Fatal(err)
	}
	got := tally{}
	for _, c := range all.Tests {
		if c.Templates != nil {
			got["of another template, not tried"]++
			continue
		}
		out, err := "", badTemplate(c.Template)
		refused := "refused by the check"
		if err == nil {
			refused = "refused when rendered"
			if t, bad := template.Compile(c.Template); bad != nil {
				err = bad
			} else {
				out, err = t.Render(c.Data, false)
			}
		}
		kind := "equal"
		switch {
		case c.Invalid && err != nil:
			kind = "invalid, refused"
		case c.Invalid:
			kind = "invalid, rendered"
		case err != nil:
			kind = refused
		case out != c.Result && !slices.Contains(c.Results, out):
			kind = "different"
		}
		if got[kind]++; kind != "equal" && kind != "invalid, refused" {
			t.Logf("%s: %s: %q with %s: got %q, %v; want %q", kind, c.Name, c.Template, text.JSON(c.Data), out, err, c.Result)
		}
	}
	got.compare(t, tally{"equal": 544, "different": 49, "refused by the check": 234, "refused when rendered": 67,
		"invalid, refused": 120, "invalid, rendered": 6, "of another template, not tried": 34})
}

// badTemplate returns what flow check says of a template.
func badTemplate(src string) error {
	doc := text.JSON(map[string]any{"version": 1, "name": "f", "roles": map[string]any{"a": map[string]any{}},
		"graph": map[string]any{"$START": map[string]any{"new": map[string]any{"role": "a", "prompt": "x"}},
			"a": map[string]any{"ok": map[string]any{"role": "$END", "prompt": src}}}})
	_, problems := parse.Parse(nil, "flow.yaml", []byte(doc))
	for _, p := range problems {
		if !p.Warning {
			return errors.New(p.Message)
		}
	}
	return nil
}

func TestJSONSchemaSuite(t *testing.T) {
	root := filepath.Join(suite(t, "JSON-Schema-Test-Suite"), "tests", "draft2020-12")
	got := tally{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(readFile(t, file), &groups); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		for _, g := range groups {
			s, err := schema.Compile(g.Schema)
			for _, c := range g.Tests {
				kind := "agree"
				if err != nil {
					kind = "schema refused"
				} else {
					v, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Data))
					switch {
					case err != nil:
						return err
					case (s.Validate(v) == nil) == c.Valid:
					case strings.HasPrefix(rel, filepath.Join("optional", "format")):
						kind = "format not checked"
					default:
						kind = "different"
					}
				}
				if got[kind]++; kind != "agree" && kind != "format not checked" {
					t.Logf("%s: %s: %s: %s: %s; %v", kind, rel, g.Description, c.Description, c.Data, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got.compare(t, tally{"agree": 1769, "format not checked": 388, "different": 10, "schema refused": 58})
}

// A text of JSON is read alike by the record, from a .json file, and as YAML.
func TestJSONSuite(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(suite(t, "JSONTestSuite"), "test_parsing", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	record, file := tally{}, tally{}
	for _, name := range files {
		data := readFile(t, name)
		_, err := dag.Canonical(data)
		count := func(in tally, err error) {
			kind := filepath.Base(name)[:1] + " accepted"
			if err != nil {
				kind = filepath.Base(name)[:1] + " refused"
			}
			in[kind]++
			if kind == "y refused" || kind == "n accepted" {
				t.Logf("%s: %s: %.80q: %v", kind, filepath.Base(name), data, err)
			}
		}
		count(record, err)
		v, err := valueOf(yamldoc.ParseJSON, data)
		count(file, err)
		if w, err2 := valueOf(yamldoc.Parse, data); err == nil && (err2 != nil || text.JSON(v) != text.JSON(w)) {
			t.Errorf("%s: as YAML %v, %v", filepath.Base(name), w, err2)
		}
	}
	record.compare(t, tally{"y accepted": 93, "y refused": 2, "n refused": 188, "i accepted": 1, "i refused": 34})
	file.compare(t, tally{"y accepted": 93, "y refused": 2, "n refused": 188, "i accepted": 2, "i refused": 33})
}

func TestYAMLSuite(t *testing.T) {
	root := suite(t, "yaml-test-suite")
	got := tally{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "in.yaml" || strings.HasPrefix(file, filepath.Join(root, "tags")) ||
			strings.HasPrefix(file, filepath.Join(root, "name")) {
			return err
		}
		dir := filepath.Dir(file)
		v, err := valueOf(yamldoc.Parse, readFile(t, file))
		_, invalid := os.Stat(filepath.Join(dir, "error"))
		kind := "no JSON, refused"
		want, missing := os.ReadFile(filepath.Join(dir, "in.json"))
		switch {
		case invalid == nil && err != nil:
			kind = "invalid, refused"
		case invalid == nil:
			kind = "invalid, accepted"
		case missing != nil && err == nil:
			kind = "no JSON, accepted"
		case missing != nil:
		case err != nil:
			kind = "refused"
		default:
			kind = "different"
			var w any
			if dec := json.NewDecoder(bytes.NewReader(want)); dec.Decode(&w) == nil || len(bytes.TrimSpace(want)) == 0 {
				g, _ := dag.Marshal(v)
				if w, _ := dag.Marshal(w); bytes.Equal(g, w) {
					kind = "equal"
				}
			}
		}
		if got[kind]++; !slices.Contains([]string{"equal", "invalid, refused", "no JSON, refused"}, kind) {
			t.Logf("%s: %s: %v, want %s; %v", kind, dir, text.JSON(v), bytes.TrimSpace(want), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got.compare(t, tally{"equal": 220, "different": 1, "refused": 58, "no JSON, refused": 27, "no JSON, accepted": 2,
		"invalid, refused": 89, "invalid, accepted": 5})
}
