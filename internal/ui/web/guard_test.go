package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// hosts are values of Host that are not ours; P is the port.
var hosts = []string{
	"evil.com", "evil.com:P", "", " ", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:P1", "127.0.0.1:0P", "127.0.0.1:",
	"localhost", "localhost:1", "localhost.:P",
	"LOCALHOST:P", "Localhost:P", "localhost.localdomain:P", "foo.localhost:P", "[::1]", "[::1]:1", "[0:0:0:0:0:0:0:1]:P",
	"[::ffff:127.0.0.1]:P", "::1:P", "127.0.0.2:P", "0.0.0.0:P", "[::]:P",
	"127.1:P", "127.0.1:P", "2130706433:P", "0x7f000001:P", "0177.0.0.1:P", "127.0.0.1.:P", "127.0.0.1.nip.io:P",
	"evil.com@127.0.0.1:P", "127.0.0.1:P@evil.com", "127.0.0.1:P.evil.com",
	"127.0.0.1:P evil.com", "127.0.0.1:P,evil.com", "127.0.0.1:P/", "127.0.0.1:P#", "127.0.0.1:P?", "127.0.0.1%00:P",
	"localhost:P\tx", "[::1%25lo]:P", "*",
}

// refused reports whether a response is a refusal, by the guard or by net/http before it.
func refused(code int, all string) bool {
	return code == http.StatusForbidden && strings.Contains(all, "answers only to the address") ||
		code == http.StatusBadRequest && strings.Contains(all, "400 Bad Request")
}

// TestHosts requests every route of both servers by names that are not theirs.
func TestHosts(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	if len(hosts) < 40 {
		t.Fatalf("only %d forms", len(hosts))
	}
	for name, s := range map[string]*site{"live": h.open(""), "a copy": h.openCopy(h.copied(row))} {
		h.unchanged(name, func() { s.strangers(row, h.gate(row.ID).ID) })
		_, port, _ := net.SplitHostPort(s.host)
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
			if code, all := s.ask(http.MethodGet, "/", host+":"+port); code != http.StatusOK || !strings.Contains(all, "do it") {
				t.Errorf("%s, %s is ours: %d", name, host, code)
			}
		}
	}
}

// ask sends a request with the cookie and another host.
func (s *site) ask(method, target, host string) (int, string) {
	s.t.Helper()
	head, body := "Host: "+host+"\r\nCookie: "+s.cookie()+"\r\nConnection: close\r\n", ""
	if method == http.MethodPost {
		head += "Content-Type: application/json\r\nContent-Length: 14\r\n"
		body = `{"text":"yes"}`
	}
	return s.raw(method + " " + target + " HTTP/1.1\r\n" + head + "\r\n" + body)
}

// strangers checks that every route is refused for every value of hosts.
func (s *site) strangers(row store.Thread, gateID string) {
	t := s.t
	t.Helper()
	_, port, _ := net.SplitHostPort(s.host)
	table := s.srv.table()
	if len(table) < 9 {
		t.Fatalf("only %d routes", len(table))
	}
	for _, r := range table {
		target := fill(r.Path, row, gateID)
		for _, host := range hosts {
			if code, all := s.ask(r.Method, target, strings.ReplaceAll(host, "P", port)); !refused(code, all) {
				t.Errorf("%s %s for %q: %d", r.Method, target, host, code)
			}
		}
		for name, text := range map[string]string{
			"absolute form":          r.Method + " http://" + s.host + target + " HTTP/1.1\r\nHost: " + s.host,
			"absolute form, another": r.Method + " http://evil.com" + target + " HTTP/1.1\r\nHost: " + s.host,
			"two hosts":              r.Method + " " + target + " HTTP/1.1\r\nHost: " + s.host + "\r\nHost: evil.com",
			"no host":                r.Method + " " + target + " HTTP/1.1",
			"no host, HTTP/1.0":      r.Method + " " + target + " HTTP/1.0",
			"another, HTTP/1.0":      r.Method + " " + target + " HTTP/1.0\r\nHost: evil.com",
			"another by a proxy": r.Method + " " + target + " HTTP/1.1\r\nHost: evil.com\r\nX-Forwarded-Host: " + s.host +
				"\r\nForwarded: host=" + s.host,
		} {
			if code, all := s.raw(text + "\r\nCookie: " + s.cookie() +
				"\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"); !refused(code, all) {
				t.Errorf("%s %s by %s: %d", r.Method, target, name, code)
			}
		}
	}
	for _, target := range []string{"/x/../api/v1/tasks", "//evil.com/api/v1/tasks", "/./static/plait.js", "/nothing",
		"*"} {
		method := http.MethodGet
		if target == "*" {
			method = http.MethodOptions
		}
		if code, all := s.ask(method, target, "evil.com:"+port); !refused(code, all) {
			t.Errorf("%s %s: %d", method, target, code)
		}
	}
	if code, _ := s.raw("CONNECT " + s.host + " HTTP/1.1\r\nHost: " + s.host +
		"\r\nConnection: close\r\n\r\n"); code != http.StatusForbidden {
		t.Errorf("CONNECT: %d", code)
	}
}

func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0", "127.0.0.1", "",
		"localhost.:0"} {
		if l, err := Listen(addr); err == nil {
			l.Close()
			t.Errorf("%q is listened on", addr)
		}
	}
	h := newHouse(t, nil)
	for _, addr := range []string{"127.0.0.2:0", "localhost:0"} { // the printed address is served
		h.open(addr).stop()
	}
}

