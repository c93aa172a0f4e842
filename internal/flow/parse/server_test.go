package parse_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/parse"
)

func TestModelServer(t *testing.T) {
	for text, want := range map[string]string{
		"{kind: model}": "",
		"{kind: model, url: 'http://localhost:1/v1', api: messages, model: m, keyEnv: A_KEY, maxTurns: 3, config: {temperature: 0}}": "",
		"{kind: model, url: 'localhost:11434'}":         "is not the address of a server",
		"{kind: model, url: 'https://k:v@host/v1'}":     "no place for a key",
		"{kind: model, url: 'https://host/v1?key=abc'}": "no place for a key",
		"{kind: model, api: responses}":                 "api is chat or messages",
		"{kind: model, keyEnv: sk-abc}":                 "never the key itself",
		"{kind: model, maxTurns: many}":                 "must be a whole number",
		"{kind: model, effort: high}":                   "effort does not apply",
		"{kind: codex, url: 'http://localhost:1/v1'}":   "url does not apply",
	} {
		var doc yaml.Node
		if err := yaml.Load([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		n := &doc
		if n.Kind == yaml.DocumentNode {
			n = n.Content[0]
		}
		a, problems := parse.DecodeAgent(n, "config.yaml")
		said := ""
		for _, p := range problems {
			said += p.Message
		}
		if (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
		if strings.Contains(text, "A_KEY") && (a.KeyEnv != "A_KEY" || a.API != "messages" || a.MaxTurns != 3 || a.URL != "http://localhost:1/v1") {
			t.Errorf("%s: %+v", text, a)
		}
	}
}
