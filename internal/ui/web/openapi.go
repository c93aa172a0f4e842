package web

import (
	"net/http"
	"regexp"
	"strings"
)

var pathField = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// openAPI returns the OpenAPI document of the API's routes.
func openAPI(routes []route) map[string]any {
	paths := map[string]map[string]any{}
	for _, r := range routes {
		if !r.api() {
			continue
		}
		params := []any{}
		for _, m := range pathField.FindAllStringSubmatch(r.Path, -1) {
			params = append(params, parameter(field{Name: m[1], Type: "string", Required: true}, "path"))
		}
		for _, f := range r.Query {
			params = append(params, parameter(f, "query"))
		}
		op := map[string]any{"summary": r.About, "parameters": params, "responses": r.responses()}
		if r.Method == http.MethodPost {
			op["requestBody"] = map[string]any{"content": map[string]any{
				"application/json": map[string]any{"schema": bodySchema(r.Body)}}}
		}
		at := pathField.ReplaceAllString(r.Path, "{$1}")
		if paths[at] == nil {
			paths[at] = map[string]any{}
		}
		paths[at][strings.ToLower(r.Method)] = op
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Plait", "version": "1",
			"description": "The same objects as --json. Errors are {ok: false, error: {code, message}}."},
		"paths": paths,
	}
}

func parameter(f field, in string) map[string]any {
	return map[string]any{"name": f.Name, "in": in, "required": f.Required, "description": f.About,
		"schema": map[string]any{"type": f.Type}}
}

func bodySchema(fields []field) map[string]any {
	props, required := map[string]any{}, []string{}
	for _, f := range fields {
		props[f.Name] = map[string]any{"type": f.Type, "description": f.About}
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}

func (r route) responses() map[string]any {
	kind := "application/json"
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"schema": map[string]any{"const": "plait." + r.Answer + "/1"}, "ok": map[string]any{"type": "boolean"},
		"data": map[string]any{}, "error": map[string]any{},
	}}
	switch {
	case strings.HasSuffix(r.Path, "/events"):
		kind, schema = "text/event-stream", map[string]any{"type": "string"}
	case r.Answer == "":
		schema = map[string]any{"type": "object"}
	}
	return map[string]any{
		"200": map[string]any{"description": "success",
			"content": map[string]any{kind: map[string]any{"schema": schema}}},
		"default": map[string]any{"description": "an error, with a code and a message",
			"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}}},
	}
}
