package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/postgres"
)

// asks is a flow with one agent.
func asks(agent string) string {
	return `version: 1
name: asks
roles: {one: {description: looks around, access: write, agent: ` + agent + `}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END}}
`
}

// runs is an agent that runs a script of the shell, with some more settings.
func runs(script, more string) string {
	return fmt.Sprintf("{kind: command, command: [sh, -c, %q]%s}", script, more)
}

// asksFor is an agent that sends a request of HTTP to a host and port, as bash names them, and prints the answer.
func asksFor(to, url, more string) string {
	return "{kind: command, command: [bash, -c, 'exec 3<>/dev/tcp/" + to + " && printf \"GET " + url +
		" HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3']" + more + "}"
}

// TestWorkerIsolates has agents on a worker look, one channel at a time, for what the worker has. The worker is not
// root, and has the role that migrate --worker grants.
func TestWorkerIsolates(t *testing.T) {
	w := isolate(t, "apart")
	t.Run("agents", func(t *testing.T) { w.agents(t) })
	t.Run("a row", func(t *testing.T) { w.rows(t) })
	t.Run("directories that agents must not see", func(t *testing.T) {
		for _, dir := range []string{filepath.Join(w.home, ".ssh"), w.dir, "/", w.places} {
			w.must(os.WriteFile(w.config, []byte("team: {directories: ["+dir+"]}\n"), 0o644))
			worker := w.worker(w.apart, "--name", "second")
			out, _ := worker.CombinedOutput()
			if worker.ProcessState.ExitCode() != 2 || !strings.Contains(string(out),
				"team.directories: "+dir+": agents must not see") {
				t.Errorf("%s: exit %d: %s", dir, worker.ProcessState.ExitCode(), out)
			}
		}
	})
}

