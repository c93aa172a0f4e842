package agent

import (
	"io"
	"os"
)

// A Directory is that of one instance of an agent, open for one attempt, as whoever runs the agent has it.
type Directory interface {
	// Agent returns what the agent is given. The artifacts directory is empty and the logs are ready to
	// be appended to.
	Agent() Desk
	// Transcript and StderrLog return what this attempt added to the logs.
	Transcript() (io.ReadCloser, int64, error)
	StderrLog() (io.ReadCloser, int64, error)
	// Artifacts returns the artifacts directory, held open since it was made.
	Artifacts() *os.Root
	// Keep and Copy write files for the agent to read into the context directory, and Link gives one of
	// them a further name. Names are paths with slashes.
	Keep(name string, data []byte) error
	Copy(name string, from io.Reader) error
	Link(file, name string) error
	// Close notes the session and closes the directory.
	Close(session string) error
}

// A Vendor is what is known of the vendor's session when an attempt begins.
type Vendor struct {
	Home    string // where it is kept, see Homed
	Session string // that goes on, or ""
	From    string // that it branches off from, or ""
	Turn    string // of From, the last one it knows; "": all
	// Corrects says that only the answer of the attempt before is given again: what that left stays.
	Corrects bool
}

// An Attachment is a file or snippet that every agent of a task is handed, or what is wrong with one.
type Attachment struct {
	Line string // for the prompt
	Name string // in the context directory; "": there is no file
	Data []byte
}
