package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/agent"
)

// Known maps names to values that differ from run to run, such as a directory of the task by the name of
// its contents. Names are the same in every run.
type Known map[string]string

// masks replace what differs from run to run and is recognized by its form. No mask matches the replacement
// of another.
var masks = sync.OnceValue(func() []mask {
	return []mask{
		{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
		{regexp.MustCompile(`(?i)\b[0-9a-f]{40,64}\b`), "<hash>"},
		{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "<hash>"}, // as people see them
		{regexp.MustCompile(`\bg-[0-9a-f]{10,64}\b`), "<gate>"},
		{regexp.MustCompile(`\bplait-[A-Z2-7]{26,}\b`), "<token>"}, // where a command printed its environment
		{regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`), "<ulid>"},
		{regexp.MustCompile(`Wall time: [0-9.]+`), "Wall time: <time>"},
		{regexp.MustCompile(`"(tokens|seconds)": [0-9.]+`), `"$1": <number>`}, // what a planner is told of actions
		{regexp.MustCompile(`Chunk ID: [0-9A-Za-z]+`), "Chunk ID: <id>"},
		{regexp.MustCompile(`\bPGID: [0-9]+`), "PGID: <id>"},
		{regexp.MustCompile(`\b127\.0\.0\.1:[0-9]+`), "127.0.0.1:<port>"},
		{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}` +
			`(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?\b`), "<date>"},
		{regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?` +
			`(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* [0-9]{1,2},? [0-9]{4}\b`), "<date>"},
	}
})

// A mask is a form and the replacement for text that has it.
type mask struct {
	form *regexp.Regexp
	with string
}

// dropped are the fields of a body that only identify the run.
var dropped = []string{"metadata", "client_metadata", "prompt_cache_key", "safety_identifier", "session_id", "user"}

// Text replaces what differs from run to run in a text.
func (k Known) Text(s string) string {
	names := make([]string, 0, len(k))
	for name, value := range k {
		if len(value) > 1 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { // a path within another comes first
		return cmp.Or(cmp.Compare(len(k[b]), len(k[a])), cmp.Compare(a, b))
	})
	for _, name := range names {
		s = strings.ReplaceAll(s, k[name], "<"+name+">")
	}
	for _, m := range masks() {
		s = m.form.ReplaceAllString(s, m.with)
	}
	return s
}

// value replaces what differs from run to run in a JSON value.
func (k Known) value(v any) any {
	switch v := v.(type) {
	case string:
		return k.Text(v)
	case []any:
		for i := range v {
			v[i] = k.value(v[i])
		}
	case map[string]any:
		for name, inner := range v {
			v[name] = k.value(inner)
		}
	}
	return v
}

// of returns a call without what differs from run to run. A body that is not JSON is one text.
func (k Known) of(c agent.Call) asked {
	d := json.NewDecoder(bytes.NewReader(c.Body))
	d.UseNumber()
	var body any
	if d.Decode(&body) != nil || d.More() {
		body = strings.ToValidUTF8(string(c.Body), "\uFFFD")
	}
	if fields, ok := body.(map[string]any); ok {
		for _, name := range dropped {
			delete(fields, name)
		}
		if items, ok := fields["input"].([]any); ok {
			fields["input"] = slices.DeleteFunc(items, func(it any) bool {
				item, _ := it.(map[string]any)
				delete(item, "id") // random, set by the agent; items refer to each other by call_id
				content, _ := item["content"].([]any)
				left := slices.DeleteFunc(content, isSurroundings)
				if len(content) > 0 {
					item["content"] = left
				}
				return len(content) > 0 && len(left) == 0
			})
		}
	}
	a := asked{value: k.value(body)}
	a.whole = sum(c.Method, c.Path, a.value)
	a.lane = sum(c.Method, c.Path, kind(a.value))
	return a
}

// isSurroundings reports whether a part of a message is what Codex says about its sandbox and its machine. It names
// the files that are currently in its home, and is repeated when there is another.
func isSurroundings(part any) bool {
	fields, _ := part.(map[string]any)
	text, _ := fields["text"].(string)
	return strings.HasPrefix(text, "<permissions instructions>") || strings.HasPrefix(text, "<environment_context>")
}

// kind returns what the calls of one conversation have in common: the model, the tools, and the beginning of
// the system prompt.
func kind(body any) any {
	fields, _ := body.(map[string]any)
	var tools []any
	list, _ := fields["tools"].([]any)
	for _, t := range list {
		tool, _ := t.(map[string]any)
		declared, _ := tool["functionDeclarations"].([]any)
		for _, d := range declared {
			if function, ok := d.(map[string]any); ok {
				tools = append(tools, function["name"])
			}
		}
		if inner, ok := tool["function"].(map[string]any); ok {
			tool = inner
		}
		tools = append(tools, tool["name"], tool["type"])
	}
	system := fields["system"]
	if system == nil {
		system = fields["instructions"]
	}
	if said, ok := fields["systemInstruction"].(map[string]any); ok {
		system = said["parts"]
	}
	if list, _ := fields["messages"].([]any); system == nil && len(list) > 0 {
		if first, _ := list[0].(map[string]any); first["role"] == "system" || first["role"] == "developer" {
			system = first["content"]
		}
	}
	return []any{fields["model"], tools, beginning(system)}
}

// maxBeginning is how much of a system prompt distinguishes conversations, in bytes: further down it describes
// the files.
const maxBeginning = 120

// beginning returns the beginning of a system prompt, which is a text or a list of texts.
func beginning(v any) string {
	var b strings.Builder
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, part := range list {
		if fields, ok := part.(map[string]any); ok {
			part = fields["text"]
		}
		text, _ := part.(string)
		if strings.HasPrefix(text, billing) {
			continue
		}
		b.WriteString(text)
	}
	return b.String()[:min(b.Len(), maxBeginning)]
}

// billing begins a part of Claude Code's system prompt that is derived from what the person says.
const billing = "x-anthropic-billing-header:"

// sum returns the hash of values.
func sum(list ...any) [sha256.Size]byte { return sha256.Sum256(encoded(list)) }

// encoded returns a value as JSON with sorted keys.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) // cannot fail: v was decoded, or consists of texts
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
