package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// actionToken is the token of the jobs of the tests, which no agent may see, and appToken is that of another app.
const (
	actionToken = "ghs_0123456789"
	appToken    = "ghs_9876543210"
)

// A job runs the steps of action.yml as GitHub's runner does: scripts with their environment, outputs, and files for
// what they tell each other. What uses another action is left out.
type job struct {
	t      *testing.T
	work   string
	env    map[string]string // of every step
	inputs map[string]string
	values map[string]string // what expressions may name
	forge  *actionForge
}

// newJob returns a job in a repository with files, for an event.
func newJob(t *testing.T, event, payload string, files map[string]string) *job {
	t.Helper()
	j := &job{t: t, work: tempDir(t), forge: newForge(t), inputs: map[string]string{}, values: map[string]string{}}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"temp", "user", "repository"} {
		if err := os.Mkdir(j.in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	j.env = scriptEnv(j.work)
	delete(j.env, "PLAIT_HOME")
	maps.Copy(j.env, map[string]string{
		"PATH": os.Getenv("PATH"), "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_TEMP": j.in("temp"),
		"GITHUB_WORKSPACE": j.in("repository"), "GITHUB_ACTION_PATH": root, "GITHUB_REPOSITORY": "ann/notes",
		"GITHUB_RUN_ID": "17", "GITHUB_SERVER_URL": "https://forge.example", "GITHUB_API_URL": j.forge.server.URL,
		"GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": j.in("event.json"), "GITHUB_STEP_SUMMARY": j.in("summary.md"),
	})
	if err := os.WriteFile(j.in("event.json"), []byte(payload), 0o644); err != nil {
		t.Fatal(err)
	}
	j.git("init", "-q")
	j.commit(files)
	return j
}

func (j *job) in(name string) string { return filepath.Join(j.work, name) }

func (j *job) git(args ...string) string {
	j.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = j.in("repository"), j.environ(nil)
	out, err := cmd.CombinedOutput()
	if err != nil {
		j.t.Fatalf("git %s: %v: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits files, as the commit of the event.
func (j *job) commit(files map[string]string) {
	j.t.Helper()
	for name, text := range files {
		name = filepath.Join(j.in("repository"), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			j.t.Fatal(err)
		}
	}
	j.git("add", ".")
	j.git("commit", "-qm", "A change")
	j.env["GITHUB_SHA"] = j.git("rev-parse", "HEAD")
}

func (j *job) environ(more map[string]string) (env []string) {
	all := maps.Clone(j.env)
	maps.Copy(all, more)
	for key, value := range all {
		env = append(env, key+"="+value)
	}
	return env
}

var actionExpression = regexp.MustCompile(`\$\{\{ (.*?) \}\}`)

// expand replaces expressions. Those of action.yml are names, and one choice.
func (j *job) expand(text string) string {
	return actionExpression.ReplaceAllStringFunc(text, func(found string) string {
		name := actionExpression.FindStringSubmatch(found)[1]
		if name == "inputs.comment == 'true' && inputs.token || ''" {
			if j.values["inputs.comment"] != "true" {
				return ""
			}
			name = "inputs.token"
		}
		value, ok := j.values[name]
		if !ok && !strings.HasPrefix(name, "steps.") {
			j.t.Errorf("action.yml names %s", name)
		}
		return value
	})
}

// An actionFile is what the tests read of action.yml.
type actionFile struct {
	Inputs map[string]struct {
		Default  string
		Required bool
	}
	Runs struct{ Steps []actionStep }
}

type actionStep struct {
	ID, Name, If, Shell, Run, Uses string
	Env                            map[string]string
}

// run runs the action, and returns what its steps print and the exit code of the one that ended it.
func (j *job) run(inputs map[string]string) (said string, code int) {
	j.t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "action.yml"))
	var file actionFile
	if err == nil {
		err = yaml.Unmarshal(data, &file)
	}
	if err != nil {
		j.t.Fatal(err)
	}
	j.values = map[string]string{"github.token": actionToken, "vars.PLAIT_MIRROR": ""}
	for name := range inputs {
		if _, ok := file.Inputs[name]; !ok {
			j.t.Errorf("the action has no input %s", name)
		}
	}
	given := maps.Clone(inputs)
	for name, in := range file.Inputs {
		value, ok := given[name]
		if !ok && in.Required {
			j.t.Errorf("input %s is missing", name)
		} else if !ok {
			value = in.Default
		}
		j.values["inputs."+name] = j.expand(value)
	}
	for _, step := range file.Runs.Steps {
		if name, ok := strings.CutSuffix(step.If, " != ''"); ok && j.values[name] == "" || step.Uses != "" {
			continue
		} else if !ok && step.If != "" {
			j.t.Fatalf("step %s: what does %q mean?", step.Name, step.If)
		}
		out, exit := j.step(step)
		if said += out; exit != 0 {
			return said, exit
		}
	}
	return said, 0
}

// step runs a script, and reads what it leaves for those that follow.
func (j *job) step(step actionStep) (said string, code int) {
	j.t.Helper()
	env := map[string]string{"GITHUB_OUTPUT": j.in("output"), "GITHUB_PATH": j.in("path")}
	for _, name := range env { // as empty as the runner makes them
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			j.t.Fatal(err)
		}
	}
	for key, value := range step.Env {
		env[key] = j.expand(value)
	}
	if step.Shell != "sh" || strings.Contains(step.Run, "${{") {
		j.t.Fatalf("step %s: an expression in a script is code for whoever can write its value", step.Name)
	}
	cmd := exec.Command("sh", "-e", "-c", step.Run)
	cmd.Dir, cmd.Env = j.in("repository"), j.environ(env)
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		j.t.Fatal(err)
	}
	for _, line := range readLines(j.in("output")) {
		name, value, _ := strings.Cut(line, "=")
		j.values["steps."+step.ID+".outputs."+name] = value
	}
	for _, dir := range readLines(j.in("path")) {
		j.env["PATH"] = dir + string(filepath.ListSeparator) + j.env["PATH"]
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// readLines returns the lines of a file, none if there is no such file.
func readLines(name string) []string {
	data, _ := os.ReadFile(name)
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// savedFiles returns the files that a page tells its readers to save.
func savedFiles(t *testing.T, page string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "howto", page))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	saved := regexp.MustCompile("(?s)Save this as `([^`]+)`:\n\n```\\w+\n(.*?\n)```\n")
	for _, m := range saved.FindAllSubmatch(data, -1) {
		files[string(m[1])] = string(m[2])
	}
	return files
}

// workflow returns the inputs of the action in the workflow among files.
func workflow(t *testing.T, files map[string]string) (inputs map[string]string) {
	t.Helper()
	var file struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]string
			}
		}
	}
	for name, text := range files {
		if !strings.HasPrefix(name, ".github/workflows/") {
			continue
		}
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
	}
	for _, job := range file.Jobs {
		for _, step := range job.Steps {
			if strings.HasPrefix(step.Uses, "plait-run/plait@") {
				return step.With
			}
		}
	}
	t.Fatal("no workflow uses the action")
	return nil
}

