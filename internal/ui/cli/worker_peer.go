package cli

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// notForAgents refuses requests of agents in cells. They share the machine's network and have the worker's user, and no
// way to another one. So on this machine only processes of other users are served.
func notForAgents(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if at == nil || !servesPeer(r.RemoteAddr, at.String()) {
			http.Error(out, "not for agents: on the worker's own machine, ask as another user", http.StatusForbidden)
			return
		}
		next.ServeHTTP(out, r)
	})
}

// servesPeer reports whether a connection from remote to here may come from someone who is no agent.
func servesPeer(remote, here string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	local, err := netip.ParseAddrPort(here)
	if err != nil {
		return false
	}
	if user, found := socketUser(peer, local); found {
		return user != os.Geteuid()
	}
	return !onMachine(peer.Addr()) // its socket should have been found
}

// onMachine reports whether an address belongs to this machine, or may.
func onMachine(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	all, err := net.InterfaceAddrs()
	return err != nil || ip.IsLoopback() || slices.ContainsFunc(all, func(a net.Addr) bool {
		own, err := netip.ParsePrefix(a.String())
		return err == nil && own.Addr().Unmap().WithZone("") == ip
	})
}

// socketUser returns the user of the socket on this machine that is connected from one address to another.
func socketUser(from, to netip.AddrPort) (user int, found bool) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			//  sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || !sameAddress(fields[1], from) || !sameAddress(fields[2], to) {
				continue
			}
			user, err := strconv.Atoi(fields[7])
			return user, err == nil && fields[9] != "0" // without an inode no process has it any more
		}
	}
	return 0, false
}

// sameAddress reports whether text is how /proc shows an address: each 32 bits of it in the machine's byte order, in
// hexadecimal, then the port.
func sameAddress(text string, a netip.AddrPort) bool {
	ip, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(n) != a.Port() {
		return false
	}
	b, err := hex.DecodeString(ip)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	shown, ok := netip.AddrFromSlice(b)
	return ok && shown.Unmap() == a.Addr().Unmap().WithZone("")
}
