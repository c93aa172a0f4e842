package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/sys/secret"
)

// TestCleansRefusals has a server quote its key in ways that hide it.
func TestCleansRefusals(t *testing.T) {
	const key = "sk-test/VERY+SECRET-0123"
	said := `{"error":{"message":"wrong key: Bearer ` + key + `"}}`
	const clean = `{"error":{"message":"wrong key: Bearer ***"}}`
	packed := func(to *bytes.Buffer, w io.WriteCloser) string {
		io.WriteString(w, said)
		w.Close()
		return to.String()
	}
	var zipped, deflated bytes.Buffer
	packed(&zipped, gzip.NewWriter(&zipped))
	packed(&deflated, zlib.NewWriter(&deflated))
	for name, try := range map[string]struct {
		up   http.HandlerFunc
		want string
	}{
		"plain": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(said)))
			w.WriteHeader(401)
			io.WriteString(w, said)
		}, clean},
		"as JSON spells it": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, strings.ReplaceAll(strings.ReplaceAll(said, "/", `\/`), "+", `\u002b`))
		}, clean},
		"as Basic": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("us:"+key)))
		}, "dXM6***"},
		"in chunks": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(429)
			for _, c := range said {
				io.WriteString(w, string(c))
				w.(http.Flusher).Flush()
			}
		}, clean},
		"gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(401)
			w.Write(zipped.Bytes())
		}, clean},
		"deflate": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "deflate")
			w.WriteHeader(401)
			w.Write(deflated.Bytes())
		}, clean},
		"another encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.WriteHeader(401)
			io.WriteString(w, said)
		}, `{"error":{"message":"the model's server answered with status 401, in the encoding br, which Plait cannot read",` +
			`"type":"plait_gateway"},"type":"error"}` + "\n"},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/login?key="+url.QueryEscape(key))
			w.Header().Set("Www-Authenticate", `Bearer error_description="`+key+`"`)
			w.WriteHeader(307)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := httptest.NewServer(try.up)
			defer up.Close()
			u, err := url.Parse(up.URL)
			if err != nil {
				t.Fatal(err)
			}
			e := &ear{}
			g, err := Open(Config{Upstream: Upstream{URL: u, Key: key}, Traffic: e, Secrets: &secret.Set{}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				Transport: &http.Transport{DisableCompression: true}}
			defer c.CloseIdleConnections()
			res, body := post(t, c, g, "/messages", `{"model":"m","text":"`+key+`"}`)
			if diff := cmp.Diff(try.want, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			for name, values := range res.Header {
				if all := strings.Join(values, " "); strings.Contains(all, "SECRET") {
					t.Errorf("header %s: %s", name, all)
				}
			}
			g.Close()
			if diff := cmp.Diff(try.want, string(e.ended[0].Body)); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if asked := string(e.began[0].Body); asked != `{"model":"m","text":"***"}` {
				t.Errorf("kept of the request: %s", asked)
			}
		})
	}
}

// TestKeepsNoSecret passes a success on as it is, and keeps it without the key.
func TestKeepsNoSecret(t *testing.T) {
	const key = "sk-test/VERY+SECRET-0123"
	e := &ear{}
	sent := ""
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		io.WriteString(w, "it is "+key)
	}))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Config{Upstream: Upstream{URL: u, Key: key}, Traffic: e, Secrets: &secret.Set{}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	if _, body := post(t, c, g, "/messages", "is it "+key); body != "it is "+key || sent != "is it "+key {
		t.Errorf("%q was sent, %q came back", sent, body)
	}
	g.Close()
	if got := string(e.began[0].Body) + ", " + string(e.ended[0].Body); got != "is it ***, it is ***" {
		t.Errorf("kept: %s", got)
	}
}
