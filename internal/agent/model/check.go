package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/text"
)

// checkTime is how long a server may take to list its models.
const checkTime = 5 * time.Second

// Check asks a server for its models, and returns an error if an agent could not work with it. A
// server that does not list its models passes.
func Check(ctx context.Context, s Server) error {
	ctx, stop := context.WithTimeout(ctx, checkTime)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL.JoinPath("models").String(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", s.URL.Host, err)
	}
	if s.key != "" {
		dialectOf(s).key(req.Header, s.key)
	}
	// As the gateway does it: through the same proxy, and never elsewhere with the key.
	c := &http.Client{Transport: gateway.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if wrong := gateway.Distrusted(err); wrong != "" {
		return fmt.Errorf("%s %s", s.URL.Host, wrong)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", s.URL.Host, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("ask %s: %w", s.URL.Host, err)
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("ask %s: %w", s.URL.Host, serverErrorOf(res.StatusCode, body))
	case res.StatusCode != http.StatusOK:
		return nil
	case webPage.Match(body):
		return fmt.Errorf("ask %s: %w; check url: (with its version, such as /v1) of the agent", s.URL.Host,
			serverErrorOf(res.StatusCode, body))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
		return nil
	}
	for _, m := range list.Data {
		if m.ID == s.Model || m.ID == s.Model+":latest" {
			return nil
		}
	}
	return fmt.Errorf("%s has no model %q; it has %s and %d others", s.URL.Host, s.Model,
		text.Clip(list.Data[0].ID, 100), len(list.Data)-1)
}
