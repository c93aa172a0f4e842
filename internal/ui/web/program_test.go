package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/view/taskdir"
)

// TestNameOfTheProgram checks that commands in pages and refusals begin with the name of the program.
func TestNameOfTheProgram(t *testing.T) {
	h := newHouse(t, nil)
	h.only = true
	srv := h.server()
	srv.cfg.Program = taskdir.Program{Name: "plaitd",
		Verbs: []string{"answer", "cas", "flow", "ls", "open", "run", "task", "thread", "ui", "verify"}}
	s := h.serve("", srv)
	refused := func(code int, said string) {
		t.Helper()
		if code < 400 || !strings.Contains(said, "plaitd ui") {
			t.Errorf("%d: %s", code, said)
		}
	}
	res := s.do(http.MethodPost, "/api/v1/tasks", http.Header{"Content-Type": {"application/json"}}, []byte("{}"))
	refused(res.code, res.body)
	refused(s.ask(http.MethodGet, "/", "elsewhere.example"))
	if res := s.get("/tasks"); !strings.Contains(res.body, "No tasks yet") {
		t.Errorf("the list says %s", res.body)
	}
	pages, err := parseTemplates(srv.cfg.Program)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		for _, part := range page.Templates() {
			if part.Tree == nil {
				continue
			}
			text := part.Tree.Root.String()
			named += strings.Count(text, "plaitd ")
			if said := srv.cfg.Program.Says(text); said != text {
				t.Errorf("%s says %s", part.Name(), text)
			}
		}
	}
	if named < 8 {
		t.Errorf("only %d times pages say what to type", named)
	}
}
