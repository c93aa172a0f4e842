package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestLogFileIsBounded checks that many concurrent writers, each with the file open itself, lose no line of
// the newest files and keep only a limited number of files.
func TestLogFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	line := strings.Repeat("x", 4000)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			l := &logFile{dir: dir}
			if err := l.open(); err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			for i := range 3 * maxLogFile / 4 / len(line) * 2 {
				if _, err := fmt.Fprintf(l, "%d %d %s\n", w, i, line); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 || len(files) > keptLogs+1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil || len(data) > 2*maxLogFile {
			t.Errorf("%s has %d bytes, %v", name, len(data), err)
		}
		for l := range strings.Lines(string(data)) {
			if !strings.HasSuffix(l, line+"\n") || strings.Count(l, " ") != 2 {
				t.Fatalf("%s: a line is broken: %.40q", name, l)
			}
		}
	}
}
