// Package egress lets programs without a network reach the public internet, and nothing else unless it is named.
//
// It is a proxy for HTTP, with CONNECT for all that is encrypted (RFC 9110), on a socket. Laws:
//
//   - An address that is not public is refused, as are those of this machine and of the servers in Config: whatever
//     name it has, and whatever redirect leads to it. What is named in [Open] is allowed.
//   - A name is resolved once, and the address that was checked is the one that is connected to.
//
// It reads nothing of what is encrypted and keeps nothing.
package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Config configures proxies.
type Config struct {
	// Servers are hosts, names or addresses, that are refused unless they are named, even if they are public.
	Servers []string
	// Resolve returns the addresses of a host; nil: as this machine does.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Proxy returns the proxy through which this machine reaches the internet, nil for none; nil: there is none. Names
	// that this machine cannot resolve are left to it.
	Proxy func(*http.Request) (*url.URL, error)
}

// A Proxy serves the programs of one agent.
type Proxy struct {
	cfg     Config
	allowed Allowed
	dir     string
	server  *http.Server
	forward *httputil.ReverseProxy
	done    sync.WaitGroup

	mu    sync.Mutex
	ended bool
	open  map[net.Conn]bool // of CONNECT, which the server no longer knows
	busy  sync.WaitGroup    // who has them
}

// dialTime limits how long it takes to connect.
const dialTime = 30 * time.Second

// Open opens a proxy that also allows the hosts that are named.
func Open(cfg Config, named Allowed) (*Proxy, error) {
	dir, err := os.MkdirTemp("", "plait-") // a socket's path must be short
	if err != nil {
		return nil, fmt.Errorf("open proxy: %w", err)
	}
	p := &Proxy{cfg: cfg, allowed: named, dir: dir, open: map[net.Conn]bool{}}
	l, err := net.Listen("unix", p.Socket())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open proxy: %w", err), os.RemoveAll(dir))
	}
	silent := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1, ErrorLog: silent,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return p.dial(ctx, address)
		}, DisableKeepAlives: true, DisableCompression: true}}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: dialTime, ErrorLog: silent}
	p.done.Go(func() { _ = p.server.Serve(l) }) // ends with an error when closed
	return p, nil
}

// Socket returns the path of the socket.
func (p *Proxy) Socket() string { return filepath.Join(p.dir, "s") }

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.busy.Wait()
	p.done.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

// refuse answers with why there is no connection.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.As(err, new(*RefusedError)) {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.connect(w, r)
	case r.URL.Scheme != "http" || r.URL.Host == "":
		http.Error(w, "this is a proxy", http.StatusBadRequest)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

// connect joins a program to the host that it asks for.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	up, err := p.dial(r.Context(), r.Host)
	if err != nil {
		refuse(w, err)
		return
	}
	defer up.Close()
	down, sent, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // there is no one to tell
	}
	defer down.Close()
	if !p.keep(up, down) {
		return
	}
	defer p.drop(up, down)
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(down, up)
		closeWrite(down)
	}()
	io.Copy(up, sent) // what was read with the request, then the rest
	closeWrite(up)
	<-back
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// keep has Close end connections, unless it was called before.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	p.busy.Add(1)
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.open, c)
	}
	p.busy.Done()
}

// dial connects to an address, host:port, that a program may reach.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, end := context.WithTimeout(ctx, dialTime)
	defer end()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, lookErr := p.cfg.resolve(ctx, host)
	allowed, err := p.check(ctx, host, found)
	if err != nil {
		return nil, err
	}
	if p.cfg.Proxy != nil {
		via, err := p.cfg.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
		if err != nil {
			return nil, err
		}
		if via != nil {
			return through(ctx, via, address)
		}
	}
	if lookErr != nil {
		return nil, lookErr
	}
	var c net.Conn
	for _, ip := range allowed {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), port))
		if err == nil {
			return c, nil
		}
	}
	return nil, err
}

// through connects to an address through a further proxy.
func through(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	port := via.Port()
	if port == "" {
		port = "80"
	}
	if via.Scheme != "http" {
		return nil, fmt.Errorf("connect to proxy %s: only http proxies are known", via.Redacted())
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(via.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("connect to proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(via.User.Username(), password)
		ask.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	err = ask.Write(c)
	in := bufio.NewReader(c)
	if err == nil {
		var answer *http.Response
		if answer, err = http.ReadResponse(in, ask); err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect through proxy: %w", err), c.Close())
	}
	return buffered{c, in}, nil
}

// buffered is a connection of which something has been read ahead.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

func (b buffered) CloseWrite() error { closeWrite(b.Conn); return nil }
