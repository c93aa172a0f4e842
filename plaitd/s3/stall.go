package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// A steadyClient is an HTTP client whose requests fail if the server sends nothing for wait while its answer is
// read. The transport sees to what comes before: see steadyDial.
type steadyClient struct {
	aws.HTTPClient
	wait time.Duration
}

func (c steadyClient) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	res, err := c.HTTPClient.Do(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	res.Body = &steadyBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, wait: c.wait}
	return res, nil
}

// A steadyBody is an answer, each Read of which takes at most wait.
type steadyBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   time.Duration
}

// errStalled reports that a server stopped sending in the middle of an answer.
var errStalled = errors.New("the server stopped sending")

func (b *steadyBody) Read(p []byte) (int, error) {
	limit := time.AfterFunc(b.wait, func() { b.cancel(errStalled) })
	n, err := b.ReadCloser.Read(p)
	limit.Stop()
	if err != nil && errors.Is(context.Cause(b.ctx), errStalled) {
		err = fmt.Errorf("%w for %s", errStalled, b.wait)
	}
	return n, err
}

func (b *steadyBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// steadyDial makes connections whose writes fail if the server takes nothing for wait. A limit on reads would end long
// uploads, since the server is silent meanwhile.
func steadyDial(dial func(ctx context.Context, network, addr string) (net.Conn, error), wait time.Duration) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return steadyConn{conn, wait}, nil
	}
}

type steadyConn struct {
	net.Conn
	wait time.Duration
}

func (c steadyConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
