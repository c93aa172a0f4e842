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
)

// Trust stores the digest of each project file that commands were taken from.
// First use is consent; a file that has changed since needs it again. It is kept
// in PLAIT_HOME, where no agent can write.
type Trust struct {
	file  string
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
	t := &Trust{file: filepath.Join(home, "trusted.json"), known: map[string]trusted{}}
	data, err := os.ReadFile(t.file)
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

// Consent records that a person agreed to files as they are.
func (t *Trust) Consent(files map[string][]byte) error {
	same := true
	for file, data := range files {
		if d := digest(data); t.known[file].Digest != d {
			t.known[file], same = trusted{d, string(data)}, false
		}
	}
	if same {
		return nil
	}
	data, err := json.MarshalIndent(t.known, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(t.file), ".trusted-*") // 0600
	if err != nil {
		return fmt.Errorf("record trusted files: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), t.file)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("record trusted files: %w", err)
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
