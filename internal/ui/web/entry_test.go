package web

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindRunning finds the server of a home, for its workspace only, and only while it runs. Another
// program that responds at its address is never sent the secret.
func TestFindRunning(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	cfg := h.open("").srv.cfg
	cfg.Home = h.home
	ready, over := make(chan string, 1), make(chan error, 1)
	go func() { over <- New(cfg).Serve(ctx, l, func(url string) { ready <- url }) }()
	<-ready
	if FindRunning(t.Context(), h.home, "/elsewhere") != nil {
		t.Error("another workspace is shown")
	}
	there := FindRunning(t.Context(), h.home, cfg.Workspace)
	if there == nil || there.PID != os.Getpid() {
		t.Fatalf("it is not found: %+v", there)
	}
	for _, page := range []string{"//evil.com", "http://evil.com", `/\evil.com`, ""} {
		if at, err := there.URL(t.Context(), page); err == nil {
			t.Errorf("%q leads to %s", page, at)
		}
	}
	at, err := there.URL(t.Context(), "/tasks/"+row.ID)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for n, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		res, err := client.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want || n == 0 && res.Header.Get("Location") != "/tasks/"+row.ID {
			t.Errorf("visit %d: %s to %q", n+1, res.Status, res.Header.Get("Location"))
		}
	}
	strange := *there
	strange.secret = newSecret()
	if at, err := strange.URL(t.Context(), "/"); err == nil {
		t.Errorf("without the secret there is %s", at)
	}
	kept, err := os.ReadFile(runFile(h.home))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(runFile(h.home)); err == nil {
		t.Error("it is announced though it has ended")
	}
	impostor, err := net.Listen("tcp", there.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer impostor.Close()
	heard := make(chan string, 10)
	go http.Serve(impostor, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard <- r.Method + " " + r.URL.String() + " " + strings.Join(r.Header.Values("Cookie"), " ")
		w.Write([]byte(proof(newSecret(), there.Addr, r.URL.Query().Get("nonce"))))
	}))
	if err := os.WriteFile(runFile(h.home), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if FindRunning(t.Context(), h.home, cfg.Workspace) != nil {
		t.Error("an impostor is taken for it")
	}
	secret, err := keptSecret(filepath.Join(h.home, "ui.key"))
	if said := <-heard; err != nil || len(heard) > 0 || strings.Contains(said, secret) ||
		!strings.HasPrefix(said, "GET ") {
		t.Errorf("an impostor heard %q, %v", said, err)
	}
}
