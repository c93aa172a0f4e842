// Package forge is what Plait does with a forge, such as GitHub: an issue in, a request out, and what people and checks
// say of it back.
//
// [Forge] is a forge by its promises; the packages below this one keep them for one kind each. [Next] decides what
// follows, from what the forge holds and what the record holds. [Branch], [Message] and [Body] say what is published.
// All of these are pure; [Publisher] does the deeds in a repository. Laws:
//
//   - What people write on a forge is text of strangers: it is fenced in a prompt, and steers agents only if its author
//     may write to the repository, or is named in the person's own configuration.
//   - What is made carries a mark of its task. Before something is made its mark is looked for, so that nothing is made
//     twice, whatever was killed and when.
//   - Text from agents mentions nobody, closes nothing and skips no check on the forge.
//   - Nothing is merged, and nothing that the forge has is overwritten or deleted.
package forge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// ErrUnknown is the error for something that the forge does not have, or does not show to the holder of the token.
var ErrUnknown = errors.New("the forge has nothing there, or the token may not see it")

// A Forge is the part of a forge that belongs to one repository. Methods may be called concurrently.
type Forge interface {
	// Me returns the account that the token belongs to.
	Me(ctx context.Context) (string, error)
	// Issue returns an issue with its comments, oldest first.
	Issue(ctx context.Context, number int) (Issue, error)
	// Request returns the newest request whose head is a branch of this repository. The error matches ErrUnknown if
	// there is none.
	Request(ctx context.Context, branch string) (Request, error)
	// Create makes a draft request.
	Create(ctx context.Context, d Draft) (Request, error)
	// Update replaces the title and the body of a request, which is for those only that nobody edited, see [Edited].
	Update(ctx context.Context, number int, title, body string) error
	// Comments returns all that was said about a request, oldest first: about the whole, about lines, and in reviews.
	Comments(ctx context.Context, number int) ([]Comment, error)
	// Reply answers a comment, in its own thread where the forge has threads.
	Reply(ctx context.Context, number int, to Comment, body string) error
	// Checks returns the checks of a commit.
	Checks(ctx context.Context, commit string) ([]Check, error)
}

// An Issue is what somebody asks for.
type Issue struct {
	Number   int
	Title    string
	Body     string
	URL      string
	Author   string
	Labels   []string
	Comments []Comment
}

// A Draft is a request that is not made yet. Its base is a branch, "" for the default one.
type Draft struct{ Branch, Base, Title, Body string }

// A Request is a pull request, or merge request.
type Request struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
	State  string `json:"state"` // one of Open, Closed, Merged
	Draft  bool   `json:"draft"`
	Head   string `json:"head"` // the commit
	Title  string `json:"title"`
	Body   string `json:"-"`
}

// States of a request.
const (
	Open   = "open"
	Closed = "closed"
	Merged = "merged"
)

// A Comment is what somebody said.
type Comment struct {
	ID     string // unique among those of a request
	Thread int64  // the forge's number of the thread that it belongs to, 0 for none
	Author string
	Writes bool // the author may write to the repository: an owner, a member or a collaborator
	Mine   bool // the author is the holder of the token
	Body   string
	URL    string
	File   string // that it is about, "" for the whole
	Line   int    // of the file as Commit has it; 0: the whole file, or a line that is not there any more
	Commit string
}

// A Check is a program that looked at a commit.
type Check struct {
	ID    string // unique among those of a commit, and another one each time that it runs
	Name  string
	State string // one of Pending, Passed, Failed
	URL   string
	Log   string // the end of what it printed, if it failed
	File  string // that it complains about, if it says so
	Line  int
}

// States of a check.
const (
	Pending = "pending"
	Passed  = "passed"
	Failed  = "failed"
)

// MaxLog is how much of a log is read, from its end, in bytes.
const MaxLog = 8 << 10

// A Place is where a repository is on a forge.
type Place struct{ Host, Owner, Name string }

// String returns the place for people.
func (p Place) String() string { return p.Host + "/" + p.Owner + "/" + p.Name }

// PlaceOf reads the address of a remote.
func PlaceOf(remote string) (Place, error) {
	bad := fmt.Errorf("%q is no repository of a forge: want a URL such as https://github.com/OWNER/NAME", redacted(remote))
	host, rest := "", ""
	if u, err := url.Parse(remote); err == nil && strings.Contains(remote, "://") {
		host, rest = u.Host, u.Path
		if u.Scheme == "ssh" || u.Scheme == "git" {
			host = u.Hostname() // the port is not that of the API
		}
	} else if host, rest, _ = strings.Cut(remote, ":"); strings.Contains(host, "@") {
		host = host[strings.LastIndexByte(host, '@')+1:]
	}
	owner, name := path.Split(strings.TrimSuffix(strings.Trim(rest, "/"), ".git"))
	owner = strings.Trim(owner, "/")
	if host == "" || owner == "" || name == "" || strings.Contains(owner, "/") {
		return Place{}, bad
	}
	return Place{Host: strings.ToLower(host), Owner: owner, Name: name}, nil
}

// redacted returns an address without what may be a password.
func redacted(remote string) string {
	if u, err := url.Parse(remote); err == nil {
		return u.Redacted()
	}
	return remote
}

// ParseIssue reads an issue as it is typed: a number of the given repository, or the address of one.
func ParseIssue(typed string, here Place) (Place, int, error) {
	number := strings.TrimPrefix(typed, "#")
	if u, err := url.Parse(typed); err == nil && strings.Contains(typed, "://") {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(parts) != 4 || parts[2] != "issues" {
			return here, 0, fmt.Errorf("%q is no issue: want a number, or https://HOST/OWNER/NAME/issues/NUMBER", typed)
		}
		here, number = Place{strings.ToLower(u.Host), parts[0], parts[1]}, parts[3]
	}
	var n int
	if _, err := fmt.Sscanf(number, "%d", &n); err != nil || n < 1 || fmt.Sprint(n) != number {
		return here, 0, fmt.Errorf("%q is no issue: want a number, or https://HOST/OWNER/NAME/issues/NUMBER", typed)
	}
	return here, n, nil
}
