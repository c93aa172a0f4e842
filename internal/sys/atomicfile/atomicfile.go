// Package atomicfile replaces files as a whole. Whoever reads a file sees what it held before or what it holds now,
// never a part. A link or a FIFO that has the name is replaced, not followed or opened.
//
// The new file is written next to the old one, under a random name, and renamed. It has the permissions that are
// given, less the umask. The library github.com/google/renameio does the same, but syncs each file: views that can be
// drawn again need not wait for the disk.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces a file, or creates it, with data. It is not synced: after a power cut the file may be empty.
func Write(name string, data []byte, perm fs.FileMode) error {
	return Replace(name, perm, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace is like Write, for what write writes. If write returns an error, Replace returns it, and what has the name
// stays as it is. If write ends with f.Sync, a power cut leaves the old or the new file.
func Replace(name string, perm fs.FileMode, write func(f *os.File) error) error {
	return replace(disk{}, name, perm, write)
}

// ReplaceIn is like Replace, for a file below root.
func ReplaceIn(root *os.Root, name string, perm fs.FileMode, write func(f *os.File) error) error {
	return replace(root, name, perm, write)
}

// suffix ends the names of temporary files, which begin with a dot.
const suffix = ".new"

// IsTemp reports whether a file's name, without its directory, is that of a temporary file. There is one while a file
// is replaced, and after a crash.
func IsTemp(name string) bool { return strings.HasPrefix(name, ".") && strings.HasSuffix(name, suffix) }

// A place is where names lead to files: an [os.Root], or the disk.
type place interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Rename(from, to string) error
	Remove(name string) error
}

type disk struct{}

func (disk) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(name string) error     { return os.Remove(name) }

func replace(in place, name string, perm fs.FileMode, write func(*os.File) error) error {
	// The name is random, so that no two processes write the same file and no other program can create it first.
	temp := filepath.Join(filepath.Dir(name), "."+strings.ToLower(rand.Text())+suffix)
	f, err := in.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = in.Rename(temp, name)
	}
	if err != nil {
		in.Remove(temp)
	}
	return err
}
