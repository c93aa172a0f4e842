package web

import (
	"errors"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// parseTemplates parses the templates for a program: the frame with each page.
func parseTemplates(p taskdir.Program) (map[string]*template.Template, error) {
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

// templateFuncs are the functions that templates can use.
var templateFuncs = template.FuncMap{
	"ago":       ago,
	"in":        text.In,
	"ms":        func(ms int64) time.Time { return time.UnixMilli(ms) },
	"time":      func(t view.Time) time.Time { return time.UnixMilli(int64(t)) },
	"short":     short,
	"tokens":    func(u store.Usage) string { return text.Number(u.InputTokens + u.OutputTokens) },
	"count":     text.Number,
	"dollars":   text.Dollars,
	"took":      took,
	"line":      line,
	"clip":      func(n int, s string) string { return text.Clip(s, n) },
	"lower":     strings.ToLower,
	"bytes":     text.Size,
	"pretty":    pretty,
	"diffOf":    diffOf,
	"cell":      newDiffCell,
	"utterance": utterance,
	"many":      text.Count,
	"ticked":    withCode,
	"titled":    stepTitle,
	"word":      word,
	"class":     func(d view.DisplayState) string { return strings.ReplaceAll(string(d), " ", "-") },
	"count64":   func(n int) string { return text.Number(int64(n)) },
	"tokenSum":  func(u view.Usage) int64 { return u.InputTokens + u.OutputTokens },
	"attemptN":  attemptN,
	"question":  view.Question,
	"strip": func(g gateCard, b taskBody) gateStrip {
		return gateStrip{g, b.Gate != nil && b.Gate.G.ID == g.G.ID, b.Here.Item(g.G.ID)}
	},
	"prose": func(text string) (template.HTML, error) { return prose([]byte(text), nil) },
}
