package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A page has the data that all pages share.
type page struct {
	Title   string
	Nav     string // the current section of the site
	Crumbs  []crumb
	Waiting int    // number of things that need a person
	Search  string // the search text
	Follow  string // the task to follow, "" for all, "-" for none
	Stream  string // the query of its event stream
	Types   string // types of events after which it is reloaded, "" for the default
	Read    bool   // read-only
	Copy    bool   // it shows a copy of one task
	Hosts   bool   // several hosts share the record
	Agents  []string
	Now     time.Time
	Body    any
}

// A crumb is a link in the breadcrumb.
type crumb struct{ Text, Link string }

// parse parses the templates for a program: the frame with each page.
func parse(p view.Program) (map[string]*template.Template, error) {
	read := func(t *template.Template, file string) error {
		text, err := assets.ReadFile(file)
		if err == nil {
			_, err = t.New(path.Base(file)).Parse(p.Says(string(text)))
		}
		return err
	}
	frame := template.New("").Funcs(templateFuncs)
	parts, err := fs.Glob(assets, "page/part/*.html")
	for _, file := range append(parts, "page/frame.html") {
		err = errors.Join(err, read(frame, file))
	}
	if err != nil {
		return nil, err
	}
	names, err := assets.ReadDir("page")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, n := range names {
		name := strings.TrimSuffix(n.Name(), ".html")
		if n.IsDir() || name == "frame" {
			continue
		}
		one, err := frame.Clone()
		if err == nil {
			err = read(one, "page/"+n.Name())
		}
		if err != nil {
			return nil, err
		}
		all[name] = one
	}
	return all, nil
}

// The types of events after which a page is reloaded: all, or all except agents' activity.
var (
	allEvents   = strings.Join(event.All(), " ")
	stateEvents = strings.Join(slices.DeleteFunc(event.All(),
		func(typ string) bool { return typ == event.Type(event.AgentItems{}) }), " ")
)

// show renders a page completely before it sends anything.
func (s *Server) show(w http.ResponseWriter, r *http.Request, code int, name string, p page) error {
	all, err := s.templates()
	if err != nil {
		return err
	}
	p.Types = cmp.Or(p.Types, allEvents)
	if pos, ok := r.Context().Value(posKey{}).(int64); ok && p.Follow != "-" {
		q := url.Values{"after": {strconv.FormatInt(pos, 10)}, "type": strings.Fields(p.Types)}
		if p.Follow != "" {
			q.Set("task", p.Follow)
		}
		p.Stream = q.Encode()
	}
	p.Read, p.Now, p.Agents, p.Hosts, p.Copy = s.cfg.ReadOnly, time.Now(), s.cfg.Agents, s.cfg.Hosts, s.copy != nil
	if !p.Copy && p.Waiting == 0 {
		if needs, err := s.needs(r.Context()); err == nil {
			p.Waiting = needs.count()
		}
	}
	var out strings.Builder
	if err := all[name].ExecuteTemplate(&out, "frame.html", p); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, visible(out.String())) // the client may have disconnected
	return nil
}

// visible escapes characters that are invisible or change the direction of text. Pages themselves
// have none.
func visible(html string) string { return text.Safe(strings.ReplaceAll(html, "\r\n", "\n")) }

// templateFuncs are the functions that templates can use.
var templateFuncs = template.FuncMap{
	"ago":        ago,
	"in":         text.In,
	"ms":         func(ms int64) time.Time { return time.UnixMilli(ms) },
	"time":       func(t view.Time) time.Time { return time.UnixMilli(int64(t)) },
	"short":      short,
	"tokens":     func(u store.Usage) string { return text.Number(u.InputTokens + u.OutputTokens) },
	"count":      text.Number,
	"dollars":    text.Dollars,
	"took":       took,
	"line":       line,
	"clip":       func(n int, s string) string { return text.Clip(s, n) },
	"lower":      strings.ToLower,
	"bytes":      text.Size,
	"pretty":     pretty,
	"diffLines":  diffLines,
	"utterance":  utterance,
	"many":       text.Count,
	"ticked":     withCode,
	"titled":     stepTitle,
	"word":       word,
	"class":      func(d view.DisplayState) string { return strings.ReplaceAll(string(d), " ", "-") },
	"tasks":      func(now time.Time, rows []view.TaskRow) taskTable { return taskTable{rows, now} },
	"count64":    func(n int) string { return text.Number(int64(n)) },
	"tokenSum":   func(u view.Usage) int64 { return u.InputTokens + u.OutputTokens },
	"attemptN":   attemptN,
	"shownFiles": shownFiles,
	"moreFiles":  func(files []changedFile) int { return max(0, len(files)-maxFiles) },
	"question":   view.Question,
	"prose":      func(text string) (template.HTML, error) { return prose([]byte(text), nil) },
}

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
