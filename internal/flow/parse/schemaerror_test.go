package parse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/flow/parse"
)

// What is wrong in a schema is named with its place and with what to write.
func TestSchemaErrors(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{"$status: {const: ok}\nx: {pattern: '^(?!a)'}",
			`8:22: BAD_SCHEMA: the schema of role a: not valid at /properties/x/pattern: "^(?!a)"; a pattern cannot look ` +
				"ahead or behind as (?! does: write it without, or exclude with not: {pattern: …}"},
		{"$status: {const: ok}\nx:\n  patternProperties:\n    ok: {}\n    (?<=a):\n      type: text",
			"11:13: BAD_SCHEMA: the schema of role a: not valid: key \"(?<=a)\"; a pattern cannot look ahead or behind as"},
		{"$status: {const: ok}\nx: {pattern: '(a)\\1'}", `"(a)\\1"; it must be a regular expression of RE2: invalid escape ` +
			`sequence in \1`},
		{"$status:\n  enum:\n    - ok\n    - ''", `10:15: ONEOF_STATUS: "" cannot be a $status of role a: write a text that ` +
			"is not empty, such as done"},
		{"$status: {enum: [ok, 1]}", "7:30: ONEOF_STATUS: 1 cannot be a $status of role a: write a text"},
		{"$status: {const: null}", "7:26: ONEOF_STATUS: null cannot be a $status"},
		{"$status: {$ref: '#/properties/x'}\nx: {enum: ['', ok]}", `8:20: ONEOF_STATUS: "" cannot be a $status`},
		{"$status: {enum: []}", `EXTRA_ROUTE: role a never returns "ok"; it has none, since its schema accepts no output`},
		{"$status: {const: ok}\nx: {anyOf: [{$ref: 'b.json#/c'}]}",
			"8:28: BAD_SCHEMA: the schema of role a: b.json is another document"},
		{"$status: {const: ok}\nx: {$ref: '#/b'}", `8:19: BAD_SCHEMA: the schema of role a: json-pointer in "#/b" not found`},
	} {
		text := "version: 1\nname: f\nroles:\n  a:\n    frontmatter:\n      properties:\n        " +
			strings.ReplaceAll(tt.schema, "\n", "\n        ") +
			"\ngraph:\n  $START: {new: {role: a, prompt: p}}\n  a: {ok: {role: $END}}\n"
		_, problems := parse.Parse(nil, "flow.yaml", []byte(text))
		if got := fmt.Sprint(problems); !strings.Contains(got, tt.want) || strings.Contains(got, "flow:///") {
			t.Errorf("%s\n got %s\nwant %s", tt.schema, got, tt.want)
		}
	}
}
