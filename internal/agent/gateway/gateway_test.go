package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("PLAIT_TEST_KEEPER") != "" {
		keeper()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // for half a second
}

const stream = "event: message_start\n" +
	`data: {"type":"message_start","message":{"usage":{"input_tokens":90,"cache_read_input_tokens":10,` +
	`"output_tokens":1}}}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"type":"content_block_delta","delta":{"text":"\"usage\""}}` + "\n\n" +
	"event: message_delta\n" + `data: {"type":"message_delta","usage":{"output_tokens":20}}` + "\n\n"

// open starts a gateway in front of a server.
func open(t *testing.T, up http.HandlerFunc) *Gateway {
	t.Helper()
	srv := httptest.NewServer(up)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Config{Upstream: Upstream{URL: u.JoinPath("v1"), Key: "the-real-key"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func ask(t *testing.T, c *http.Client, method, address, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", token)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestForwards(t *testing.T) {
	g := open(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "the-real-key" || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("the upstream is shown %v", r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream)
	})
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.Socket())
	}}}
	defer through.CloseIdleConnections()
	if code, body := ask(t, c, "POST", g.URL()+"/v1/messages?beta=true", g.Token()); code != 200 || body != stream {
		t.Errorf("%d %q", code, body)
	}
	if code, body := ask(t, through, "POST", "http://gateway/v1/messages", g.Token()); code != 200 || body != stream {
		t.Errorf("by the socket: %d %q", code, body)
	}
	if code, body := ask(t, c, "GET", g.URL()+"/v1/models/vendor/m-1", g.Token()); code != 200 || body != stream {
		t.Errorf("a model: %d %q", code, body)
	}
	if said := g.Bypassed(); said != "" {
		t.Errorf("of an agent that asked it says %q", said)
	}
	if diff := cmp.Diff(Usage{Requests: 2, Input: 200, Cached: 20, Output: 40}, g.Used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	socket := g.Socket()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is left")
	}
}

func TestRefuses(t *testing.T) {
	g := open(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s reaches the upstream", r.URL) })
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for _, try := range []struct {
		method, path, token string
		code                int
	}{
		{"POST", "/v1/messages", "", 401},
		{"POST", "/v1/messages", "the-real-key", 401},
		{"POST", "/v1/messages", g.Token() + "x", 401},
		{"POST", "/v1/files", g.Token(), 404},
		{"POST", "/v1/messages/../files", g.Token(), 404},
		{"GET", "/v1/organizations/keys", g.Token(), 404},
		{"HEAD", "/api/hello", "", 200},
		{"HEAD", "/v1/models/../x", "", 200},
		{"DELETE", "/v1/models/../../admin/keys", g.Token(), 404},
		{"POST", "/v1/models/../../admin/keys", g.Token(), 404},
		{"GET", "/v1/models/%2e%2e/%2e%2e/admin/keys", g.Token(), 404},
		{"GET", "/v1/models/..%2F..%2Fadmin/keys", g.Token(), 404},
		{"GET", "/v1/models/%252e%252e/files", g.Token(), 404},
		{"GET", "/v1/models/..%5Cfiles", g.Token(), 404},
		{"GET", "/v1/models/..;/files", g.Token(), 404},
		{"GET", "/v1/models//x", g.Token(), 404},
		{"POST", "/v1beta/models/../../v1/files", g.Token(), 404},
		{"DELETE", "/v1/models/m", g.Token(), 405},
		{"PUT", "/v1/messages", g.Token(), 405},
		{"GET", "/v1/messages", g.Token(), 405},
		{"GET", "/v1/responses", g.Token(), 405},
	} {
		if code, body := ask(t, c, try.method, g.URL()+try.path, try.token); code != try.code {
			t.Errorf("%s %s: %d %s", try.method, try.path, code, body)
		}
	}
	if g.Used() != (Usage{}) {
		t.Errorf("used %+v", g.Used())
	}
}

// TestEachChunkAtOnce checks that a stream is not delayed.
func TestEachChunkAtOnce(t *testing.T) {
	next := make(chan struct{})
	g := open(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			http.NewResponseController(w).Flush()
			<-next
		}
	})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/messages", nil)
	req.Header.Set("Authorization", "Bearer "+g.Token())
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 3 {
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		next <- struct{}{}
	}
}

// TestForwardsGemini checks that the Gemini API has its own base and header, and that nothing else is below that base.
func TestForwardsGemini(t *testing.T) {
	const said = `data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,` +
		`"candidatesTokenCount":2}}` + "\r\n\r\n"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Goog-Api-Key") != "the-real-key" ||
			r.URL.String() != "/v1beta/models/m-1:streamGenerateContent?alt=sse" {
			t.Errorf("the upstream is shown %s %v", r.URL, r.Header)
		}
		io.WriteString(w, said)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Config{Upstream: Upstream{URL: u.JoinPath("v1beta"), Key: "the-real-key", Google: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for path, want := range map[string]int{
		"/v1beta/models/m-1:streamGenerateContent?alt=sse": 200, "/v1beta/messages": 404, "/v1beta/files": 404,
		"/v1betamodels/x": 404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+path, strings.NewReader(`{"contents":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Goog-Api-Key", g.Token())
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want || want == 200 && string(body) != said {
			t.Errorf("%s: %d %s, %v", path, res.StatusCode, body, err)
		}
	}
	if diff := cmp.Diff(Usage{Requests: 1, Input: 5, Output: 2}, g.Used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

// TestLongPath checks that the error says what to do: a socket's path can have only about a hundred bytes.
func TestLongPath(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	if _, err := Open(Config{}); err == nil || !strings.Contains(err.Error(), "set TMPDIR to a shorter path") {
		t.Errorf("it opens below a path of %d bytes: %v", len(long), err)
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v: %v", left, err)
	}
}
