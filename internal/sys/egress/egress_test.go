package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKind has an address of each kind that is not public, in each form that stands for one, and those next to them.
func TestKind(t *testing.T) {
	for kindOf, list := range map[string]string{
		"this machine": "127.0.0.1 127.255.255.254 ::1 0.0.0.0 :: 0.1.2.3 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1",
		"a link-local address": "169.254.169.254 169.254.0.0 fe80::1 fe80::1%1 febf::1 ::ffff:169.254.169.254 " +
			"64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::",
		"a private address": "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255 " +
			"fc00::1 fd00:ec2::254 ::ffff:10.0.0.1 64:ff9b::a00:1 64:ff9b:1::a00:1 2002:c0a8:1:: fec0::1",
		"a reserved address":  "192.0.0.192 198.18.0.1 198.19.255.255 240.0.0.1 255.255.255.255 ::7f00:1 2001:0:1::1",
		"a multicast address": "224.0.0.1 239.255.255.255 ff02::1",
		"": "1.1.1.1 9.255.255.255 11.0.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 169.253.255.255 " +
			"169.255.0.0 100.63.255.255 100.128.0.0 2606:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101::",
	} {
		for text := range strings.FieldsSeq(list) {
			ip := netip.MustParseAddr(text).Unmap().WithZone("")
			if got := kind(ip); got != kindOf {
				t.Errorf("%s is %q, want %q", text, got, kindOf)
			}
		}
	}
}

// TestNames has what definitions may name, and what that allows.
func TestNames(t *testing.T) {
	for _, bad := range []string{"", "db:5432", "https://db", "10.0.0.0/33", "10.1", "*.example.com", "a b", "[::1]"} {
		if (Allowed{bad}).Check() == nil {
			t.Errorf("%q passes", bad)
		}
	}
	good := Allowed{"db.internal", "10.1.0.0/16", "fd00::/8", "192.168.1.9"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		host, ip string
		want     bool
	}{
		{"db.internal", "10.9.9.9", true}, {"DB.internal.", "10.9.9.9", true}, {"x.db.internal", "10.9.9.9", false},
		{"other", "10.1.2.3", true}, {"other", "10.2.0.0", false}, {"other", "fd00::1", true}, {"other", "fe80::1", false},
		{"192.168.1.9", "192.168.1.9", true}, {"192.168.1.8", "192.168.1.8", false},
	} {
		if got := good.names(tt.host, netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%s at %s: %t", tt.host, tt.ip, got)
		}
	}
}

// hosts resolves the names of tests.
func hosts(ctx context.Context, host string) ([]netip.Addr, error) {
	all := map[string]string{"service.test": "127.0.0.2", "other.test": "127.0.0.2",
		"both.test":     "169.254.169.254 127.0.0.2",
		"metadata.test": "169.254.169.254", "lan.test": "10.1.2.3", "mapped.test": "::ffff:10.1.2.3",
		"database.test": "203.0.113.9", "alias.test": "203.0.113.9"}
	if all[host] == "" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for text := range strings.FieldsSeq(all[host]) {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

// open opens a proxy, and returns a client that uses it.
func open(t *testing.T, cfg Config, named ...string) (*Proxy, *http.Client) {
	t.Helper()
	if cfg.Resolve == nil {
		cfg.Resolve = hosts
	}
	p, err := Open(cfg, named)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.Socket())
		}, DisableKeepAlives: true,
	}}
}

