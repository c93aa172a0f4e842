package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// at returns a place with these environment variables.
func at(env map[string]string) place {
	return place{getenv: func(name string) string { return env[name] }}
}

// finding returns the finding about something.
func finding(t *testing.T, all []cli.Finding, what string) cli.Finding {
	t.Helper()
	for _, f := range all {
		if f.What == what {
			return f
		}
	}
	t.Fatalf("nothing about %s in %+v", what, all)
	return cli.Finding{}
}

// says checks a finding: the verdict, and part of its text and of its advice.
func says(t *testing.T, f cli.Finding, ok, warning bool, text, do string) {
	t.Helper()
	if f.OK != ok || f.Warning != warning || !strings.Contains(f.Text, text) || !strings.Contains(f.Do, do) {
		t.Errorf("%+v, want ok %v, warning %v, %q, %q", f, ok, warning, text, do)
	}
}

// TestDoctorServer has doctor examine servers of all kinds.
func TestDoctorServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{Settings: map[string]string{
		"synchronous_standby_names": "other", "synchronous_commit": "local", "max_connections": "20",
	}})
	url := server.Database(t)
	p := at(map[string]string{"PLAIT_STORE": url})
	all := p.doctor(t.Context(), "")
	says(t, finding(t, all, "server"), true, false, "Postgres", "")
	says(t, finding(t, all, "replication"), true, false, "other", "")
	says(t, finding(t, all, "connections"), false, true, "10 at most", "PLAIT_STORE_CONNS")
	says(t, finding(t, all, "clocks"), true, false, "differ by", "")
	says(t, finding(t, all, "bucket"), true, false, "none", "")
	says(t, finding(t, all, "schema"), false, false, "version 0", "run plaitd migrate")
	newHost(t, url).run(0, "migrate")
	says(t, finding(t, p.doctor(t.Context(), ""), "schema"), true, false, "version", "")
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "UPDATE plait.meta SET version = 99"); err != nil {
		t.Fatal(err)
	}
	says(t, finding(t, p.doctor(t.Context(), ""), "schema"), false, false, "update Plait", "")
}

func TestDoctorClocks(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{Clock: 10 * time.Minute, Settings: map[string]string{"fsync": "off"}})
	all := at(map[string]string{"PLAIT_STORE": server.Database(t)}).doctor(t.Context(), "")
	says(t, finding(t, all, "clocks"), false, true, "10m", "NTP")
	says(t, finding(t, all, "durability"), false, false, "fsync is off", "fsync = on")
	says(t, finding(t, all, "replication"), false, true, "synchronous_standby_names is empty", "standby")
	server.Stop(pgtest.Immediate)
	all = at(map[string]string{"PLAIT_STORE": server.URL("x")}).doctor(t.Context(), "")
	says(t, finding(t, all, "server"), false, false, "connect", "PLAIT_STORE")
}

// TestDoctorPooler has a pooler that plaitd does not know of, one that it knows of, and one wrongly configured.
func TestDoctorPooler(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	direct := server.Database(t)
	pooled := pgtest.NewBouncer(t, server, 3).URL(direct)
	newHost(t, direct).run(0, "migrate")
	all := at(map[string]string{"PLAIT_STORE": pooled}).doctor(t.Context(), "")
	says(t, finding(t, all, "schema"), false, false, "a pooler answers", "")
	all = at(map[string]string{"PLAIT_STORE": pooled, "PLAIT_STORE_DIRECT": direct}).doctor(t.Context(), "")
	says(t, finding(t, all, "schema"), true, false, "version", "")
	says(t, finding(t, all, "direct"), true, false, "notifications arrive", "")
	for _, wrong := range []string{pooled, server.Database(t)} {
		all = at(map[string]string{"PLAIT_STORE": pooled, "PLAIT_STORE_DIRECT": wrong}).doctor(t.Context(), "")
		says(t, finding(t, all, "direct"), false, false, "", "PLAIT_STORE_DIRECT")
	}
}

