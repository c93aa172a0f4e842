package web

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// secretBytes is the length of secrets, in bytes.
const secretBytes = 32

// newSecret returns a new secret.
func newSecret() string {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// keptSecret reads the secret in a file, creating both if necessary.
func keptSecret(file string) (string, error) {
	for range 2 {
		f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer f.Close()
			return readSecret(f)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the page's secret: %w", err)
		}
		// Another process may do the same. The file appears with complete content, and the first
		// one is kept.
		if err := placeSecret(file); err != nil {
			return "", fmt.Errorf("keep the page's secret: %w", err)
		}
	}
	return "", fmt.Errorf("keep the page's secret: %s keeps disappearing", file)
}

func readSecret(f *os.File) (string, error) {
	is, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the page's secret: %w", err)
	}
	if !is.Mode().IsRegular() || is.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("read the page's secret: %s is not a file that only its owner can read; remove it", f.Name())
	}
	data, err := io.ReadAll(io.LimitReader(f, 4*secretBytes))
	if err != nil {
		return "", fmt.Errorf("read the page's secret: %w", err)
	}
	s := strings.TrimSpace(string(data))
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != secretBytes {
		return "", fmt.Errorf("read the page's secret: %s does not hold one; remove it", f.Name())
	}
	return s, nil
}

// placeSecret creates a file with a new secret, unless it exists.
func placeSecret(file string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".ui.key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(newSecret() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), file); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