// TestActionOfHowtos runs the workflows of the how-tos: twice, since a comment is made once.
func TestActionOfHowtos(t *testing.T) {
	for page, c := range map[string]struct {
		notes    string
		code     int
		says     string
		comments int
	}{
		"ci.md":            {"See http://example.org\n", 0, "", 1},
		"nightly-audit.md": {"DRAFT: more\n", 1, "::error file=notes.md,line=1::DRAFT: more\n", 0},
		"review.md":        {"A line. \n", 1, "::error file=notes.md,line=1::trailing whitespace.\n", 1},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			files := savedFiles(t, page)
			inputs := workflow(t, files)
			event, payload := "pull_request", pull
			if c.comments == 0 {
				event, payload = "schedule", `{}`
			}
			files["notes.md"] = "Begun.\n"
			j := newJob(t, event, payload, files)
			j.commit(map[string]string{"notes.md": c.notes})
			for range 2 {
				said, code := j.run(inputs)
				if code != c.code || !strings.Contains(said, c.says) ||
					strings.Contains(said, "::error file") != (c.says != "") {
					t.Errorf("exit code %d, want %d and %q\n%s", code, c.code, c.says, said)
				}
				if info, err := os.Stat(j.values["steps.run.outputs.bundle"]); err != nil || info.Size() == 0 {
					t.Errorf("the task was not kept: %v", err)
				}
			}
			if len(j.forge.comments) != c.comments {
				t.Fatalf("there are %d comments, want %d: %v", len(j.forge.comments), c.comments, j.forge.comments)
			}
			summary, err := os.ReadFile(j.env["GITHUB_STEP_SUMMARY"])
			if err != nil || !strings.Contains(string(summary), strings.TrimSpace(c.notes)) && page != "review.md" {
				t.Errorf("the summary is %s, %v", summary, err)
			}
			lintWorkflow(t, files)
		})
	}
}