// TestDoctorBucket has buckets that are unreachable, refuse, lie, and do not delete.
func TestDoctorBucket(t *testing.T) {
	s3test.Login() // sets the environment of all tests here, before any runs concurrently
	server := pgtest.Shared(t)
	url := server.Database(t)
	bucket := s3test.Start(t)
	p := at(map[string]string{"PLAIT_STORE": url, "PLAIT_S3": bucket.Name("x/")})
	look := func() cli.Finding {
		t.Helper()
		f := finding(t, p.doctor(t.Context(), ""), "bucket")
		if strings.Contains(f.Text, s3test.Secret) {
			t.Errorf("it says the key: %+v", f)
		}
		return f
	}
	says(t, look(), true, false, "put, read, listed and deleted", "")
	if keys := bucket.Keys(); len(keys) != 0 {
		t.Errorf("it left %q", keys)
	}
	refuse := func(method string) s3test.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool { return r.Method == method && s3test.Refuse(w, r) }
	}
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		bucket.Fail(refuse(method))
		says(t, look(), false, false, "AccessDenied", "AWS_ACCESS_KEY_ID")
	}
	bucket.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "" {
			w.Write([]byte("plait tries what it may not do in this place"))
			return true
		}
		return false
	})
	says(t, look(), false, false, "", "PLAIT_S3")
	bucket.Fail(func(w http.ResponseWriter, r *http.Request) bool { // claims to delete, and does not
		if r.Method == http.MethodDelete || r.Method == http.MethodPost {
			w.Write([]byte(`<DeleteResult></DeleteResult>`))
			return true
		}
		return false
	})
	says(t, look(), false, false, "still there", "")
	for name, s3 := range map[string]string{
		"no such bucket":  strings.Replace(bucket.Name(""), "record", "other", 1),
		"nobody is there": "s3://record?endpoint=http://127.0.0.1:1",
	} {
		f := finding(t, at(map[string]string{"PLAIT_STORE": url, "PLAIT_S3": s3}).doctor(t.Context(), ""), "bucket")
		if f.OK || f.Do == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestDoctorVersions has buckets that keep deleted objects, for a while or forever, and one that does not say.
func TestDoctorVersions(t *testing.T) {
	s3test.Login()
	bucket := s3test.Start(t)
	b := bucket.Bucket("x/")
	answers := func(code int, versioning, lifecycle string) {
		bucket.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Query().Has("versioning"):
				w.WriteHeader(code)
				w.Write([]byte(versioning))
			case r.URL.Query().Has("lifecycle") && lifecycle == "":
				w.WriteHeader(http.StatusNotFound)
				w.Write([]byte(`<Error><Code>NoSuchLifecycleConfiguration</Code></Error>`))
			case r.URL.Query().Has("lifecycle"):
				w.Write([]byte(`<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>` +
					lifecycle +
					`</Rule></LifecycleConfiguration>`))
			default:
				return false
			}
			return true
		})
	}
	const on = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`
	for _, x := range []struct {
		code                  int
		versioning, lifecycle string
		ok, warning           bool
		text, do              string
	}{
		{200, `<VersioningConfiguration/>`, "", true, false, "gone immediately", ""},
		{200, on, "", false, true, "stays, and costs", "lifecycle"},
		{200, on, `<Expiration><Days>9</Days></Expiration>`, false, true, "stays, and costs", "lifecycle"},
		{200, on, `<NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration>`, true,
			false, "a lifecycle rule", ""},
	} {
		answers(x.code, x.versioning, x.lifecycle)
		says(t, finding(t, examineVersions(t.Context(), b), "versions"), x.ok, x.warning, x.text, x.do)
	}
	answers(http.StatusForbidden, `<Error><Code>AccessDenied</Code></Error>`, "")
	if all := examineVersions(t.Context(), b); len(all) != 0 {
		t.Errorf("of a bucket that does not say: %+v", all)
	}
}

// TestDoctorRole has roles that may do everything, just what they need, and too little.
func TestDoctorRole(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	owner := server.Database(t)
	look := func(url string) cli.Finding {
		t.Helper()
		return finding(t, at(map[string]string{"PLAIT_STORE": url}).doctor(t.Context(), ""), "role")
	}
	as := func(role, may string) string {
		t.Helper()
		if err := server.Admin(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'secret' "+may); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(owner)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "secret")
		return u.String()
	}
	name := "doctor_" + owner[strings.LastIndex(owner, "/")+1:strings.Index(owner, "?")] // roles are server-wide
	worker, chief := as(name, ""), as(name+"_chief", "SUPERUSER")
	says(t, look(owner), true, false, "may create", "")
	says(t, look(worker), false, false, "may not create", "owner of database")
	h := newHost(t, owner)
	h.run(0, "migrate")
	says(t, look(owner), true, false, "owns the record", "")
	says(t, look(worker), false, false, "may not write", "plaitd migrate --worker "+name)
	says(t, look(chief), false, true, "superuser", "PLAIT_STORE")
	h.run(0, "migrate", "--worker", name)
	says(t, look(worker), true, false, "what a worker does", "")
}

// TestPasswordInArguments: a record named in arguments, where everyone can read it, is refused.
func TestPasswordInArguments(t *testing.T) {
	t.Parallel()
	h := newHost(t, "")
	h.be = "plaitd"
	for _, args := range [][]string{{"--store", "postgres://a:canary@h/d", "ls"},
		{"ls", "--store=postgres://a:canary@h/d"}} {
		if said := h.run(2, args...); strings.Contains(said, "canary") {
			t.Errorf("%v says %s", args, said)
		}
	}
}

// TestDoctorMachine has doctor say what a worker on this machine would have.
func TestDoctorMachine(t *testing.T) {
	t.Parallel()
	h := newHost(t, pgtest.Shared(t).Database(t))
	h.run(0, "migrate")
	out, _ := h.command("doctor").CombinedOutput() // which complains about replication
	for _, want := range []string{"git version  2.", "left for " + h.home + "\n", "left for " + h.home + "-places\n",
		"the system empties from time to time: sessions of agents would be lost"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("doctor does not say %q:\n%s", want, out)
		}
	}
}
