package history_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

func admit(t testing.TB, pos int64, key string, of string, n byte) store.Event {
	t.Helper()
	ev, err := history.Admission{At: 1767225604500, Host: "desk", Key: key, Origin: of}.Sign(person(t, n), "ann")
	if err != nil {
		t.Fatal(err)
	}
	ev.Pos = pos
	return ev
}

func revoke(t testing.TB, pos int64, key string, n byte) store.Event {
	t.Helper()
	ev, err := history.Revocation{At: 1767225604600, Key: key, Origin: origin, Reason: "stolen"}.Sign(person(t, n), "ann")
	if err != nil {
		t.Fatal(err)
	}
	ev.Pos = pos
	return ev
}

func TestStanding(t *testing.T) {
	ours, theirs := logKey(t, 3), logKey(t, 4)
	mine, other := public(t, ours), public(t, theirs)
	tampered := admit(t, 2, mine, origin, 1)
	tampered.Payload = []byte(strings.Replace(string(tampered.Payload), "desk", "dusk", 2))
	sign := func(s ...note.Signer) []byte {
		text, err := head.Sign(s...)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	byOurs := sign(ours.Signer(origin))
	admitted, revoked := admit(t, 2, mine, origin, 1), revoke(t, 40, mine, 1)
	for name, x := range map[string]struct {
		events []store.Event
		signed []byte
		want   history.Standing
		by     byte // the person; zero: nobody
	}{
		"vouched":            {[]store.Event{admitted}, byOurs, history.Vouched, 1},
		"nobody vouches":     {nil, byOurs, history.Unvouched, 0},
		"unsigned":           {[]store.Event{admitted}, []byte(head.String()), history.Unsigned, 0},
		"by another key":     {[]store.Event{admitted}, sign(theirs.Signer(origin)), history.Unvouched, 0},
		"by both":            {[]store.Event{admitted}, sign(theirs.Signer(origin), ours.Signer(origin)), history.Vouched, 1},
		"by a person":        {nil, sign(history.Person(person(t, 2))), history.Vouched, 2},
		"of another log":     {[]store.Event{admit(t, 2, mine, history.Origin("X"), 1)}, byOurs, history.Unvouched, 0},
		"an entry changed":   {[]store.Event{tampered}, byOurs, history.Unvouched, 0},
		"revoked":            {[]store.Event{admitted, revoked}, byOurs, history.Revoked, 0},
		"revoked afterwards": {[]store.Event{admitted, revoke(t, 42, mine, 1)}, byOurs, history.Vouched, 1},
		"by a stranger":      {[]store.Event{admitted, revoke(t, 40, mine, 2)}, byOurs, history.Vouched, 1},
		"by a colleague": {[]store.Event{admitted, admit(t, 3, other, origin, 2), revoke(t, 40, mine, 2)}, byOurs,
			history.Revoked, 0},
		"admitted again": {[]store.Event{admitted, revoked, admit(t, 41, mine, origin, 1)}, byOurs, history.Revoked, 0},
		"rotated": {[]store.Event{admitted, revoked, admit(t, 41, other, origin, 1)},
			sign(theirs.Signer(origin)), history.Vouched, 1},
	} {
		c, got, err := history.ReadKeys(origin, x.events, nil).Read(x.signed)
		if err != nil || got.Standing != x.want || c != head ||
			(got.Host == "desk") != (x.by == 1) {
			t.Errorf("%s: got %+v, %+v, %v, want %s", name, c, got, err, x.want)
			continue
		}
		var want ssh.PublicKey
		if x.by != 0 {
			want = person(t, x.by).PublicKey()
		}
		if (got.By == nil) != (want == nil) || want != nil && sshsig.Fingerprint(got.By) != sshsig.Fingerprint(want) {
			t.Errorf("%s: by %v, want %v", name, got.By, want)
		}
	}
}

// TestWhoseWord reads checkpoints where only the first person's word counts.
func TestWhoseWord(t *testing.T) {
	ours, theirs := logKey(t, 3), logKey(t, 4)
	counts := func(key ssh.PublicKey, _ time.Time) error {
		if sshsig.Fingerprint(key) != sshsig.Fingerprint(person(t, 1).PublicKey()) {
			return errors.New("unknown")
		}
		return nil
	}
	admitted, stranger := admit(t, 3, public(t, ours), origin, 1), admit(t, 2, public(t, ours), origin, 2)
	for name, x := range map[string]struct {
		events []store.Event
		signer note.Signer
		want   history.Standing
	}{
		"admitted":             {[]store.Event{admitted}, ours.Signer(origin), history.Vouched},
		"by a stranger":        {[]store.Event{stranger}, ours.Signer(origin), history.Unvouched},
		"by a stranger first":  {[]store.Event{stranger, admitted}, ours.Signer(origin), history.Vouched},
		"signed by the person": {nil, history.Person(person(t, 1)), history.Vouched},
		"signed by a stranger": {nil, history.Person(person(t, 2)), history.Unvouched},
		"revoked by one who vouches too": {[]store.Event{admitted, admit(t, 4, public(t, theirs), origin, 2),
			revoke(t, 5, public(t, ours), 2)}, ours.Signer(origin), history.Vouched},
	} {
		signed, err := head.Sign(x.signer)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := history.ReadKeys(origin, x.events, counts).Read(signed); err != nil || got.Standing != x.want {
			t.Errorf("%s: %s, %v, want %s", name, got.Standing, err, x.want)
		}
	}
}

func TestFalseCheckpoints(t *testing.T) {
	k := logKey(t, 3)
	keys := history.ReadKeys(origin, []store.Event{admit(t, 2, public(t, k), origin, 1)}, nil)
	byLog, err := head.Sign(k.Signer(origin))
	if err != nil {
		t.Fatal(err)
	}
	byPerson, err := head.Sign(history.Person(person(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := head
	elsewhere.Origin = history.Origin("X")
	for name, x := range map[string]struct{ text, want string }{
		"another size":           {strings.Replace(string(byLog), "\n41\n", "\n42\n", 1), "invalid signature"},
		"another size, a person": {strings.Replace(string(byPerson), "\n41\n", "\n42\n", 1), "a person's signature is false"},
		"another log":            {elsewhere.String(), "it is of the log plait.run/log/X"},
		"nothing":                {"", "malformed note"},
		"no checkpoint":          {"x\n\n— x AAAAAAAA\n", "fewer than three lines"},
		"too long":               {string(byLog) + strings.Repeat("x", 1<<16), "longer than"},
	} {
		if _, _, err := keys.Read([]byte(x.text)); !errors.Is(err, history.ErrMalformed) ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
}

// TestKeyEvents checks that they fit into the journal, and belong to no task.
func TestKeyEvents(t *testing.T) {
	ev, err := history.Revocation{Key: public(t, logKey(t, 3)), Origin: origin, Reason: strings.Repeat("x", 5000)}.
		Sign(person(t, 1), "ann")
	if err != nil || ev.Task != "" || len(ev.Payload) > store.MaxEventPayload {
		t.Errorf("got %+v, %v", ev, err)
	}
	if p, ok := event.Read(ev).(event.KeyRevoked); !ok || p.By != "ann" || p.Signed == "" {
		t.Errorf("read %+v", p)
	}
}

func FuzzCheckpoint(f *testing.F) {
	k := logKey(f, 3)
	keys := history.ReadKeys(origin, []store.Event{admit(f, 2, public(f, k), origin, 1)}, nil)
	text, err := head.Sign(k.Signer(origin), history.Person(person(f, 1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(head.String())
	f.Fuzz(func(t *testing.T, text string) {
		c, s, err := keys.Read([]byte(text))
		switch {
		case err != nil && !errors.Is(err, history.ErrMalformed):
			t.Errorf("%v does not match ErrMalformed", err)
		case err == nil && s.Standing == history.Vouched && c != head:
			t.Errorf("vouched, and never signed: %q", text)
		}
		if c, err := history.ParseCheckpoint(text); err == nil {
			if again, err := history.ParseCheckpoint(c.String()); err != nil || again != c {
				t.Errorf("written and read again: %+v, %v", again, err)
			}
		}
	})
}

func FuzzApproval(f *testing.F) {
	good := signed(f, answered(), 1)
	f.Add(good.Signature)
	f.Fuzz(func(t *testing.T, text string) {
		g := answered()
		g.Signature = text
		a, _, err := history.OpenApproval(g)
		if err != nil {
			if !errors.Is(err, sshsig.ErrInvalid) {
				t.Errorf("%v does not match ErrInvalid", err)
			}
			return
		}
		if a != history.NewApproval(answered(), history.Checkpoint{Origin: a.Origin, Size: a.Size, Root: a.Root}) {
			t.Errorf("accepted %+v", a)
		}
	})
}
