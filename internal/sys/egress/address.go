package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Allowed are the hosts that may be reached although they are not public: names, addresses, and networks such as
// 10.1.0.0/16.
type Allowed []string

// Check returns an error unless each is a name, an address or a network.
func (a Allowed) Check() error {
	for _, one := range a {
		if _, err := netip.ParsePrefix(one); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(one); err == nil {
			continue
		}
		if one == "" || strings.ContainsAny(one, ":/*@ []\x00") || strings.Trim(one, "0123456789.") == "" {
			return fmt.Errorf("%q is not a host: give a name, an address, or a network such as 10.1.0.0/16", one)
		}
	}
	return nil
}

// names reports whether a host or the address it has is allowed.
func (a Allowed) names(host string, ip netip.Addr) bool {
	return slices.ContainsFunc(a, func(one string) bool {
		if network, err := netip.ParsePrefix(one); err == nil {
			return network.Contains(ip)
		}
		if named, err := netip.ParseAddr(one); err == nil {
			return named.Unmap() == ip
		}
		return strings.EqualFold(strings.TrimSuffix(one, "."), strings.TrimSuffix(host, "."))
	})
}

// A RefusedError says that a host must not be reached.
type RefusedError struct {
	Host string
	Addr netip.Addr
	Why  string // what kind of address it is
}

func (e *RefusedError) Error() string {
	at := e.Host
	if at != e.Addr.String() {
		at += " (" + e.Addr.String() + ")"
	}
	return fmt.Sprintf("%s is %s: agents reach it only if their definition names it under private", at, e.Why)
}

// check returns those of a host's addresses that may be reached, without duplicates. The error says why none may.
func (p *Proxy) check(ctx context.Context, host string, found []netip.Addr) (out []netip.Addr, err error) {
	own := p.cfg.servers(ctx)
	for _, ip := range found {
		ip = ip.Unmap().WithZone("")
		why := kind(ip)
		if slices.Contains(own, ip) {
			why = "a server of the record"
		}
		if why != "" && !p.allowed.names(host, ip) {
			err = &RefusedError{host, ip, why}
		} else if !slices.Contains(out, ip) {
			out = append(out, ip)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// resolve returns the addresses of a host.
func (c Config) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if c.Resolve != nil {
		return c.Resolve(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// servers returns the addresses of Servers.
func (c Config) servers(ctx context.Context) (all []netip.Addr) {
	for _, host := range c.Servers {
		found, _ := c.resolve(ctx, host) // one that has no address cannot be reached
		for _, ip := range found {
			all = append(all, ip.Unmap().WithZone(""))
		}
	}
	return all
}

// reserved are networks that are not public, besides those that netip knows: RFC 6890 and its registries.
var reserved = []struct {
	network netip.Prefix
	why     string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a private address"},  // RFC 6598, carriers and overlays
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},  // RFC 6890
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved address"}, // RFC 2544
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},   // RFC 1112, and broadcast
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private address"}, // RFC 8215, addresses of IPv4 in it
	{netip.MustParsePrefix("fec0::/10"), "a private address"},      // RFC 3879
	{netip.MustParsePrefix("::/96"), "a reserved address"},         // RFC 4291, addresses of IPv4 in it
	{netip.MustParsePrefix("2001::/32"), "a reserved address"},     // RFC 4380, addresses of IPv4 in it
}

// nat64 and sixToFour are networks of which each address stands for one of IPv4: RFC 6052 and RFC 3056.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// kind says what an address is that is not public, "" for one that is.
func kind(ip netip.Addr) string {
	switch b := ip.AsSlice(); {
	case nat64.Contains(ip):
		return kind(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(ip):
		return kind(netip.AddrFrom4([4]byte(b[2:6])))
	case ip.IsLoopback(), ip.IsUnspecified(), mine(ip):
		return "this machine"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsPrivate():
		return "a private address"
	case ip.IsMulticast():
		return "a multicast address"
	}
	for _, r := range reserved {
		if r.network.Contains(ip) {
			return r.why
		}
	}
	return ""
}

// mine reports whether an address is one of this machine's.
func mine(ip netip.Addr) bool {
	list, _ := net.InterfaceAddrs() // without them the public ones count as others'
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		network, err := netip.ParsePrefix(a.String())
		return err == nil && network.Addr().Unmap() == ip
	})
}