// agents has agents look for canaries, all at once.
func (w *isolated) agents(t *testing.T) {
	clean := func(t *testing.T, out string) {
		t.Helper()
		if strings.Contains(out, w.canary) {
			t.Errorf("a canary is seen:\n%s", out)
		}
	}
	var sent atomic.Int64 // requests with a canary
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		for _, value := range r.Header {
			if strings.Contains(strings.Join(value, " "), w.canary) {
				sent.Add(1)
			}
		}
		http.Error(out, "no", http.StatusUnauthorized)
	}))
	t.Cleanup(func() { // once all are done
		server.Close()
		if sent.Load() > 0 {
			t.Error("the server of a model got a canary")
		}
	})
	model := "{kind: model, model: any, url: " + server.URL + "/v1"
	for name, agent := range map[string]string{
		"pass":             runs("env", ", pass: [PGPASSWORD]"),
		"pass by pattern":  runs("env", ", pass: [AW*]"),
		"pass any":         runs("env", ", pass: [P*, T*]"),
		"pass of Temporal": runs("env", ", pass: [TEMPORAL_API_KEY]"),
		"env":              runs("env", ", env: {PLAIT_OTHER: mine}"),
		"keyEnv":           model + ", keyEnv: PGPASSWORD}",
		"sandbox.pass":     model + ", sandbox: {pass: [AWS_*]}}",
		"sandbox.env":      model + ", sandbox: {env: {PGUSER: mine}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := w.run(t, w.work, asks(agent))
			clean(t, out)
			if !strings.Contains(out, "not given to agents: it belongs to plaitd's access to the record") {
				t.Errorf("the person does not see why:\n%s", out)
			}
		})
	}
	for name, dir := range map[string]string{
		"keys": filepath.Join(w.home, ".ssh"), "logins": filepath.Join(w.home, ".codex"),
		"configuration": filepath.Dir(w.config),
		"places":        w.places, "another task": filepath.Join(w.places, "tasks", "work", other),
	} {
		t.Run("in the directory of "+name, func(t *testing.T) {
			t.Parallel()
			out := w.run(t, dir, asks(runs("cat * */*; echo was here > was-here", "")), "-d")
			clean(t, out)
			if !strings.Contains(out, "is not in a Git repository: only workers whose configuration names it take the task") {
				t.Errorf("the person does not see why:\n%s", out)
			}
			w.hears(t, dir+`\"`, "not a directory of this worker")
			if _, err := os.Stat(filepath.Join(dir, "was-here")); err == nil {
				t.Error("the agent wrote there")
			}
		})
	}
	t.Run("in a directory that it takes", func(t *testing.T) {
		t.Parallel()
		if out := w.run(t, w.open, asks(runs("echo in $PWD; echo was here > was-here; cat "+w.store, ""))); !strings.Contains(
			out, "in "+w.open) {
			t.Errorf("the person sees:\n%s", out)
		}
		if got, err := os.ReadFile(filepath.Join(w.open, "was-here")); string(got) != "was here\n" {
			t.Errorf("the agent left %q, %v", got, err)
		}
	})
	t.Run("a program before the attempt", func(t *testing.T) {
		t.Parallel()
		leak, evil := filepath.Join(w.home, "leak"), filepath.Join(w.dir, "evil")
		w.must(os.WriteFile(evil, []byte("#!/bin/sh\necho 2.1.330\n[ $HOME = "+w.home+" ] && cat "+w.store+" > "+
			""+leak+"\n:\n"), 0o755))
		out := w.run(t, w.work, asks("{kind: claude, path: "+evil+", env: {ANTHROPIC_API_KEY: any}}"))
		clean(t, out)
		if got, err := os.ReadFile(leak); err == nil {
			t.Errorf("it ran outside the cell, and found %q", got)
		}
	})
	t.Run("what the worker says of itself", func(t *testing.T) {
		t.Parallel()
		w.mu.Lock()
		at := regexp.MustCompile(`http://([^/]+)/metrics`).FindStringSubmatch(w.said.String())
		w.mu.Unlock()
		if at == nil {
			t.Fatal("the worker says no address")
		}
		host, port, _ := strings.Cut(at[1], ":")
		for how, tt := range map[string]struct{ to, path, more, says string }{
			"directly":    {host + "/" + port, "/metrics", "", "Connection refused"},
			"by a proxy":  {"127.0.0.1/4950", at[0], "", "agents reach it only if"},
			"by its name": {"127.0.0.1/4950", "http://localhost:" + port + "/metrics", ", private: [localhost]", "403 Forbidden"},
		} {
			out := w.run(t, w.work, asks(asksFor(tt.to, tt.path, tt.more)))
			if strings.Contains(out, "plait_worker") || !strings.Contains(out, tt.says) {
				t.Errorf("an agent reads the metrics %s:\n%s", how, out)
			}
		}
		if os.Geteuid() == 0 { // the worker is another user
			if got := get(t, at[0]); !strings.Contains(got, "plait_worker_drives_total") {
				t.Errorf("the metrics are\n%s", got)
			}
		}
	})
	t.Run("the network", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.2:0")
		w.must(err)
		here := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
			func(out http.ResponseWriter, r *http.Request) { io.WriteString(out, "served "+r.URL.Path) })}}
		here.Start()
		t.Cleanup(here.Close)
		database, err := url.Parse(w.url)
		w.must(err)
		const proxy = "127.0.0.1/4950"
		for _, tt := range []struct{ to, url, private, says string }{
			{proxy, here.URL + "/named", ", private: [127.0.0.2]", "served /named"},
			{proxy, here.URL, "", "127.0.0.2 is this machine"},
			{proxy, "http://169.254.169.254/latest/", "", "169.254.169.254 is a link-local address"},
			{proxy, "http://[::ffff:169.254.169.254]/", "", "is a link-local address"},
			{proxy, "http://10.0.0.1/", ", private: [10.0.0.2]", "10.0.0.1 is a private address"},
			{proxy, "http://" + database.Host + "/", "", "agents reach it only if"},
			{strings.ReplaceAll(database.Host, ":", "/"), "/", ", private: [" + database.Hostname() + "]", "Connection refused"},
			{"169.254.169.254/80", "/", "", "Network is unreachable"},
		} {
			if out := w.run(t, w.work, asks(asksFor(tt.to, tt.url, tt.private))); !strings.Contains(out, tt.says) {
				t.Errorf("%s at %s:\n%s", tt.url, tt.to, out)
			}
		}
	})
	t.Run("a recording", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(w.home, ".ssh", "recording.json")
		w.must(os.WriteFile(file, []byte(`{"attempts": [{"role": "one", "output": "`+w.canary+`", "plain": true, "status": `+
			`"done"}]}`), 0o644))
		w.own(file, w.user)
		out := w.run(t, w.work, asks("{kind: replay, recording: "+file+"}"))
		clean(t, out)
		if !strings.Contains(out, "read recording") {
			t.Errorf("the person does not see why:\n%s", out)
		}
	})
	t.Run("a scenario", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(w.home, ".ssh", "scenario.yaml")
		w.must(os.WriteFile(file, []byte("about: x\nturns: [{steps: [{items: [{answer: "+w.canary+"}]}]}]\n"), 0o644))
		w.own(file, w.user)
		out := w.run(t, w.work, asks("{kind: model}"), "--offline="+file)
		clean(t, out)
		if !strings.Contains(out, "a worker reads no file for it") {
			t.Errorf("the person does not see why:\n%s", out)
		}
	})
}

