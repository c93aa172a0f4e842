package faults

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// busyDoor returns a database's URL through a door where refuse handles the first few connections.
func busyDoor(t *testing.T, to string, first int64, refuse func(net.Conn)) (string, *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { door.Close() })
	server, came := u.Host, &atomic.Int64{}
	go func() {
		for {
			near, err := door.Accept()
			if err != nil {
				return
			}
			if came.Add(1) <= first {
				refuse(near)
				near.Close()
				continue
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			go func() { io.Copy(far, near); far.Close() }()
			go func() { io.Copy(near, far); near.Close() }()
		}
	}()
	u.Host = door.Addr().String()
	return u.String(), came
}

// saying answers each connection with an error of the server.
func saying(code, text string) func(net.Conn) {
	return func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err == nil {
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: text})
			b.Flush()
		}
	}
}

// TestOpen opens a record whose server is about to be available: it waits for it. If nothing
// answers it waits less than for a known server, and after a wrong password not at all.
func TestOpen(t *testing.T) {
	t.Parallel()
	record := newRecord(t, pgtest.Shared(t))
	for name, refuse := range map[string]func(net.Conn){
		"it starts":             saying("57P03", "the database system is starting up"),
		"it stops":              saying("57P01", "terminating connection due to administrator command"),
		"no connection is left": saying("53300", "sorry, too many clients already"),
		"it hangs up":           func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, came := busyDoor(t, record, 3, refuse)
			s := open(t, postgres.Config{URL: at})
			l, err := begin(t.Context(), s, id(len(name))) // these differ
			if err == nil {
				err = l.step(t.Context(), s, name)
			}
			if err != nil || came.Load() <= 3 {
				t.Errorf("after %d who came: %v", came.Load(), err)
			}
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		t.Parallel()
		door, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		door.Close()
		s, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://ada@" + door.Addr().String() + "/none",
			Patience: time.Hour})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("a wrong password", func(t *testing.T) {
		t.Parallel()
		at, came := busyDoor(t, record, 1<<30, saying("28P01", "password authentication failed"))
		if s, err := postgres.Open(t.Context(), postgres.Config{URL: at, Patience: time.Hour}); err == nil {
			s.Close()
			t.Error("it is let in")
		}
		if came.Load() > 2 {
			t.Errorf("it was tried %d times", came.Load())
		}
	})
}
