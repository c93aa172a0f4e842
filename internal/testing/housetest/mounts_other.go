//go:build !linux

package housetest

// OwnMounts does nothing: only tests on Linux mount file systems.
func OwnMounts() {}
