package taskdir

import (
	"encoding/json"
	"os"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

const sessionFile = "session.json"

// A Session is an instance's session.json. A person can use it to continue the vendor's session
// without Plait.
type Session struct {
	Instance   string            `json:"instance"`
	Thread     string            `json:"threadId"`
	Parent     *store.Parent     `json:"parent"`
	ForkedFrom *store.ForkedFrom `json:"forkedFrom"`
	Adapter    string            `json:"adapter"` // name of the agent
	Cwd        string            `json:"cwd"`
	Sandbox    string            `json:"sandbox"` // in which its newest step ran
	Vendor     string            `json:"vendorSession"`
	VendorFrom *VendorTurn       `json:"vendorForkedFrom"`
	Home       string            `json:"codexHome"` // CODEX_HOME of its sessions, "" for none
}

// A VendorTurn is a point in a vendor's session.
type VendorTurn struct {
	Session string `json:"session"`
	Turn    string `json:"turn"` // "": its end
}

// about fills in the fields that come from a thread's row.
func (s *Session) about(row store.Thread, instance string) {
	s.Instance, s.Thread, s.Parent, s.ForkedFrom = instance, row.ID, row.Parent, row.ForkedFrom
	if s.Cwd = row.Tree; s.Cwd == "" {
		s.Cwd = row.Workspace
	}
}

// begin fills in what is known when an attempt begins, including the origin of a resumed session.
func (s *Session) begin(v agent.Vendor) {
	s.Home = v.Home
	switch {
	case v.From != "":
		s.VendorFrom = &VendorTurn{v.From, v.Turn}
	case v.Session == "" || v.Session != s.Vendor:
		s.VendorFrom = nil
	}
}

// drawSession brings session.json up to date with the store. It keeps what only the desk can set.
func drawSession(desk *os.Root, row store.Thread, last store.Attempt, sandbox string) error {
	var s Session
	if data, _, err := readPlain(desk, sessionFile, maxView); err != nil || json.Unmarshal(data, &s) != nil {
		s = Session{} // it is a view, and can be drawn again
	}
	s.about(row, last.Instance)
	s.Adapter = last.Agent
	if sandbox != "" {
		s.Sandbox = sandbox
	}
	if last.Session != "" {
		s.Vendor = last.Session
	}
	return drawJSON(desk, sessionFile, s)
}

// lockDesk locks a desk's session.json for writing. It gives up after patience: agents can hold
// the lock, and must not block Plait.
func lockDesk(desk *os.Root, patience time.Duration) (unlock func(), ok bool) {
	dir, err := desk.Open(".")
	if err != nil {
		return func() {}, false
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { dir.Close() }, true
		}
		if !time.Now().Before(end) {
			dir.Close()
			return func() {}, false
		}
	}
}
