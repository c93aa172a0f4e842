package s3_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/s3"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// versity returns where make soak installs a real S3 server; the Makefile has the same version.
func versity() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "plait", "versitygw", "1.8.0", "versitygw")
	_, err = os.Stat(program)
	return program, err
}

// TestVersity tests what a store needs against a real server, which checks signatures.
func TestVersity(t *testing.T) {
	program, err := versity()
	if err != nil {
		t.Skipf("NOT TESTED WITH A REAL S3 SERVER (make versitygw): %v", err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "record"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "--port", addr, "--quiet", "posix", "--sidecar", t.TempDir(), root)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3test.KeyID, "ROOT_SECRET_KEY="+s3test.Secret)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		if cmd.Wait(); t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	s3test.Login()
	open := func(prefix string) *s3.Bucket {
		c, err := s3.Parse("s3://record/" + prefix + "?endpoint=http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s3.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	buckets(t, open)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a wrong one")
	err = open("").Check(t.Context())
	if err == nil || strings.Contains(err.Error(), s3test.KeyID) {
		t.Errorf("with a wrong key: %v", err)
	}
	soak.Figure(t, "versitygw 1.8.0: put, get, list and delete, streams and files")
}