// TestKnown checks that there is no access without the one-time URL, and that it works once.
func TestKnown(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	s := h.open("")
	entry, err := url.Parse(s.entry)
	if err != nil {
		t.Fatal(err)
	}
	token := entry.Query().Get("token")
	if len(token) != 64 {
		t.Fatalf("the token %q is not 256 bits", token)
	}
	jar, _ := cookiejar.New(nil)
	stranger := *s
	stranger.client = &http.Client{Jar: jar, Transport: s.client.Transport}
	for _, r := range s.srv.routes() {
		res := stranger.do(r.Method, fill(r.Path, row, "g-1"), http.Header{"Content-Type": {"application/json"}},
			[]byte(`{}`))
		if res.code != http.StatusUnauthorized {
			t.Errorf("%s %s without a cookie: %d", r.Method, r.Path, res.code)
		}
	}
	for _, target := range []string{"/?token=" + token, "/?token=", "/?token=" + strings.Repeat("0", 64),
		"/?token=" + token + "&token=" + token, "/nothing"} {
		if res := stranger.get(target); res.code != http.StatusUnauthorized || len(res.head["Set-Cookie"]) > 0 ||
			strings.Contains(res.body, token) {
			t.Errorf("%s after it was used: %d", target, res.code)
		}
	}
	_, port, _ := net.SplitHostPort(s.host)
	for _, cookie := range []string{"plait-" + port + "=", "plait-" + port + "=" + token,
		"plait-" + port + "=" + strings.Repeat("f", 64), "plait=" + s.cookie()} {
		if res := stranger.do(http.MethodGet, "/", http.Header{"Cookie": {cookie}},
			nil); res.code != http.StatusUnauthorized {
			t.Errorf("with the cookie %s: %d", cookie, res.code)
		}
	}
	if res := s.get("/?token=old"); res.code != http.StatusOK || res.at.RawQuery != "" {
		t.Errorf("a page that is known may be opened by an old address: %d %s", res.code, res.at)
	}
	if res := s.get("/tasks?token=" + token); res.code != http.StatusForbidden {
		t.Errorf("a token elsewhere: %d", res.code)
	}
	if res := s.do(http.MethodPost, "/?token="+token, nil, nil); res.code != http.StatusMethodNotAllowed {
		t.Errorf("a token by POST: %d", res.code)
	}
	for _, r := range s.srv.routes() {
		if res := s.page(r, row, "g-1"); strings.Contains(res.body, token) || strings.Contains(fmt.Sprint(res.head), token) ||
			strings.Contains(res.body, strings.SplitN(s.cookie(), "=", 2)[1]) {
			t.Errorf("%s tells a secret", r.Path)
		}
	}
}

// TestEntry tests the responses to the one-time URL.
func TestEntry(t *testing.T) {
	h := newHouse(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g, err := newGuard(l.Addr(), h.home, taskdir.Program{})
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, g.wrap(http.NotFoundHandler()))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, token, _ := strings.Cut(g.url("/"), "token=")
	for _, wrong := range []string{"/?token=" + strings.Repeat("0", 64), "/tasks?token=" + token,
		"/?token=" + token[:63]} {
		res, err := client.Get("http://" + l.Addr().String() + wrong)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode/100 != 4 || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s", wrong, res.Status)
		}
	}
	res, err := client.Get("http://" + l.Addr().String() + "/?token=" + token)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" ||
		strings.Contains(string(body), "token") {
		t.Errorf("%s to %q: %s", res.Status, res.Header.Get("Location"), body)
	}
	if c := res.Cookies(); len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Path != "/" ||
		c[0].Domain != "" || c[0].Value != g.secret {
		t.Errorf("cookies: %v", c)
	}
	if res.Header.Get("Referrer-Policy") != "same-origin" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the address may be told or kept: %v", res.Header)
	}
}

func TestSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ui.key")
	first, err := keptSecret(file)
	if err != nil || len(first) != 64 {
		t.Fatalf("%q: %v", first, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	if again, err := keptSecret(file); err != nil || again != first {
		t.Errorf("after a restart: %q: %v", again, err)
	}
	for name, spoil := range map[string]func(string) error{
		"empty":        func(f string) error { return os.WriteFile(f, nil, 0o600) },
		"short":        func(f string) error { return os.WriteFile(f, []byte(first[:40]), 0o600) },
		"long":         func(f string) error { return os.WriteFile(f, []byte(first+"00"), 0o600) },
		"not hex":      func(f string) error { return os.WriteFile(f, []byte(strings.Repeat("x", 64)), 0o600) },
		"open to all":  func(f string) error { return os.Chmod(f, 0o644) },
		"a link":       func(f string) error { return os.Symlink(file+".other", f) },
		"a directory":  func(f string) error { return os.Mkdir(f, 0o700) },
		"a large file": func(f string) error { return os.WriteFile(f, make([]byte, 1<<20), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "open to all" {
				os.RemoveAll(file)
			}
			if err := spoil(file); err != nil {
				t.Fatal(err)
			}
			if _, err := keptSecret(file); err == nil {
				t.Error("it is taken")
			}
			os.RemoveAll(file)
			if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Servers that start concurrently all have the same secret.
	os.Remove(file)
	got := make(chan string, 20)
	for range cap(got) {
		go func() {
			s, err := keptSecret(file)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
	}
	one := <-got
	for range cap(got) - 1 {
		if s := <-got; s != one {
			t.Errorf("%q and %q", s, one)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".ui.key-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
