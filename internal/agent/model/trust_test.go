package model

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestOwnCA checks that a server with a certificate of a company's own CA is asked, and checked, if a variable names
// the CA's, and that it is asked only once otherwise.
func TestOwnCA(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		raw(chatWhole)(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs what the test is about
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	const advice = "name a file with its CA's in NODE_EXTRA_CA_CERTS"
	for _, trusted := range []bool{true, false} {
		t.Setenv("NODE_EXTRA_CA_CERTS", map[bool]string{true: file}[trusted])
		l := newLab(t, says("never"))
		l.cfg.URL = server.URL + "/v1"
		res, err := l.run()
		checked := Check(t.Context(), Server{URL: at, API: Chat, Model: "m"})
		if trusted {
			if err != nil || checked != nil || string(res.Output) != told {
				t.Errorf("%q, %v, %v", res.Output, err, checked)
			}
			continue
		}
		if f := fails(t, err, agent.Infra); !f.Final || !strings.Contains(f.Message, advice) || f.Session == "" {
			t.Errorf("it fails with %+v", f)
		}
		if checked == nil || !strings.Contains(checked.Error(), advice) {
			t.Errorf("the check says %v", checked)
		}
		for _, e := range l.events {
			if e.WillRetry {
				t.Errorf("it is asked again: %+v", e)
			}
		}
	}
}
