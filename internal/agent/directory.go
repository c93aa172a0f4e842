package agent

import (
	"io"
	"os"
)

// A Directory is the directory of an instance, open for one attempt, for the code that runs the
// agent.
type Directory interface {
	// Agent returns the agent's part. The artifacts directory is empty and the logs are open for
	// appending.
	Agent() Desk
	// Transcript and StderrLog return what this attempt added to the logs.
	Transcript() (io.ReadCloser, int64, error)
	StderrLog() (io.ReadCloser, int64, error)
	// Artifacts returns the artifacts directory, held open since it was created.
	Artifacts() *os.Root
	// Keep and Copy write files into the context directory for the agent to read, and Link gives
	// one of them another name. Names are slash-separated paths.
	Keep(name string, data []byte) error
	Copy(name string, from io.Reader) error
	Link(file, name string) error
	// Close records the session and closes the directory.
	Close(session string) error
}

// A Vendor is what is known about the vendor's session when an attempt begins.
type Vendor struct {
	Home    string // its directory, see Homed
	Session string // to continue, or ""
	From    string // to branch off from, or ""
	Turn    string // of From, the last one to include; "": all
	// Corrects says that the attempt only corrects the answer of the previous one, whose artifacts
	// are kept.
	Corrects bool
}

// An Attachment is a file or snippet for every agent of a task, or the reason why there is none.
type Attachment struct {
	Line string // for the prompt
	Name string // in the context directory; "": there is no file
	Data []byte
}
