//go:build !linux

package gateway

// guardMemory does nothing outside Linux.
func guardMemory() {}
