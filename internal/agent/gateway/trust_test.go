package gateway

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrust checks that the certificates that agents' variables name are trusted in addition to the system's, and that
// a server without a trusted one is named so that agents do not ask again.
func TestTrust(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, "fine")
	}))
	server.Config.ErrorLog = silent // it logs what the test is about
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	good, bad := put("ca.pem", "# ours\n"+ca+ca), put("bad.pem", "none")
	for name, c := range map[string]struct {
		node, codex string
		host        string // in place of the server's
		want        string // a part of the refusal
	}{
		"Node's":       {node: good},
		"Codex's":      {codex: good},
		"both":         {node: bad, codex: good},
		"neither":      {want: "NODE_EXTRA_CA_CERTS"},
		"no file":      {node: filepath.Join(dir, "none"), want: "NODE_EXTRA_CA_CERTS cannot be used: open "},
		"no PEM":       {codex: bad, want: "CODEX_CA_CERTIFICATE cannot be used: " + bad + " has no certificate in PEM form"},
		"a directory":  {node: dir, want: "NODE_EXTRA_CA_CERTS cannot be used: read "},
		"another name": {node: good, host: "localhost", want: "has a certificate that is not valid: x509: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NODE_EXTRA_CA_CERTS", c.node)
			t.Setenv("CODEX_CA_CERTIFICATE", c.codex)
			t.Setenv("SSL_CERT_FILE", "")
			up, err := url.Parse(server.URL + "/v1")
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				up.Host = c.host + ":" + up.Port()
			}
			g, err := Open(Config{Upstream: Upstream{URL: up, Key: "k", Bearer: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			for _, path := range []string{"/v1/messages", "/v1/responses", "/v1/chat/completions"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+path, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+g.Token())
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				http.DefaultClient.CloseIdleConnections()
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if string(body) != "fine" || g.Failed() != (Failure{}) {
						t.Errorf("%s: %d %s, %+v", path, res.StatusCode, body, g.Failed())
					}
					continue
				}
				var said struct {
					Error struct{ Code, Message string }
				}
				if err := json.Unmarshal(body, &said); err != nil || said.Error.Code != Untrusted || res.StatusCode != 400 ||
					!strings.Contains(said.Error.Message, c.want) || g.Failed().Status != 400 {
					t.Errorf("%s: %d %s, %+v", path, res.StatusCode, body, g.Failed())
				}
			}
		})
	}
}
