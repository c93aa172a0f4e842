package schema

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaURL = "flow:///frontmatter.json"

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document; a role's schema must be self-contained", url)
}

// Compile compiles a JSON Schema. What is wrong with it is an [*Error] where its place is known.
func Compile(data json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if deeper(doc, maxDepth) {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, explain(err, doc)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, explain(err, doc)
	}
	return s, nil
}
