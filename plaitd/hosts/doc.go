// Package hosts has only tests: whole runs, by several hosts on one record. A host is a
// process with its own home, workspace and host name, all on this machine.
package hosts
