package scripted

import (
	"encoding/json"
	"strings"
)

// structuredTool is the tool that Claude Code's model uses to answer with structured data.
const structuredTool = "StructuredOutput"

// structured returns the form of the answer that structuredTool takes: its schema, in which a property whose
// description is "this is $status" is named $status. plain maps such names to the tool's own.
func structured(schema json.RawMessage) (form json.RawMessage, plain map[string]string) {
	var s object
	if json.Unmarshal(schema, &s) != nil || s == nil {
		return nil, nil
	}
	properties, _ := s["properties"].(object)
	renamed, real := object{}, map[string]string{}
	plain = map[string]string{}
	for name, rule := range properties {
		is := name
		fields, _ := rule.(object)
		about, _ := fields["description"].(string)
		if of, ok := strings.CutPrefix(about, "this is $"); ok {
			of, _, _ = strings.Cut(of, ":")
			is = "$" + of
		}
		plain[is], real[name], renamed[is] = name, is, rule
	}
	s["properties"] = renamed
	required, _ := s["required"].([]any)
	for i, name := range required {
		if s, ok := name.(string); ok && real[s] != "" {
			required[i] = real[s]
		}
	}
	return encode(s), plain
}

// answer gives an answer, with structuredTool if the request offers it and the answer is structured.
func (r *Request) answer(s dialect, f final, callID string) error {
	said, err := f.text(r)
	if err != nil {
		return err
	}
	var fields object
	if r.plain == nil || !f.Auto && f.JSON == nil || json.Unmarshal([]byte(said), &fields) != nil {
		s.message(said)
		return nil
	}
	given := object{}
	for name, value := range fields {
		if of, ok := r.plain[name]; ok {
			name = of
		}
		given[name] = value
	}
	s.call("", structuredTool, given, callID)
	return nil
}
