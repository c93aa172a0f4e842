package cli

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// The user of a connection's other end is found through the kernel's tables, in which addresses look strange.
func TestSocketUser(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("there is no /proc here")
	}
	for _, c := range []struct{ network, listen, dial string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"}, {"tcp6", "[::1]:0", "::1"}, {"tcp", "[::]:0", "127.0.0.1"},
	} {
		l, err := net.Listen(c.network, c.listen)
		if err != nil && c.network != "tcp4" {
			t.Logf("no %s here: %v", c.listen, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		asks, err := net.Dial("tcp", net.JoinHostPort(c.dial, port))
		if err != nil {
			t.Fatal(err)
		}
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		from := netip.MustParseAddrPort(served.RemoteAddr().String())
		to := netip.MustParseAddrPort(served.LocalAddr().String())
		if user, found := socketUser(from, to); !found || user != os.Geteuid() {
			t.Errorf("%s: the user is %d, %v", c.listen, user, found)
		}
		if servesPeer(from.String(), to.String()) {
			t.Errorf("%s: a process of the worker's user is served", c.listen)
		}
		asks.Close()
		if _, found := socketUser(from, to); found {
			t.Errorf("%s: a closed connection still has a user", c.listen)
		}
		if servesPeer(from.String(), to.String()) {
			t.Errorf("%s: an unknown process of this machine is served", c.listen)
		}
	}
	if !servesPeer("192.0.2.1:4000", "192.0.2.2:9090") {
		t.Error("another machine is not served")
	}
}
