package scripted

import (
	"encoding/json"
	"strings"
)

// structuredTool is the tool that Claude Code's model uses to answer with structured data.
const structuredTool = "StructuredOutput"

// structured returns the input schema of structuredTool, nil if a request does not offer the tool. A property
// whose description is "this is $status" is renamed to $status in form; plain maps form's names to the tool's own.
func structured(body []byte) (form json.RawMessage, plain map[string]string) {
	var in struct {
		Tools []struct {
			Name   string         `json:"name"`
			Schema map[string]any `json:"input_schema"`
		} `json:"tools"`
	}
	if json.Unmarshal(body, &in) != nil {
		return nil, nil
	}
	for _, t := range in.Tools {
		if t.Name != structuredTool || t.Schema == nil {
			continue
		}
		properties, _ := t.Schema["properties"].(map[string]any)
		plain, renamed := map[string]string{}, map[string]any{}
		real := map[string]any{}
		for name, rule := range properties {
			is := name
			if fields, ok := rule.(map[string]any); ok {
				about, _ := fields["description"].(string)
				if of, ok := strings.CutPrefix(about, "this is $"); ok {
					of, _, _ = strings.Cut(of, ":")
					is = "$" + of
				}
			}
			plain[is], real[name], renamed[is] = name, is, rule
		}
		t.Schema["properties"] = renamed
		if required, ok := t.Schema["required"].([]any); ok {
			for i, name := range required {
				if s, ok := name.(string); ok && real[s] != nil {
					required[i] = real[s]
				}
			}
		}
		return encode(t.Schema), plain
	}
	return nil, nil
}

// answer gives an answer, with structuredTool if the request offers it and the answer is structured.
func (r *Request) answer(s dialect, f final, callID string) error {
	said, err := f.text(r)
	if err != nil {
		return err
	}
	var fields object
	_, plain := structured(r.Body)
	if plain == nil || !f.Auto && f.JSON == nil || json.Unmarshal([]byte(said), &fields) != nil {
		s.message(said)
		return nil
	}
	given := object{}
	for name, value := range fields {
		if of, ok := plain[name]; ok {
			name = of
		}
		given[name] = value
	}
	s.call("", structuredTool, given, callID)
	return nil
}
