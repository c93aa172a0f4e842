package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// statusWords maps stored statuses to the words shown to users. Other statuses are shown as stored.
var statusWords = map[string]string{
	string(store.Completed): string(view.DisplayDone), string(store.Pending): string(view.DisplayQueued),
	view.Created: string(view.DisplayQueued), view.Working: string(view.DisplayRunning),
	view.InputRequired: string(view.DisplayNeedsYou), view.Canceled: string(view.DisplayCancelled),
	string(store.GateRejected): "denied",
}

func word(status any) string {
	text := fmt.Sprint(status)
	return cmp.Or(statusWords[text], text)
}

// withCode formats a sentence as HTML: text in backticks is code.
func withCode(text string) template.HTML {
	parts := strings.Split(template.HTMLEscapeString(text), "`")
	if len(parts)%2 == 0 {
		return template.HTML(strings.Join(parts, "`"))
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<code>" + parts[i] + "</code>"
	}
	return template.HTML(strings.Join(parts, ""))
}

// ago formats how long ago t was.
func ago(now, t time.Time) string {
	if t.Unix() <= 0 {
		return "–"
	}
	return text.Ago(t.UnixMilli(), now)
}

// took formats the time between two times in ms.
func took(from, to int64) string {
	if from == 0 || to == 0 {
		return "–"
	}
	return text.Took(to - from)
}

// short shortens a hash or an id for display.
func short(v any) string {
	switch v := v.(type) {
	case dag.Hash:
		if v.IsZero() {
			return ""
		}
		return v.Short()
	case string:
		if len(v) > 12 {
			return v[:12]
		}
		return v
	}
	return fmt.Sprint(v)
}

// line returns the first line of s that is not blank, at most n characters long.
func line(n int, s string) string {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			return text.Shorten(l, n)
		}
	}
	return ""
}

// maxPretty limits the texts that pretty formats, in bytes.
const maxPretty = 1 << 20

// pretty formats JSON with indentation and returns other text unchanged.
func pretty(text string) string {
	if t := strings.TrimSpace(text); len(t) < maxPretty && (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) &&
		indentedSize(t) <= 4*maxPretty {
		var out bytes.Buffer
		if json.Indent(&out, []byte(t), "", "  ") == nil {
			return out.String()
		}
	}
	return text
}

// utterance formats a text of a step: JSON with indentation, anything else as Markdown unless it is plain, with
// citations linked to the evidence of the task. by is the instance that wrote it, "" for the task itself.
func utterance(text, task, by string, plain bool) (template.HTML, error) {
	if set := pretty(text); set != text {
		return template.HTML("<pre>" + template.HTMLEscapeString(set) + "</pre>"), nil
	}
	cite := func(id string) (string, bool) {
		if by != "" && !strings.Contains(id, ".") {
			id = by + "." + id
		}
		return "/tasks/" + task + "?tab=evidence#" + id, true // citations of a step were checked when it was submitted
	}
	if plain {
		return preformatted([]byte(text), cite), nil
	}
	html, err := prose([]byte(text), cite)
	return `<div class="prose">` + html + "</div>", err
}

// indentedSize estimates the length of a JSON text once indented: deep nesting makes it grow.
func indentedSize(text string) int {
	n, depth, quoted := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			n += 2*depth + 1
		case c == '}' || c == ']':
			depth = max(0, depth-1)
			n += 2*depth + 1
		case c == ',':
			n += 2*depth + 1
		}
	}
	return n
}
