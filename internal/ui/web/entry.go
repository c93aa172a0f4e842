package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// entryPath is where other processes of the same user request a one-time URL from a server. A GET
// with a nonce makes the server prove that it knows the secret before the secret is sent: another
// process may have taken over its port. A POST with the cookie returns the URL.
const entryPath = "/entry"

// A Running is a server that is already running.
type Running struct {
	Addr      string `json:"addr"`
	Workspace string `json:"workspace"`
	PID       int    `json:"pid"`

	secret string
}

// runFile returns the file in which a server announces itself.
func runFile(home string) string { return filepath.Join(home, "ui.json") }

// announce writes the address of this server to home, and returns a function that undoes it.
func announce(home string, r Running) (func(), error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(runFile(home), data, 0o600); err != nil {
		return nil, fmt.Errorf("announce the page: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(runFile(home)); err == nil && string(now) == string(data) {
			os.Remove(runFile(home))
		}
	}, nil
}

// entryTime is how long a server has to respond.
const entryTime = 2 * time.Second

// FindRunning returns the running server of a home that shows the given workspace and is not
// read-only, nil if there is none or if its address is used by another program.
func FindRunning(ctx context.Context, home, workspace string) *Running {
	var r Running
	data, err := os.ReadFile(runFile(home))
	if err != nil || json.Unmarshal(data, &r) != nil || r.Workspace != workspace {
		return nil
	}
	if r.secret, err = keptSecret(filepath.Join(home, "ui.key")); err != nil {
		return nil
	}
	nonce := newSecret()
	said, err := r.ask(ctx, http.MethodGet, url.Values{"nonce": {nonce}})
	if err != nil || !hmac.Equal([]byte(said), []byte(proof(r.secret, r.Addr, nonce))) {
		return nil
	}
	return &r
}

// URL returns a one-time URL of a page of the server.
func (r *Running) URL(ctx context.Context, page string) (string, error) {
	return r.ask(ctx, http.MethodPost, url.Values{"page": {page}})
}

// ask sends a request to the server. It sends the secret only with requests that change
// something.
func (r *Running) ask(ctx context.Context, method string, q url.Values) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, entryTime)
	defer cancel()
	at := url.URL{Scheme: "http", Host: r.Addr, Path: entryPath, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return "", err
	}
	if method == http.MethodPost {
		req.AddCookie(&http.Cookie{Name: "plait-" + at.Port(), Value: r.secret})
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask plait ui: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 8<<10))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask plait ui: %s", res.Status)
	}
	return strings.TrimSpace(string(body)), err
}

// proof returns proof that the caller knows the secret, for one nonce and one address.
func proof(secret, addr, nonce string) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "plait ui\n%s\n%s\n", addr, nonce)
	return hex.EncodeToString(h.Sum(nil))
}
