package store

import (
	"encoding/base32"
	"strings"
)

// WorkerLease returns the name of the lease that a worker holds while it serves.
func WorkerLease(name string) string { return "worker-" + name }

// WorkerOf returns the name of the worker whose WorkerLease is called lease.
func WorkerOf(lease string) string { return strings.TrimPrefix(lease, WorkerLease("")) }

// UnableLease returns the name of the lease that a worker holds while it cannot work. It includes why, cut to what
// fits.
func UnableLease(name, why string) string {
	why = strings.ToValidUTF8(why[:min(len(why), maxUnable)], "")
	return UnableLeases + name + "." + unableText.EncodeToString([]byte(why))
}

// Unable returns which worker holds an UnableLease, and why it cannot work.
func Unable(lease string) (name, why string) {
	lease = strings.TrimPrefix(lease, UnableLeases)
	at := strings.LastIndexByte(lease, '.')
	if at < 0 {
		return lease, ""
	}
	said, _ := unableText.DecodeString(lease[at+1:]) // what another version wrote may be something else
	return lease[:at], Text(string(said))
}

// maxUnable limits a reason in the name of a lease, in bytes: with it the name has at most 200.
const maxUnable = 80

var unableText = base32.StdEncoding.WithPadding(base32.NoPadding)

// UnableLeases is how all names of UnableLease begin.
const UnableLeases = "unable-"