// rows changes rows of the record as whoever has the database's password can, so that they lead to what the worker has.
func (w *isolated) rows(t *testing.T) {
	s, err := postgres.Open(t.Context(), postgres.Config{URL: w.url})
	w.must(err)
	defer s.Close()
	// begin begins a task that no worker may take, and changes its row so that it may. The worker looks after a while.
	begin := func(change func(*store.Thread)) string {
		out := w.run(t, w.work, asks(runs("cat key */key; echo was here > was-here", "")), "-d", "--needs", "nothing")
		rows, err := s.Threads(t.Context(), store.ThreadFilter{Kind: store.KindRoot, Newest: true, Limit: 1})
		if err != nil || len(rows) == 0 {
			t.Fatalf("%v: %s", err, out)
		}
		row := rows[0]
		row.Options = bytes.Replace(row.Options, []byte(`,"needs":["nothing"]`), nil, 1)
		change(&row)
		w.must(s.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row, From: rows[0].State()}}}))
		return row.ID
	}
	ssh := filepath.Join(w.home, ".ssh")
	linked := begin(func(row *store.Thread) { row.Tree += "/link" })
	begun := map[string]string{}
	for name, change := range map[string]func(*store.Thread){
		"with a tree elsewhere":  func(row *store.Thread) { row.Workspace, row.Tree = w.open, ssh },
		"with a tree above":      func(row *store.Thread) { row.Workspace, row.Tree = w.open, w.open+"/../../.."+ssh },
		"with a workspace above": func(row *store.Thread) { row.Workspace, row.Tree = w.open+"/../../.."+ssh, "" },
		"with a workspace of a place": func(row *store.Thread) {
			row.Workspace, row.Tree = w.places+"/tasks/work/"+other,
				""
		},
		"with a relative workspace": func(row *store.Thread) { row.Workspace, row.Tree = ".ssh", "" },
		"of a strange task":         func(row *store.Thread) { row.Task = "../../.ssh" },
	} {
		begun[name] = begin(change)
	}
	for name, id := range begun {
		t.Run(name, func(t *testing.T) {
			w.hears(t, id, "not a directory of this worker")
			until(t, "the thread says so", func() bool {
				row, err := s.Thread(t.Context(), id)
				return err == nil && row.Reason != nil && row.Reason.Kind == store.ReasonWorker
			})
		})
	}
	t.Run("with a tree that is a link", func(t *testing.T) {
		for at := int64(0); ; {
			row, err := s.Thread(t.Context(), linked)
			if err == nil && row.Status == store.Blocked {
				if !strings.Contains(row.Reason.Message, "working tree") {
					t.Errorf("the person sees %q", row.Reason.Message)
				}
				return
			}
			if err == nil {
				at, err = s.Wait(t.Context(), at)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, dir := range []string{ssh, filepath.Join(w.places, "tasks", "work", other)} {
		if _, err := os.Stat(filepath.Join(dir, "was-here")); err == nil {
			t.Errorf("an agent wrote in %s", dir)
		}
	}
}
