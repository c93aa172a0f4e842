// Package hosts has nothing but tests: whole runs, by several hosts on one record. A host is a
// process with a home, a workspace and a host name of its own, all on this machine.
package hosts
