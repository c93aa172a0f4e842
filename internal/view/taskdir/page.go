package taskdir

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

//go:embed templates/*.tmpl
var templates embed.FS

// pages are the templates, parsed when the first page is drawn. Whatever an agent wrote has to pass through one of the
// functions that make it safe.
var pages = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"drawn":    func() string { return drawnMarks[".md"] },
		"yaml":     scalar,
		"time":     timestamp,
		"count":    text.Count,
		"join":     func(list []string) string { return strings.Join(list, ", ") },
		"cell":     func(v any, most int) string { return cell(fmt.Sprint(v), most) },
		"title":    func(v any) string { return cell(fmt.Sprint(v), view.MaxTitle) },
		"tick":     func(s string) string { return strings.ReplaceAll(text.OneLine(s, 300), "`", "'") },
		"quote":    quote,
		"document": document,
		"json":     func(s string) string { return verbatim(s, "json") },
		"indent":   indent,
		"short": func(s string) string {
			if len(s) > maxText {
				return ""
			}
			return s
		},
	}).ParseFS(templates, "templates/*.tmpl")
})

// page fills in a template.
func page(name string, values any) ([]byte, error) {
	var buf bytes.Buffer
	all, err := pages()
	if err == nil {
		err = all.ExecuteTemplate(&buf, name+".tmpl", values)
	}
	if err != nil {
		return nil, fmt.Errorf("fill in %s: %w", name, err)
	}
	return buf.Bytes(), nil
}

// plainScalar matches words that YAML always reads as strings, with a few exceptions.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]+$`)

// scalar formats a string as YAML, on one line.
func scalar(s string) (string, error) {
	switch s = text.OneLine(s, 2000); strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off":
	default:
		if plainScalar.MatchString(s) {
			return s, nil
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return strings.TrimSpace(buf.String()), err
}

// timestamp formats Unix milliseconds.
func timestamp(ms int64) string {
	if ms == 0 {
		return "null"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// indent formats JSON for people.
func indent(data json.RawMessage) (string, error) {
	var buf bytes.Buffer
	err := json.Indent(&buf, data, "", "  ")
	return buf.String(), err
}
