package parse

import (
	"testing"
)

// What a schema says in other ways than properties with a oneOf is understood, or left open.
func TestSchemasInOtherWords(t *testing.T) {
	const cond = "if: {properties: {$status: {const: ok}}}, then: {properties: {x: {}}}, else: {properties: " +
		"{$status: {const: no}, y: {}}}"
	for _, tt := range []struct{ name, schema, want string }{
		{"fields beside a reference", "$defs: {c: {properties: {x: {}}}}, oneOf: [{$ref: '#/$defs/c', properties: " +
			"{$status: {const: ok}}}, {$ref: '#/$defs/c', properties: {$status: {const: no}, y: {}}}]", ""},
		{"if, then and else", cond, ""},
		{"if without a status elsewhere", "properties: {$status: {enum: [ok, no]}, y: {}}, if: {required: [x]}, then: " +
			"{properties: {$status: {const: ok}}}, else: {properties: {$status: {const: no}}}", ""},
		{"then is impossible", "properties: {$status: {enum: [ok, no, never]}, x: {}, y: {}}, if: {properties: {$status: " +
			"{const: never}}}, then: false", ""},
		{"not one", "properties: {$status: {enum: [ok, no, never]}, x: {}, y: {}}, not: {properties: {$status: {const: " +
			"never}}, required: [$status]}", ""},
		{"not a pattern", "properties: {$status: {enum: [ok, no, never]}, x: {}, y: {}}, not: {properties: {$status: " +
			"{pattern: '^nev'}}}", ""},
		{"an enum that a oneOf narrows", "properties: {$status: {enum: [ok, no, never]}}, oneOf: [{properties: {$status: " +
			"{const: ok}, x: {}}}, {properties: {$status: {const: no}, y: {}}}]", ""},
		{"an enum that a pattern narrows", "properties: {$status: {enum: [ok, no, never], pattern: '^(ok|no)$'}, x: {}, y: {}}", ""},
		{"an anchor", "$defs: {c: {$anchor: c, properties: {$status: {enum: [ok, no]}, x: {}, y: {}}}}, $ref: '#c'", ""},
		{"an id", "$defs: {c: {$id: 'https://example.org/c', properties: {$status: {enum: [ok, no]}, x: {}, y: {}}}}, " +
			"$ref: 'https://example.org/c'", ""},
		{"a status by reference", "$defs: {s: {enum: [ok, no]}}, properties: {$status: {$ref: '#/$defs/s'}, x: {}, y: {}}", ""},
		{"a status of several", "properties: {$status: {anyOf: [{const: ok}, {const: no}]}, x: {}, y: {}}", ""},
		{"a status by pattern", "patternProperties: {'^.status$': {enum: [ok, no]}}, properties: {x: {}, y: {}}", ""},
		{"dependentSchemas", "properties: {$status: {enum: [ok, no]}}, dependentSchemas: {$status: {properties: {x: {}, " +
			"y: {}}}}", ""},
		{"required only", "properties: {$status: {enum: [ok, no]}}, required: [x, y]", ""},
		{"$dynamicRef", "$defs: {c: {$dynamicAnchor: c, properties: {$status: {enum: [ok, no]}}}}, $dynamicRef: '#c'", ""},
		{"whole values", "enum: [{$status: ok, x: 1}, {$status: no, y: 1}]", ""},
		{"draft 7", "$schema: 'http://json-schema.org/draft-07/schema#', definitions: {c: {properties: {$status: " +
			"{enum: [ok, no]}, x: {}, y: {}}}}, $ref: '#/definitions/c', properties: {$status: {const: never}}", ""},
		{"a status that is missing", "properties: {$status: {enum: [ok, no, more]}, x: {}, y: {}}", codeMissingRoute},
		{"a status too many", "properties: {$status: {const: ok}, x: {}, y: {}}", codeExtraRoute},
		{"a field of the other branch", "properties: {$status: {enum: [ok, no]}}, if: {properties: {$status: {const: ok}}}, " +
			"then: {properties: {x: {}}}, else: {properties: {x: {}}}", codeUnknownVar},
		{"unevaluatedProperties", "allOf: [{properties: {$status: {enum: [ok, no]}, x: {}}}], unevaluatedProperties: false",
			codeUnknownVar},
	} {
		_, problems := Parse(nil, "flow.yaml", []byte("version: 1\nname: f\nroles: {a: {frontmatter: {"+tt.schema+"}}}\n"+
			"graph: {$START: {new: {role: a, prompt: go}}, a: {ok: {role: $END, prompt: '{{ x }}'}, no: {role: $END, "+
			"prompt: '{{ y }}'}}}\n"))
		got := ""
		for _, p := range problems {
			got += p.Code
		}
		if got != tt.want {
			t.Errorf("%s: got %v, want %q", tt.name, problems, tt.want)
		}
	}
}
