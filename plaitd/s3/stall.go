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

// A steadyClient is an HTTP client whose requests fail if the server sends nothing for answerWait while its answer
// is read. The transport sees to what comes before: see steadyDial.
type steadyClient struct{ aws.HTTPClient }

func (c steadyClient) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	res, err := c.HTTPClient.Do(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	res.Body = &steadyBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel}
	return res, nil
}

// A steadyBody is an answer, each Read of which takes at most answerWait.
type steadyBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// errStalled reports that a server stopped sending in the middle of an answer.
var errStalled = errors.New("the server stopped sending")

func (b *steadyBody) Read(p []byte) (int, error) {
	limit := time.AfterFunc(answerWait, func() { b.cancel(errStalled) })
	n, err := b.ReadCloser.Read(p)
	limit.Stop()
	if err != nil && errors.Is(context.Cause(b.ctx), errStalled) {
		err = fmt.Errorf("%w for %s", errStalled, answerWait)
	}
	return n, err
}

func (b *steadyBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// A dialer makes a connection, as net.Dialer.DialContext does.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// steadyDial makes connections whose writes fail if the server takes nothing for answerWait. A limit on reads would
// end long uploads, since the server is silent meanwhile.
func steadyDial(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return steadyConn{conn}, nil
	}
}

type steadyConn struct{ net.Conn }

func (c steadyConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(answerWait)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
