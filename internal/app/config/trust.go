package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/lock"
)

// Trust stores the digest of each project file that commands were taken from.
// First use is consent; a file that has changed since needs it again. It is kept
// in PLAIT_HOME, where no agent can write.
type Trust struct {
	home  string
	known map[string]trusted
}

type trusted struct {
	Digest string `json:"digest"`
	Text   string `json:"text"` // what was agreed to, to show what changed
}

// A Changed is a file that differs from what was agreed to.
type Changed struct {
	File     string
	Old, New string
}

// OpenTrust reads what is trusted; if the file is missing, that is nothing yet.
func OpenTrust(home string) (*Trust, error) {
	t := &Trust{home: home, known: map[string]trusted{}}
	data, err := os.ReadFile(t.file())
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &t.known)
	}
	if err != nil {
		return nil, fmt.Errorf("read trusted files: %w", err)
	}
	return t, nil
}

// Check returns those of files (path → text as read) that have changed since they
// were trusted, in path order.
func (t *Trust) Check(files map[string][]byte) []Changed {
	var out []Changed
	for file, data := range files {
		if old, ok := t.known[file]; ok && old.Digest != digest(data) {
			out = append(out, Changed{file, old.Text, string(data)})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].File < out[j].File })
	return out
}

// Agreed reports whether a person agreed to all of files as they are.
func (t *Trust) Agreed(files map[string][]byte) bool {
	for file, data := range files {
		if t.known[file].Digest != digest(data) {
			return false
		}
	}
	return true
}

// Consent records that a person agreed to files as they are. It keeps what other processes have recorded since
// OpenTrust.
func (t *Trust) Consent(files map[string][]byte) error {
	if t.Agreed(files) {
		return nil
	}
	l, err := t.lock()
	if err == nil {
		err = errors.Join(t.add(files), l.Release())
	}
	if err != nil {
		return fmt.Errorf("record trusted files: %w", err)
	}
	return nil
}

// maxWait is how long Consent waits for other processes, each of which writes one small file.
const maxWait = 5 * time.Second

func (t *Trust) lock() (*lock.Lock, error) {
	locks := lock.Locks{Dir: filepath.Join(t.home, "locks")}
	for end := time.Now().Add(maxWait); ; time.Sleep(10 * time.Millisecond) {
		l, err := locks.Acquire("trusted")
		var held *lock.HeldError
		if !errors.As(err, &held) || time.Now().After(end) {
			return l, err
		}
	}
}

// add adds files to those that are trusted by now.
func (t *Trust) add(files map[string][]byte) error {
	now, err := OpenTrust(t.home)
	if err != nil {
		return err
	}
	t.known = now.known
	for file, data := range files {
		t.known[file] = trusted{digest(data), string(data)}
	}
	data, err := json.MarshalIndent(t.known, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(t.file(), 0o600, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Sync())
	})
}

func (t *Trust) file() string { return filepath.Join(t.home, "trusted.json") }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
