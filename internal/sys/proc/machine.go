package proc

import (
	"os"
	"strings"
)

// Machine returns the name of this machine and the id of its current boot, which is empty where the system has
// none: a process id and start time are meaningful only within one boot of one machine.
func Machine() (host, boot string) {
	host, _ = os.Hostname()
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return host, strings.TrimSpace(string(id))
}
