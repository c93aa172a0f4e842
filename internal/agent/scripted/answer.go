package scripted

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// scriptedText is the text of an answer whose scenario gives none.
const scriptedText = "This is a scripted answer; no model was asked."

// contractWords precede the schema in a prompt that asks for front matter, formWords in one that asks for a
// single object.
const (
	contractWords = "this JSON Schema:"
	formWords     = "one JSON object, with nothing around it, that fits " + contractWords
)

// text returns the answer to a request. The error says where the request wants more of it than a scripted model can
// make.
func (f final) text(r *Request) (string, error) {
	switch {
	case f.JSON != nil:
		return string(encode(quoteAll(*f.JSON, r))), nil
	case !f.Auto:
		return quote(f.Text, r), nil
	}
	said := f.Text
	if said == "" {
		said = scriptedText
	}
	said = quote(said, r)
	with, _ := quoteAll(f.With, r).(map[string]any)
	schema := r.Schema
	if schema == nil && slices.ContainsFunc(r.Context, func(t string) bool { return strings.Contains(t, formWords) }) {
		schema = findSchema(r.Context)
	}
	if schema != nil {
		v, err := instance(schema, with, said)
		return string(encode(v)), err
	}
	front := map[string]any{"$status": "done"}
	if schema = findSchema(r.Context); schema != nil {
		v, err := instance(schema, with, said)
		if err != nil {
			return "", err
		}
		if m, ok := v.(map[string]any); ok {
			front = m
		}
	} else {
		maps.Copy(front, with)
	}
	return frontMatter(front) + "\n" + said + "\n", nil
}

// findSchema finds the schema in the latest text that has one.
func findSchema(texts []string) json.RawMessage {
	for _, t := range slices.Backward(texts) {
		for {
			at := strings.LastIndex(t, contractWords)
			if at < 0 {
				break
			}
			var schema json.RawMessage
			dec := json.NewDecoder(strings.NewReader(t[at+len(contractWords):]))
			if dec.Decode(&schema) == nil && (schema[0] == '{' || schema[0] == 't') {
				return schema
			}
			t = t[:at]
		}
	}
	return nil
}

// frontMatter writes fields between lines of dashes, status first. Values are JSON, which is valid YAML.
func frontMatter(fields map[string]any) string {
	var b strings.Builder
	b.WriteString("---\n")
	line := func(key string) {
		b.WriteString(yamlText(key) + ": ")
		if s, ok := fields[key].(string); ok {
			b.WriteString(yamlText(s) + "\n")
		} else {
			b.Write(append(encode(fields[key]), '\n'))
		}
	}
	if _, ok := fields["$status"]; ok {
		line("$status")
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != "$status" {
			line(key)
		}
	}
	return b.String() + "---\n"
}

// yamlWords are words that some YAML parsers do not read as strings.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// yamlText returns a text as YAML: unquoted if it is a plain word, otherwise in quotes.
func yamlText(s string) string {
	word := s != "" && !slices.Contains(yamlWords, strings.ToLower(s))
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' && i == 0
		word = word && (letter || i > 0 && (c == '-' || c >= '0' && c <= '9'))
	}
	if word {
		return s
	}
	return string(encode(s))
}
