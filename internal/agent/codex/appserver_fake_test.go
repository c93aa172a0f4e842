package codex

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// madeCalls are the calls that are made of a server, after initialize.
var madeCalls = []string{
	"thread/start", "thread/resume", "thread/fork", "turn/start", "turn/interrupt", // the others may fail
	"thread/archive", "thread/unarchive", "thread/backgroundTerminals/clean", "turn/steer",
}

// fakeKey names the file with the script of a fake app-server.
const fakeKey = "APPTEST_SCRIPT"

// A fakeScript says what a fake app-server does. In its lines THREAD and TURN
// stand for the session and the turn, BIG for 6.3 million characters.
type fakeScript struct {
	Mute   []string          // it does not answer these
	Refuse map[string]string // it answers these with an error
	Exit   string            // it exits with code 3 on this message
	Shut   string            // it closes its stdout on this message
	Deaf   string            // it stops reading on this message
	Twice  bool              // it answers everything twice
	Flood  int               // bytes on stderr when the turn starts
	Before []string          // lines before the answer to turn/start
	Turn   []string          // lines after it; "await" waits for a line
	NoEnd  bool              // the turn does not end by itself
}

// It ends with syscall.Exit: under the race detector os.Exit takes a second
// longer.
func init() {
	file := os.Getenv(fakeKey)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "--version":
		fmt.Println("codex-cli " + Version)
		syscall.Exit(0)
	case len(os.Args) == 2 && os.Args[1] == "app-server" && file != "":
		fakeAppServer(file)
		syscall.Exit(0)
	}
}

type fakeServer struct {
	fakeScript
	in      *bufio.Reader
	out     io.Writer
	threads int
}

// fakeAppServer is an app-server that follows the script in a file. It logs what
// it reads and writes next to the file.
func fakeAppServer(file string) {
	var f fakeServer
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &f.fakeScript)
	}
	wrote, err1 := os.Create(file + ".wrote")
	read, err2 := os.Create(file + ".read")
	if err != nil || err1 != nil || err2 != nil {
		syscall.Exit(90)
	}
	f.in, f.out = bufio.NewReader(io.TeeReader(os.Stdin, read)), io.MultiWriter(os.Stdout, wrote)
	for f.next() {
	}
}

// next handles one line from the client.
func (f *fakeServer) next() bool {
	line, err := f.in.ReadBytes('\n')
	var m message
	if err != nil || json.Unmarshal(line, &m) != nil {
		return false
	}
	switch m.Method {
	case f.Exit:
		if m.Method != "" {
			syscall.Exit(3)
		}
	case f.Shut:
		os.Stdout.Close()
	case f.Deaf:
		time.Sleep(time.Minute)
	}
	if !m.IsRequest() {
		return true
	}
	var p struct {
		ThreadID string `json:"threadId"`
	}
	json.Unmarshal(m.Params, &p)
	thread := func(id string) string {
		return `{"thread":{"id":"` + id + `","path":""},"model":"fake","sandbox":{"type":"workspaceWrite"}}`
	}
	result := "{}"
	switch m.Method {
	case "thread/start", "thread/fork":
		f.threads++
		p.ThreadID = fmt.Sprintf("%s-thread-%d", strings.TrimPrefix(m.Method, "thread/"), f.threads)
		result = thread(p.ThreadID)
	case "thread/resume":
		result = thread(p.ThreadID)
	case "thread/read":
		result = `{"thread":{"id":"` + p.ThreadID + `","turns":[{"id":"a"},{"id":"b"},{"id":"c"}]}}`
	case "turn/start":
		result = `{"turn":{"id":"turn-1"}}`
		f.lines(f.Before, p.ThreadID)
	}
	if why := f.Refuse[m.Method]; why != "" {
		f.refuse(m, why)
		return true
	}
	if slices.Contains(f.Mute, m.Method) {
		return true
	}
	f.say(`{"id":` + string(m.ID) + `,"result":` + result + `}`)
	if f.Twice {
		f.say(`{"id":` + string(m.ID) + `,"result":` + result + `}`)
	}
	switch m.Method {
	case "turn/start":
		os.Stderr.Write(bytes.Repeat([]byte("noise noise noise\n"), f.Flood/18))
		f.lines(f.Turn, p.ThreadID)
		if !f.NoEnd {
			f.lines([]string{`{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN",` +
				`"status":"completed"}}}`}, p.ThreadID)
		}
	case "turn/interrupt":
		f.lines([]string{`{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN",` +
			`"status":"interrupted"}}}`}, p.ThreadID)
	}
	return true
}

func (f *fakeServer) refuse(m message, why string) {
	data, _ := json.Marshal(message{ID: m.ID, Error: &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: why}})
	f.say(string(data))
}

func (f *fakeServer) lines(lines []string, thread string) {
	for _, l := range lines {
		if l == "await" {
			f.next()
			continue
		}
		f.say(strings.NewReplacer("THREAD", thread, "TURN", "turn-1", "BIG", strings.Repeat("x", 6_300_000)).Replace(l))
	}
}

func (f *fakeServer) say(line string) { io.WriteString(f.out, line+"\n") }

// said is an agent's last message.
const said = `{"method":"item/completed","params":{"threadId":"THREAD","turnId":"TURN","item":{"type":"agentMessage",` +
	`"id":"m","text":"all done"}}}`

// A fakeLab is an agent whose Codex is a fake.
type fakeLab struct {
	*Agent
	host *Host
	file string
}

func newFake(t *testing.T, s fakeScript) *fakeLab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(jsonOf(t, s)), 0o600); err != nil {
		t.Fatal(err)
	}
	grace := 5 * time.Second // for answers on a slow, busy machine
	if s.Mute != nil || s.Deaf != "" || s.Shut != "" {
		grace = 300 * time.Millisecond
	}
	h := newHost(grace)
	a, err := h.Agent(Config{Path: self, Env: map[string]string{fakeKey: file, apiKey: "key"}})
	if err != nil {
		t.Fatal(err)
	}
	return &fakeLab{a, h, file}
}

// wrote and read return what the fake wrote, and what it read.
func (f *fakeLab) wrote(t *testing.T) string { return fileText(t, f.file+".wrote") }
func (f *fakeLab) read(t *testing.T) string  { return fileText(t, f.file+".read") }

func fileText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// called returns the names and parameters of the calls in requests.jsonl.
func called(t *testing.T, y *appTry) (methods []string, params map[string]map[string]any) {
	t.Helper()
	params = map[string]map[string]any{}
	for line := range strings.Lines(y.requests.String()) {
		var l struct {
			Dir     string
			Message struct {
				Method string
				Params map[string]any
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Dir == "out" && l.Message.Method != "" {
			methods = append(methods, l.Message.Method)
			params[l.Message.Method] = l.Message.Params
		}
	}
	return methods, params
}

var _ agent.Agent = (*fakeLab)(nil)