// tunnel asks for a connection, and returns the answer and what follows it.
func tunnel(t *testing.T, p *Proxy, address string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	c, err := net.Dial("unix", p.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusOK {
		return c, in, ""
	}
	why, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return c, in, fmt.Sprint(answer.StatusCode, " ", strings.TrimSpace(string(why)))
}

// serve starts a server on another address of loopback, and returns its port.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestProxy has programs ask for hosts, with CONNECT and without.
func TestProxy(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "here") })
	for _, tt := range []struct {
		host  string
		named string // fields
		why   string // it is refused, "": it is not
	}{
		{"service.test", "service.test", ""},
		{"service.test", "127.0.0.2", ""},
		{"service.test", "127.0.0.0/8", ""},
		{"127.0.0.2", "127.0.0.2", ""},
		{"[::ffff:127.0.0.2]", "127.0.0.2", ""},
		{"both.test", "127.0.0.2", ""}, // only what is allowed is tried
		{"service.test", "", "service.test (127.0.0.2) is this machine"},
		{"other.test", "service.test", "other.test (127.0.0.2) is this machine"},
		{"127.0.0.2", "service.test", "127.0.0.2 is this machine"},
		{"[::ffff:127.0.0.2]", "", "(127.0.0.2) is this machine"},
		{"[::1]", "", "::1 is this machine"},
		{"169.254.169.254", "", "169.254.169.254 is a link-local address"},
		{"metadata.test", "", "metadata.test (169.254.169.254) is a link-local address"},
		{"lan.test", "service.test 10.2.0.0/16", "lan.test (10.1.2.3) is a private address"},
		{"mapped.test", "", "mapped.test (10.1.2.3) is a private address"},
		{"[64:ff9b::a9fe:a9fe]", "", "64:ff9b::a9fe:a9fe is a link-local address"},
		{"database.test", "", "database.test (203.0.113.9) is a server of the record"},
		{"alias.test", "10.0.0.0/8", "alias.test (203.0.113.9) is a server of the record"},
		{"nowhere.test", "nowhere.test", "no such host"},
	} {
		t.Run(tt.host+" "+tt.named, func(t *testing.T) {
			p, client := open(t, Config{Servers: []string{"database.test"}}, strings.Fields(tt.named)...)
			code := "403 "
			if tt.why == "no such host" {
				code = "502 "
			}
			c, in, refused := tunnel(t, p, tt.host+":"+port)
			if tt.why == "" && refused != "" || tt.why != "" &&
				(!strings.HasPrefix(refused, code) || !strings.Contains(refused, tt.why)) {
				t.Errorf("CONNECT: %q", refused)
			}
			if refused == "" {
				io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
				if got, err := io.ReadAll(in); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhere") {
					t.Errorf("through it: %q, %v", got, err)
				}
			}
			answer, err := client.Get("http://" + tt.host + ":" + port)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got, _ := io.ReadAll(answer.Body)
			if tt.why == "" && string(got) != "here" || !strings.Contains(string(got), tt.why) {
				t.Errorf("GET: %s %q", answer.Status, got)
			}
		})
	}
}

// TestRedirect has a server that may be reached lead to one that may not.
func TestRedirect(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	_, client := open(t, Config{}, "service.test")
	answer, err := client.Get("http://service.test:" + port)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusForbidden ||
		!strings.Contains(string(got), "169.254.169.254 is a link-local address") {
		t.Errorf("%s %q", answer.Status, got)
	}
}

// TestRebinding has a name whose address changes as soon as it was looked up.
func TestRebinding(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "here") })
	var looks atomic.Int64
	p, _ := open(t, Config{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		if looks.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.3")}, nil
	}}, "127.0.0.2")
	if c, _, refused := tunnel(t, p, "rebinding.test:"+port); refused != "" || looks.Load() != 1 {
		t.Errorf("%q after %d looks", refused, looks.Load())
	} else {
		c.Close()
	}
	if _, _, refused := tunnel(t, p, "rebinding.test:"+port); !strings.Contains(refused, "127.0.0.3") {
		t.Errorf("the changed address: %q", refused)
	}
}

// TestFurtherProxy goes through a proxy of the machine, which resolves names that the machine cannot.
func TestFurtherProxy(t *testing.T) {
	asked := make(chan string, 10)
	further := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
		if r.Host == "closed.test:80" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhere")
		c.Close()
	}))
	t.Cleanup(further.Close)
	at, err := url.Parse(further.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("ada", "secret")
	p, _ := open(t, Config{Proxy: func(*http.Request) (*url.URL, error) { return at, nil }})
	_, in, refused := tunnel(t, p, "elsewhere.test:80")
	if got, _ := io.ReadAll(in); string(got) != "here" || refused != "" {
		t.Errorf("%q %q", got, refused)
	}
	if got := <-asked; got != "CONNECT elsewhere.test:80 Basic YWRhOnNlY3JldA==" {
		t.Errorf("the further proxy is asked for %q", got)
	}
	if _, _, refused := tunnel(t, p, "closed.test:80"); !strings.Contains(refused, "403 Forbidden") {
		t.Errorf("refused by the further proxy: %q", refused)
	}
	<-asked
	for _, host := range []string{"169.254.169.254", "lan.test"} {
		if _, _, refused := tunnel(t, p, host+":80"); !strings.HasPrefix(refused, "403 ") {
			t.Errorf("%s: %q", host, refused)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the further proxy is asked for %q", <-asked)
	}
}

// TestClose ends what programs have open.
func TestClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, _ := open(t, Config{}, "127.0.0.2")
	_, in, refused := tunnel(t, p, l.Addr().String())
	if refused != "" {
		t.Fatal(refused)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection is still open: %v", err)
	}
	if _, err := net.Dial("unix", p.Socket()); err == nil {
		t.Error("the socket is still there")
	}
}
