package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Limits of the debug log.
const (
	maxLogFile  = 8 << 20 // approximate bytes of one file
	keptLogs    = 3       // older files
	debugLogDir = "logs"
)

// openLog opens the debug log: ids, kinds, counts and durations as JSON Lines, never what people or agents said, nor
// what is in the environment. Nothing depends on it: if it cannot be opened, the command runs without it.
func (a *app) openLog(home string) {
	var out io.Writer
	f := &logFile{dir: filepath.Join(home, debugLogDir)}
	if err := f.open(); err == nil {
		a.logFile, out = f, f
	} else if a.verbose {
		fmt.Fprintln(a.err, "plait: warning: cannot write the debug log:", err)
	}
	switch {
	case a.verbose && out != nil:
		out = io.MultiWriter(f, a.err)
	case a.verbose:
		out = a.err
	case out == nil:
		return
	}
	a.log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})).With("pid", os.Getpid())
	a.log.Info("command begun", "command", a.verb, "version", a.program.version())
}

// A logFile is a file to which several processes append whole lines. When it grows too large it is
// renamed; processes that have it open keep writing to the renamed file for a while.
type logFile struct {
	dir string

	mu   sync.Mutex
	file *os.File
	room int // bytes until the size is checked again
}

func (l *logFile) path(n int) string {
	if n == 0 {
		return filepath.Join(l.dir, "plait.jsonl")
	}
	return filepath.Join(l.dir, fmt.Sprintf("plait.%d.jsonl", n))
}

// open opens the newest file, after moving it aside if it is too large.
func (l *logFile) open() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := l.rotate(); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path(0), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.room = f, maxLogFile/8
	return nil
}

// rotate moves a file that is too large aside. Only one of several processes does it.
func (l *logFile) rotate() error {
	dir, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	info, err := os.Lstat(l.path(0))
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() < maxLogFile {
		return nil
	}
	for n := keptLogs; n > 0 && err == nil; n-- {
		if err = os.Rename(l.path(n-1), l.path(n)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// Write appends a line.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room -= len(line); l.room < 0 {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	return l.file.Write(line)
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
