package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startDetached is replaced at integration.
func startDetached(a *app, logs, id string) (<-chan error, error) {
	bin, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(filepath.Join(logs, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(bin, "resume", id)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	return over, nil
}
