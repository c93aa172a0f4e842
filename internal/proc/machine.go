package proc

import (
	"os"
	"strings"
)

// Machine returns the name of this machine and what tells this start of it from others, which is empty where
// the system does not say: a process's number and start mean something on one start of one machine only.
func Machine() (host, boot string) {
	host, _ = os.Hostname()
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return host, strings.TrimSpace(string(id))
}