// lintWorkflow checks the workflow among files, and its inputs against action.yml, with actionlint.
func lintWorkflow(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.HasPrefix(name, ".github/") {
			text = strings.Replace(text, "plait-run/plait@v1", "./", 1)
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644),
				os.Symlink(filepath.Join(root, "action.yml"), filepath.Join(dir, "action.yml")),
				os.Mkdir(filepath.Join(dir, ".git"), 0o755)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "tool", "-modfile="+filepath.Join(root, "tools", "lint", "go.mod"), "actionlint",
				"-shellcheck=", "-pyflakes=", name)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("actionlint: %v\n%s", err, out)
			}
		}
	}
}

// TestActionRefusesForks checks that nothing is run where secrets are at hand, but the commit of the event.
func TestActionRefusesForks(t *testing.T) {
	t.Parallel()
	files := savedFiles(t, "nightly-audit.md")
	inputs := workflow(t, files)
	j := newJob(t, "pull_request_target", pull, files)
	for range 2 { // the second finds what the first left
		if said, code := j.run(inputs); code != 0 {
			t.Fatalf("its own code: exit code %d\n%s", code, said)
		}
	}
	refused := func() {
		t.Helper()
		for _, event := range []string{"pull_request_target", "workflow_run", "issue_comment", "discussion_comment"} {
			j.env["GITHUB_EVENT_NAME"] = event
			said, code := j.run(inputs)
			if code != 2 || !strings.HasPrefix(said, "::error::") || strings.Count(said, "\n") != 1 {
				t.Errorf("%s: exit code %d\n%s", event, code, said)
			}
		}
	}
	own := j.env["GITHUB_SHA"]
	for _, name := range []string{"AGENTS.md", ".plait/flows/other.yaml", ".plait/flows/night.yaml"} {
		name = j.in("repository/" + name)
		if err := os.WriteFile(name, []byte("not ours"), 0o644); err != nil {
			t.Fatal(err)
		}
		refused()
		if filepath.Base(name) != "night.yaml" {
			os.Remove(name)
		}
	}
	j.commit(nil)
	j.env["GITHUB_SHA"] = own
	refused()
}

// TestActionInstalls checks that the action installs what its mirror has, and nothing whose sum is wrong.
func TestActionInstalls(t *testing.T) {
	t.Parallel()
	j := newJob(t, "push", `{}`, savedFiles(t, "nightly-audit.md"))
	plait, err := exec.LookPath("plait")
	if err != nil {
		t.Fatal(err)
	}
	name := "plait-v1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH
	script := fmt.Sprintf(`mkdir -p %[1]s/man %[1]s/completions; cd %[1]s
		touch man/plait.1.gz completions/plait completions/_plait completions/plait.fish
		printf '#!/bin/sh\necho "$*" >> %[2]s/ran; exec %[3]s "$@"\n' > plait; chmod +x plait
		cd ..; tar -czf %[1]s.tar.gz %[1]s; sha256sum %[1]s.tar.gz > SHA256SUMS`, name, j.work, plait)
	mirror := j.in("mirror")
	if err := os.Mkdir(mirror, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = mirror
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(mirror)))
	defer server.Close()
	inputs := map[string]string{"flow": "night", "prompt": "Nightly audit", "mirror": server.URL}
	said, code := j.run(inputs)
	if code != 0 || !strings.Contains(strings.Join(readLines(j.in("ran")), "\n"), "run night --id ") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	f, err := os.OpenFile(filepath.Join(mirror, name+".tar.gz"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("more")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if said, code := j.run(inputs); code != 1 || !strings.Contains(said, "nothing was installed") {
		t.Errorf("with another archive: exit code %d\n%s", code, said)
	}
}
