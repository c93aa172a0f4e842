package forge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/sys/text"
)

// A LimitError reports that the forge answers no more for a while.
type LimitError struct{ Until time.Time }

func (e *LimitError) Error() string {
	return "the forge's rate limit is reached until " + e.Until.Local().Format("15:04:05")
}

// trouble is how long a forge is left alone that cannot be reached, or says that it is broken.
const trouble = 10 * time.Second

// Later reports whether what failed may succeed later, and when to try.
func Later(err error) (at time.Time, ok bool) {
	var limit *LimitError
	if errors.As(err, &limit) {
		return limit.Until, true
	}
	return time.Now().Add(trouble), errors.As(err, new(*url.Error))
}

// Access is how to reach a forge.
type Access struct {
	API   string // the address of the API
	Token string
}

// Client returns an HTTP client that sends the token to the host of the API and to no other one, whatever redirects
// say. scheme is what comes before the token. Proxies are those of the environment. An answer that the server is broken
// is an error, as if there were none.
func (a Access) Client(scheme string) (*http.Client, error) {
	u, err := url.Parse(a.API)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%q is no address of an API", redacted(a.API))
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && !(u.Scheme == "http" && ip != nil && ip.IsLoopback()) {
		return nil, fmt.Errorf("%s: a token is sent over https only", a.API)
	}
	return &http.Client{Transport: &bearer{u.Scheme, u.Host, scheme + " " + a.Token}, Timeout: time.Minute}, nil
}

// A bearer adds a token to the requests to one host.
type bearer struct{ scheme, host, header string }

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == b.scheme && req.URL.Host == b.host {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", b.header)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && res.StatusCode >= http.StatusInternalServerError {
		res.Body.Close()
		return nil, errors.New("the forge answers " + res.Status)
	}
	return res, err
}

// ReadEnd returns the end of what r has, as text.
func ReadEnd(r io.Reader) (string, error) {
	const most = 64 << 20
	var end []byte
	buf := make([]byte, MaxLog)
	for in := io.LimitReader(r, most); ; {
		n, err := in.Read(buf)
		if end = append(end, buf[:n]...); len(end) > 2*MaxLog {
			end = end[len(end)-MaxLog:]
		}
		if err == io.EOF {
			return text.Tail(strings.ToValidUTF8(string(end), "\uFFFD"), MaxLog), nil
		}
		if err != nil {
			return "", err
		}
	}
}
