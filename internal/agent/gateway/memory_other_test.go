//go:build !linux

package gateway

func keeper() {}
