package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDemo plays the person: on a terminal the page opens on the task, the question is answered and the
// approval given there, the result comes back to the terminal, and Ctrl-C leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Run("programs", func(t *testing.T) {
		playDemo(t, newPlace(t), "programs, because Codex is not installed")
	})
	t.Run("codex", func(t *testing.T) {
		there, err := needCodex() // an error if nothing may be skipped
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			t.Skip("SKIPPED: the real Codex is not installed")
		}
		dir, _ := realCodex()
		p := newPlace(t)
		p.env = append(p.env, "PATH="+dir+":"+os.Getenv("PATH"))
		playDemo(t, p, "Codex with a scripted model")
	})
}

func playDemo(t *testing.T, p *place, who string) {
	ours, theirs := terminal(t)
	cmd := p.command("demo", "--no-browser")
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	screen := &transcript{t: t, lines: bufio.NewReader(ours)}
	screen.until(who)
	dir := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(screen.until("project")), "project"))
	entry, err := url.Parse(strings.TrimSpace(screen.until("http://")))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	person := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := person.Get(entry.String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Request.URL.Path, "/tasks/") {
		t.Errorf("the address led to %s, %s; want the task", res.Request.URL.Path, res.Status)
	}
	api := "http://" + entry.Host + "/api/v1/gates"
	for range 2 {
		screen.until("needs you:")
		answerAsPerson(t, person, api)
	}
	screen.until("+Without numbers it prints: nothing")
	screen.until("-shift")
	screen.until("Press Ctrl-C here to end the demo")
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the project is gone while the demo runs: %v", err)
	}
	if _, err := ours.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, ours) // EIO once the other end is closed
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if left, err := os.ReadDir(filepath.Dir(filepath.Dir(dir))); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(p.work, "home")); !os.IsNotExist(err) {
		t.Errorf("the person's record was touched: %v", err)
	}
}

// answerAsPerson answers the open gates as the page's buttons do.
func answerAsPerson(t *testing.T, person *http.Client, api string) {
	res, err := person.Get(api)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var open struct {
		Data struct{ Gates []struct{ ID, Kind string } }
	}
	if err := json.NewDecoder(res.Body).Decode(&open); err != nil {
		t.Fatal(err)
	}
	for _, g := range open.Data.Gates {
		verb, body := "/approve", "{}"
		if g.Kind == "input" {
			verb, body = "/answer", `{"text":"nothing"}`
		}
		res, err := person.Post(api+"/"+g.ID+verb, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s of a %s: %s", verb, g.Kind, res.Status)
		}
	}
}

// A transcript is what a program wrote on a terminal, line by line.
type transcript struct {
	t     *testing.T
	lines *bufio.Reader
	seen  strings.Builder
}

// until reads up to the line that contains text, and returns it.
func (s *transcript) until(text string) string {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		s.seen.WriteString(line)
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			s.t.Fatalf("there is no %q on the terminal:\n%s", text, s.seen.String())
		}
	}
}
