package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
)

// What a model's server streams: an answer in pieces, then its end.
const (
	answerPieces = 20
	answerPiece  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"said \"}}\n\n"
	answerEnd    = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":20}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// listener receives all traffic, like the recorder of an attempt.
type listener struct{}

func (listener) Begin(context.Context, *agent.Call) (*agent.Reply, error) { return nil, nil }
func (listener) End(*agent.Call, agent.Reply, agent.Usage)                {}

// gateway measures what the gateway adds to a request: alternately through it and past it, to a server in
// this process.
func (b *bench) gateway(ctx context.Context) error {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range answerPieces {
			io.WriteString(w, answerPiece)
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, answerEnd)
	}))
	defer model.Close()
	u, err := url.Parse(model.URL)
	if err != nil {
		return err
	}
	g, err := gateway.Open(gateway.Config{Upstream: gateway.Upstream{URL: u.JoinPath("v1"), Key: "the-real-key"}, Traffic: listener{}})
	if err != nil {
		return err
	}
	defer g.Close()
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("said ", 64<<10/5) + `"}]}`
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(base string) (took, cpu time.Duration, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/messages", strings.NewReader(body))
		if err != nil {
			return 0, 0, err
		}
		req.Header.Set("X-Api-Key", g.Token())
		began, used := time.Now(), processor()
		res, err := client.Do(req)
		if err != nil {
			return 0, 0, err
		}
		defer res.Body.Close()
		n, err := io.Copy(io.Discard, res.Body)
		if want := answerPieces*len(answerPiece) + len(answerEnd); err == nil && (res.StatusCode != http.StatusOK || int(n) != want) {
			err = fmt.Errorf("the answer is %s with %d bytes, not %d", res.Status, n, want)
		}
		return time.Since(began), processor() - used, err
	}
	var past, through, pastCPU, throughCPU []float64
	for range 100 * b.rounds {
		for _, way := range []struct {
			base      string
			took, cpu *[]float64
		}{{model.URL, &past, &pastCPU}, {g.URL(), &through, &throughCPU}} {
			took, cpu, err := ask(way.base)
			if err != nil {
				return err
			}
			*way.took, *way.cpu = append(*way.took, took.Seconds()*1000), append(*way.cpu, cpu.Seconds()*1000)
		}
	}
	adds := median(through) - median(past)
	row("a request of 64 KiB to a model and its streamed answer, what the gateway adds", atMost(2, adds/median(past), " requests past it"),
		"%.2f ms, **%.2f** requests past it (%.2f ms), %.2f ms of CPU", adds, adds/median(past), median(past),
		median(throughCPU)-median(pastCPU))
	return nil
}
