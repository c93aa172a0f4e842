package cli

import (
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

// usage: quoting VARIABLE: sets a variable to the address of a model's server that refuses each request and quotes its
// key.
func quoting(ts *testscript.TestScript, neg bool, args []string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":{"type":"authentication_error","message":"wrong key: `+r.Header.Get("Authorization")+
			r.Header.Get("X-Api-Key")+`"}}`)
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
