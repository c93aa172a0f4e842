package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxRefusal is how many bytes of a response that is not a success are passed on.
const maxRefusal = 1 << 20

// clean replaces known secrets in a response that is not a success, since some servers quote the key that they refuse.
// Such responses are short, so this one is read whole first. If it breaks off, so does what is passed on.
func (g *Gateway) clean(res *http.Response) {
	body, err := g.plain(res)
	body = g.cfg.Secrets.Bytes(body)
	for _, h := range []http.Header{res.Header, res.Trailer} { // the trailer is known once the body was read
		for _, values := range h {
			for i := range values {
				values[i] = g.cfg.Secrets.Text(values[i])
			}
		}
	}
	upstream, rest := res.Body, io.Reader(bytes.NewReader(body))
	if err != nil {
		rest = io.MultiReader(rest, broken{err})
		res.ContentLength = -1
		res.Header.Del("Content-Length")
	} else if res.Request.Method != http.MethodHead {
		res.ContentLength = int64(len(body))
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{rest, upstream}
}

// plain returns a response's body without its encoding, although none was asked for.
func (g *Gateway) plain(res *http.Response) ([]byte, error) {
	coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding")))
	from, err := io.Reader(res.Body), error(nil)
	switch {
	case coding == "", coding == "identity", res.Request.Method == http.MethodHead:
		return io.ReadAll(io.LimitReader(from, maxRefusal))
	case coding == "gzip" || coding == "x-gzip":
		from, err = gzip.NewReader(from)
	case coding == "deflate":
		from, err = zlib.NewReader(from)
	default: // a key could be in it
		from = bytes.NewReader(refusalBody("", fmt.Sprintf("the model's server answered with status %d, in the encoding %s, "+
			"which Plait cannot read", res.StatusCode, coding)))
		res.Header.Set("Content-Type", "application/json")
	}
	res.Header.Del("Content-Encoding")
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(from, maxRefusal))
}

// broken is the end of a body that broke off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
