package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// BenchmarkRequest compares a request of 64 KiB and its streamed answer, sent to a model's server on this machine, with the
// same through a gateway that shows it to a Traffic. The difference is what the gateway adds.
func BenchmarkRequest(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 20 {
			io.WriteString(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"said \"}}\n\n")
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, stream)
	}))
	defer srv.Close()
	u, err := url.Parse(srv.URL)
	if err != nil {
		b.Fatal(err)
	}
	g, err := Open(Config{Upstream: Upstream{URL: u.JoinPath("v1"), Key: "the-real-key"}, Traffic: &ear{}})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("said ", 64<<10/5) + `"}]}`
	for name, base := range map[string]string{"direct": srv.URL, "gateway": g.URL()} {
		b.Run(name, func(b *testing.B) {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), "POST", base+"/v1/messages", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("X-Api-Key", g.Token())
				res, err := c.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
					b.Fatal(res.Status, err)
				}
				res.Body.Close()
			}
		})
	}
}
