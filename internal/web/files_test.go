package web

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

// canary stands in files that no request may reach.
const canary = "CANARY-8f2c"

// shared makes a task with a report, and files around it that are nobody's business.
func (h *house) shared() (row store.Thread, reports string) {
	h.t.Helper()
	row = h.run(gated, "do it")
	dir := task.At(h.dir, row.ID).Path()
	reports = filepath.Join(dir, "shared", "reports")
	for _, f := range []string{filepath.Join(h.dir, "secret"), filepath.Join(h.home, "secret"), filepath.Join(dir, "secret"), filepath.Join(dir, "shared", "secret")} {
		h.write(f, canary)
	}
	h.write(filepath.Join(reports, "a.md"), "# A report")
	return row, reports
}

func (h *house) write(file, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// TestPaths asks for files by every spelling of a way out.
func TestPaths(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, reports := h.shared()
	s := h.open("")
	if res := s.get("/tasks/" + row.ID + "/files/shared/reports/a.md"); res.code != http.StatusOK || res.body != "# A report" {
		t.Fatalf("the report: %d %s", res.code, res.body)
	}
	for name, to := range map[string]string{"abs": filepath.Join(h.dir, "secret"), "up": "../../secret", "beside": "../secret"} {
		if err := os.Symlink(to, filepath.Join(reports, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(h.dir, "secret"), filepath.Join(reports, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(reports, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	ups := []string{"..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "..%00", "..;", "...", "%c0%ae%c0%ae", "%ff..", "．．", "‥", "..%20", "..%09", "..%5c", "..\\", ".", "%2f..", "~"}
	seps := []string{"/", "%2f", "%2F", "%5c", "\\", "//", "%252f", "/./", "%00/"}
	var targets []string
	for _, up := range ups {
		for _, sep := range seps {
			for _, base := range []string{"shared/reports", ""} {
				for _, n := range []int{1, 4} {
					targets = append(targets, "/tasks/"+row.ID+"/files/"+strings.TrimPrefix(base+sep+strings.Repeat(up+sep, n)+"secret", "/"))
				}
			}
			targets = append(targets, "/static/"+up+sep+"routes.go", "/static/"+up+sep+"page"+sep+"frame.html", "/blobs/"+up+sep+"secret", "/tasks/"+up+sep+row.ID+"/files/shared/secret")
		}
	}
	for _, name := range []string{"abs", "up", "beside", "hard", "pipe", "", ".", "a.md/", "a.md/..", "a.md%00", "A.MD", "a.md%20", "nothing"} {
		targets = append(targets, "/tasks/"+row.ID+"/files/shared/reports/"+name)
	}
	abs := strings.ReplaceAll(filepath.Join(h.dir, "secret"), "/", "%2f")
	targets = append(targets, "/tasks/"+row.ID+"/files/"+abs, "/tasks/"+row.ID+"/files//"+h.dir+"/secret", "/tasks/"+row.ID+"/files/file:"+h.dir+"/secret", "/tasks/"+row.ID+"/files/task.yaml",
		"/tasks/"+row.ID+"/files/events.jsonl", "/tasks/"+row.ID+"/files/shared", "/static/", "/static/static/plait.js", "/static/page/frame.html", "/blobs/", "/static/plait.js%00", "/static/plait.js/")
	if len(targets) < 300 {
		t.Fatalf("only %d forms", len(targets))
	}
	for _, target := range targets {
		code, all := s.raw("GET " + target + " HTTP/1.1\r\nHost: " + s.host + "\r\nCookie: " + s.cookie() + "\r\nConnection: close\r\n\r\n")
		if code == http.StatusOK || strings.Contains(all, canary) {
			t.Errorf("%s: %d", target, code)
		}
	}
}

// TestSwap changes a file for a link while it is read.
func TestSwap(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, reports := h.shared()
	s := h.open("")
	name, n := filepath.Join(reports, "a.md"), 2000
	var swaps sync.WaitGroup
	done := make(chan struct{})
	swaps.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			other := filepath.Join(reports, fmt.Sprintf(".swap%d", i%2))
			os.Remove(other)
			if i%2 == 0 {
				os.Symlink(filepath.Join(h.dir, "secret"), other)
			} else {
				os.WriteFile(other, []byte("# A report"), 0o644)
			}
			os.Rename(other, name)
		}
	})
	got := map[int]int{}
	for range n {
		res := s.get("/tasks/" + row.ID + "/files/shared/reports/a.md")
		got[res.code]++
		if strings.Contains(res.body, canary) || res.code != http.StatusOK && res.code != http.StatusNotFound {
			t.Fatalf("%d %s", res.code, res.body)
		}
	}
	close(done)
	swaps.Wait()
	if got[http.StatusOK] == 0 || got[http.StatusNotFound] == 0 {
		t.Errorf("of %d: %v", n, got)
	}
}

// nasty are names that could become something else than the name of a download.
func nasty() []string {
	names := []string{
		"a.html", "a.svg", "a.pdf", "a.js", "a.xml", "a.exe", "index.html", "..", ".", "../../x", "/etc/passwd", `..\..\x`, `C:\x`, "CON", "con.txt", "NUL", "COM1", "lpt9.md", "AUX .txt", "aux..",
		`a"; filename="b.html`, "a\r\nSet-Cookie: x=y", "a\nX: y", "a\x00.html", "a;b", "a'b", "a%0d%0aX:y", "a%2fb", "\u202egpj.exe", "a\u2066b", "\ufeffa", "a\u200bb", "\x1b[31m", "a\x7f", "a\u0085b", "\xff\xfe", "ünïcödé.md", "名前.txt",
		"🙂.png", strings.Repeat("a", 300), strings.Repeat("é", 300) + ".html", " a ", "a. ", "...", "~", "-rf", "--help", "$(id)", "`id`", "a|b", "a?b", "a*b", "a<b>", "<script>alert(1)</script>", "javascript:alert(1)", "data:text/html,x", "\t", "=1+1", "@x", "a\u2028b",
	}
	for i, n := 0, len(names); len(names) < 200; i++ {
		names = append(names, names[i%n]+"/"+names[(i*7+3)%n])
	}
	return names
}

func TestDownloads(t *testing.T) {
	h := newHouse(t, gatedAgents())
	s := h.open("")
	body := []byte("<script>alert(1)</script>")
	blob, _, err := h.store.Stage(t.Context(), "pin", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range nasty() {
		res := s.get("/blobs/" + blob.String() + "?name=" + url.QueryEscape(name))
		if res.code != http.StatusOK || res.body != string(body) {
			t.Fatalf("%q: %d %s", name, res.code, res.body)
		}
		if got := res.head.Get("Content-Type"); got != "application/octet-stream" {
			t.Errorf("%q comes as %s", name, got)
		}
		if got := res.head.Values("Content-Security-Policy"); len(got) != 1 || got[0] != "default-src 'none'; sandbox" {
			t.Errorf("%q: the policy is %q", name, got)
		}
		kind, params, err := mime.ParseMediaType(res.head.Get("Content-Disposition"))
		if file := params["filename"]; err != nil || kind != "attachment" || file == "" || len(params) != 1 || strings.ContainsAny(file, "/\\\"\r\n\x00:%<>\u202e\u2066") || strings.HasPrefix(file, ".") || len([]rune(file)) > maxName+1 {
			t.Errorf("%q is called %q (%s): %v", name, file, res.head.Get("Content-Disposition"), err)
		}
		if len(res.head["Set-Cookie"]) > 0 || res.head.Get("X") != "" {
			t.Errorf("%q made a header: %v", name, res.head)
		}
	}
	for name, want := range map[string]string{"report.md": "report.md", "a b.txt": "a b.txt", "ü.md": "ü.md", "CON": "_CON", "": "_", ".bashrc": "bashrc", "con.tar.gz": "_con.tar.gz", "console": "console"} {
		if got := harmless(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
	if res := s.do(http.MethodHead, "/blobs/"+blob.String(), nil, nil); res.code != http.StatusOK || res.head.Get("Content-Length") != fmt.Sprint(len(body)) {
		t.Errorf("HEAD: %d %v", res.code, res.head)
	}
}
