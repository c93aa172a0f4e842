package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// canary is the content of files that no request may reach.
const canary = "CANARY-8f2c"

// shared makes a task with a report, and files around it that must not be served.
func (h *house) shared() (row store.Thread, reports string) {
	h.t.Helper()
	row = h.run(gated, "do it")
	dir := taskdir.At(h.dir, row.ID).Path()
	reports = filepath.Join(dir, "shared", "reports")
	for _, f := range []string{filepath.Join(h.dir, "secret"), filepath.Join(h.home, "secret"),
		filepath.Join(dir, "secret"), filepath.Join(dir, "shared", "secret")} {
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

// TestPaths requests files by every spelling of a path out of the directory.
func TestPaths(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, reports := h.shared()
	s := h.open("")
	if res := s.get("/tasks/" + row.ID + "/files/shared/reports/a.md"); res.code != http.StatusOK ||
		res.body != "# A report" {
		t.Fatalf("the report: %d %s", res.code, res.body)
	}
	for name, to := range map[string]string{"abs": filepath.Join(h.dir, "secret"), "up": "../../secret",
		"beside": "../secret"} {
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
	ups := []string{"..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "..%00", "..;", "...", "%c0%ae%c0%ae", "%ff..",
		"．．", "‥", "..%20", "..%09", "..%5c", "..\\", ".", "%2f..", "~"}
	seps := []string{"/", "%2f", "%2F", "%5c", "\\", "//", "%252f", "/./", "%00/"}
	var targets []string
	for _, up := range ups {
		for _, sep := range seps {
			for _, base := range []string{"shared/reports", ""} {
				for _, n := range []int{1, 4} {
					targets = append(targets, "/tasks/"+row.ID+"/files/"+strings.TrimPrefix(base+sep+strings.Repeat(up+sep,
						n)+"secret", "/"))
				}
			}
			targets = append(targets, "/static/"+up+sep+"routes.go", "/static/"+up+sep+"page"+sep+"frame.html",
				"/blobs/"+up+sep+"secret", "/tasks/"+up+sep+row.ID+"/files/shared/secret")
		}
	}
	for _, name := range []string{"abs", "up", "beside", "hard", "pipe", "", ".", "a.md/", "a.md/..", "a.md%00", "A.MD",
		"a.md%20", "nothing"} {
		targets = append(targets, "/tasks/"+row.ID+"/files/shared/reports/"+name)
	}
	abs := strings.ReplaceAll(filepath.Join(h.dir, "secret"), "/", "%2f")
	targets = append(targets, "/tasks/"+row.ID+"/files/"+abs, "/tasks/"+row.ID+"/files//"+h.dir+"/secret",
		"/tasks/"+row.ID+"/files/file:"+h.dir+"/secret", "/tasks/"+row.ID+"/files/task.yaml",
		"/tasks/"+row.ID+"/files/events.jsonl", "/tasks/"+row.ID+"/files/shared", "/static/", "/static/static/plait.js",
		"/static/page/frame.html", "/blobs/", "/static/plait.js%00", "/static/plait.js/")
	if len(targets) < 300 {
		t.Fatalf("only %d forms", len(targets))
	}
	for _, target := range targets {
		code, all := s.raw("GET " + target + " HTTP/1.1\r\nHost: " + s.host + "\r\nCookie: " + s.cookie() +
			"\r\nConnection: close\r\n\r\n")
		if code == http.StatusOK || strings.Contains(all, canary) {
			t.Errorf("%s: %d", target, code)
		}
	}
}

// TestSwap replaces a file with links, directories and pipes while it is requested, in a task
// and in a copy.
func TestSwap(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, reports := h.shared()
	live, copied := h.open(""), h.openCopy(taskdir.At(h.dir, row.ID).Path())
	name, n := filepath.Join(reports, "a.md"), 10_000
	secret := filepath.Join(h.dir, "secret")
	hidden := filepath.Join(filepath.Dir(reports), "hidden")
	h.write(filepath.Join(hidden, "a.md"), canary)
	swaps := []func(string) error{
		func(f string) error { return os.WriteFile(f, []byte("# A report"), 0o644) },
		func(f string) error { return os.Symlink(secret, f) },
		func(f string) error { return os.Symlink("../secret", f) },
		func(f string) error { return os.Mkdir(f, 0o755) },
		func(f string) error { return syscall.Mkfifo(f, 0o644) },
		func(f string) error { return os.Link(secret, f) },
	}
	done := make(chan struct{})
	var asks, found sync.WaitGroup // found: each has got the file at least once
	type asked struct {
		*site
		path string
	}
	counts := map[string]map[int]int{}
	for _, a := range []asked{
		{live, "/tasks/" + row.ID + "/files/shared/reports/a.md"}, {live, "/tasks/" + row.ID + "/read/shared/reports/a.md"},
		{copied, "/files/shared/reports/a.md"}, {copied, "/read/shared/reports/a.md"},
		{copied, "/reports"}, {live, "/tasks/" + row.ID + "?tab=reports"},
	} {
		got := map[int]int{}
		counts[a.path] = got
		found.Add(1)
		asks.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				req, err := http.NewRequest(http.MethodGet, "http://"+a.host+a.path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := a.client.Do(req)
				if err != nil {
					t.Errorf("%s: %v", a.path, err)
					return
				}
				body, _ := io.ReadAll(res.Body) // shorter if the file was truncated
				res.Body.Close()
				if got[res.StatusCode]++; res.StatusCode == http.StatusOK && got[res.StatusCode] == 1 {
					found.Done()
				}
				if strings.Contains(string(body), canary) || res.StatusCode != http.StatusOK &&
					res.StatusCode != http.StatusNotFound {
					t.Errorf("%s: %d %s", a.path, res.StatusCode, body)
				}
			}
		})
	}
	for i := range n {
		if i%7 == 6 { // the directory is briefly replaced with a link
			if err := errors.Join(os.Rename(reports, reports+".old"), os.Symlink("hidden", reports), os.Remove(reports),
				os.Rename(reports+".old", reports)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		err := os.RemoveAll(name)
		if err == nil {
			err = swaps[i%len(swaps)](name)
		}
		if err != nil {
			t.Fatalf("swap %d: %v", i, err)
		}
	}
	if err := errors.Join(os.RemoveAll(name), swaps[0](name)); err != nil {
		t.Fatal(err)
	}
	found.Wait() // on a busy machine some may have been too late so far
	close(done)
	asks.Wait()
	for path, got := range counts {
		if got[http.StatusOK] == 0 || strings.HasSuffix(path, "a.md") && got[http.StatusNotFound] == 0 {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// nasty returns names that could be taken for something other than the name of a download.
func nasty() []string {
	names := []string{
		"a.html", "a.svg", "a.pdf", "a.js", "a.xml", "a.exe", "index.html", "..", ".", "../../x", "/etc/passwd", `..\..\x`,
		`C:\x`, "CON", "con.txt", "NUL", "COM1", "lpt9.md", "AUX .txt", "aux..",
		`a"; filename="b.html`, "a\r\nSet-Cookie: x=y", "a\nX: y", "a\x00.html", "a;b", "a'b", "a%0d%0aX:y", "a%2fb",
		"\u202egpj.exe", "a\u2066b", "\ufeffa", "a\u200bb", "\x1b[31m", "a\x7f", "a\u0085b", "\xff\xfe", "ünïcödé.md",
		"名前.txt",
		"🙂.png", strings.Repeat("a", 300), strings.Repeat("é", 300) + ".html", " a ", "a. ", "...", "~", "-rf", "--help",
		"$(id)", "`id`", "a|b", "a?b", "a*b", "a<b>", "<script>alert(1)</script>", "javascript:alert(1)", "data:text/html,x",
		"\t", "=1+1", "@x", "a\u2028b",
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
		if file := params["filename"]; err != nil || kind != "attachment" || file == "" || len(params) != 1 ||
			strings.ContainsAny(file, "/\\\"\r\n\x00:%<>\u202e\u2066") || strings.HasPrefix(file, ".") ||
			len([]rune(file)) > maxName+1 {
			t.Errorf("%q is called %q (%s): %v", name, file, res.head.Get("Content-Disposition"), err)
		}
		if len(res.head["Set-Cookie"]) > 0 || res.head.Get("X") != "" {
			t.Errorf("%q made a header: %v", name, res.head)
		}
	}
	for name, want := range map[string]string{"report.md": "report.md", "a b.txt": "a b.txt", "ü.md": "ü.md",
		"CON": "_CON", "": "_", ".bashrc": "bashrc", "con.tar.gz": "_con.tar.gz", "console": "console"} {
		if got := safeName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
	if res := s.do(http.MethodHead, "/blobs/"+blob.String(), nil, nil); res.code != http.StatusOK ||
		res.head.Get("Content-Length") != fmt.Sprint(len(body)) {
		t.Errorf("HEAD: %d %v", res.code, res.head)
	}
}
