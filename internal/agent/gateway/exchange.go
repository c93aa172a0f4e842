package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"syscall"

	"github.com/plait-run/plait/internal/agent"
)

// How much is held of a request and of its response, in bytes. A longer request is refused; the rest of a
// longer response is passed on but not kept. maxHeld is how many requests and responses are held at a time.
const (
	maxRequest = 64 << 20
	maxKept    = 64 << 20
	maxHeld    = 16
)

// An exchange is one request and its response.
type exchange struct {
	call  *agent.Call
	asked int64 // length of the request in bytes, -1 if not known
	meter meter
	keep  bool // whether to keep the response's body
	lost  bool // some of the response's body was not kept
	reply agent.Reply
}

// exchangeKey is the context key of a request's exchange.
type exchangeKey struct{}

// pass forwards a request, or answers it itself.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, path string) {
	x := &exchange{call: &agent.Call{Method: r.Method, Path: path, Type: r.Header.Get("Content-Type")},
		asked: r.ContentLength, meter: meter{add: g.add}}
	x.reply.Cut = true // until its end is seen
	if x.call.Generates() {
		g.reached.Store(true)
	}
	end := func(agent.Usage) {}
	if t := g.cfg.Traffic; t != nil {
		select {
		case g.held <- struct{}{}:
			defer func() { <-g.held }()
		case <-r.Context().Done():
			refuse(w, http.StatusServiceUnavailable, "the attempt is over")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, "the request cannot be read: "+err.Error())
			return
		}
		x.call.Body, x.asked, x.keep = g.cfg.Secrets.Bytes(body), int64(len(body)), true
		reply, err := t.Begin(r.Context(), x.call)
		switch {
		case err != nil:
			g.note(http.StatusPaymentRequired)
			refuse(w, refusal(path), "Plait did not send this request: "+err.Error())
			return
		case reply != nil:
			w.Header().Set("Content-Type", reply.Type)
			w.WriteHeader(reply.Status)
			w.Write(reply.Body) // fails if the agent has hung up
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), x.asked
		end = func(used agent.Usage) {
			x.reply.Body = g.cfg.Secrets.Bytes(x.reply.Body)
			t.End(x.call, x.reply, used)
		}
	}
	if x.call.Generates() {
		g.count(Usage{Requests: 1})
	}
	defer func() { // deferred because the proxy panics when the agent hangs up
		used := x.meter.used
		if x.call.Generates() && x.reply.Status/100 == 2 {
			used, x.reply.Estimated = x.meter.end(x.asked)
		}
		if x.reply.Status/100 == 2 {
			g.over(r, x, http.StatusBadGateway)
		}
		end(used)
	}()
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// over notes the outcome of a request whose response was passed on, or never began: failed is its status if there is
// no whole one.
func (g *Gateway) over(r *http.Request, x *exchange, failed int) {
	switch {
	case !x.call.Generates():
	case !x.reply.Cut:
		g.note(x.reply.Status)
	case r.Context().Err() == nil: // otherwise the agent hung up
		g.note(failed)
	}
}

// respond is called with a response before it is passed on.
func (g *Gateway) respond(res *http.Response) error {
	x := res.Request.Context().Value(exchangeKey{}).(*exchange)
	if res.StatusCode/100 != 2 {
		if x.call.Generates() {
			g.note(res.StatusCode) // before the agent can report it
		}
		g.clean(res)
	}
	x.reply.Status, x.reply.Type = res.StatusCode, res.Header.Get("Content-Type")
	res.Body = &watched{res.Body, x}
	return nil
}

// A watched body is read by the agent, counted and kept.
type watched struct {
	io.ReadCloser
	x *exchange
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	x := b.x
	if x.call.Generates() {
		x.meter.Write(p[:n]) // it never fails
	}
	room := maxKept - len(x.reply.Body)
	if x.keep {
		x.reply.Body = append(x.reply.Body, p[:min(n, room)]...)
	}
	x.lost = x.lost || n > room
	if err == io.EOF || x.meter.last { // an agent that has the last event may not read until EOF
		x.reply.Cut = x.lost
	}
	return n, err
}

// failure answers a request whose response never began.
func (g *Gateway) failure(w http.ResponseWriter, r *http.Request, err error) {
	code, status, why := "", http.StatusBadGateway, "could not be reached: "+cause(err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		code = Refused
	} else if wrong := Distrusted(err); wrong != "" {
		code, status, why = Untrusted, http.StatusBadRequest, wrong // agents would retry after 502
	}
	g.over(r, r.Context().Value(exchangeKey{}).(*exchange), status)
	refuseAs(w, status, code, "the model's server "+g.cfg.Secrets.Text(why))
}

// Refused is the code of the error that an agent gets when nothing listens at its model's address: retrying
// immediately is useless.
const Refused = "connection_refused"

// refusal returns the status on which agents stop immediately and do not retry.
func refusal(path string) int {
	if path == "/messages" {
		return http.StatusPaymentRequired
	}
	return http.StatusBadRequest
}

// refuse answers in the form that agents read: the Messages API's, which is also OpenAI's but for a field.
func refuse(w http.ResponseWriter, status int, why string) { refuseAs(w, status, "", why) }

func refuseAs(w http.ResponseWriter, status int, code, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(refusalBody(code, why)) // fails if the agent has hung up
}

func refusalBody(code, why string) []byte {
	said := map[string]any{"type": "plait_gateway", "message": why}
	if code != "" {
		said["code"] = code
	}
	return append(encoded(map[string]any{"type": "error", "error": said}), '\n')
}

// cause returns an error without the URL, which may contain a secret.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}
