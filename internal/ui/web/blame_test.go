package web

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/app/blame"
)

// TestBlame looks at who wrote the lines of a file that a person committed and an agent changed.
func TestBlame(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	row := h.rewrites(map[string]string{"a & b.go": "package a\n\nvar One = 1\n"},
		map[string]string{"a & b.go": "package a\n\nvar One = 1\n\nconst Two = \"<b>two</b>\"\n"}, "done")
	s := h.open("")
	body := s.get(s.changesOf(row)).body
	at := regexp.MustCompile(`/threads/[^/"]*/blame\?[^"]*`).FindString(body)
	at = html.UnescapeString(at)
	res := s.get(at)
	for _, want := range []string{`title="Mend it"`, "/1</a></td>", "/1</a>?</td>", `rowspan="3"`, `href="#lineR5"`, " a 20",
		"&lt;b&gt;two&lt;/b&gt;", "Mend it", "<h2>Steps</h2>"} {
		if !strings.Contains(res.body, want) {
			t.Errorf("%s: %d: it does not say %s: %s", at, res.code, want, res.body)
		}
	}
	file := "?file=" + url.QueryEscape("a & b.go")
	lines := s.data("/api/v1/threads/" + row.ID + "/blame" + file).(map[string]any)["lines"].([]any)
	by := ""
	for _, l := range lines {
		by += l.(map[string]any)["by"].(string) + " "
	}
	// An empty line is like others, so nobody is sure whose it is.
	if by != strings.Repeat(blame.ByCommit+" ", 3)+blame.ByUnsure+" "+blame.ByStep+" " {
		t.Errorf("the lines are by %s", by)
	}
	for query, code := range map[string]int{"": 400, "?file=../x": 400, "?file=nothing": 404, file + "&tree=x": 400} {
		if res := s.get("/threads/" + row.ID + "/blame" + query); res.code != code {
			t.Errorf("%s: %d, want %d", query, res.code, code)
		}
	}
}
