package cli

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// usage: visit FILE PATH TEXT: opens the URL that plait ui printed to FILE as a browser
// does, then PATH of the same server, which must contain TEXT. The URL works once: a
// second visit continues with the browser of the first.
func visit(ts *testscript.TestScript, neg bool, args []string) {
	client, at := browse(ts, args[0])
	res, err := client.Get("http://" + at.Host + args[1])
	ts.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	if strings.Contains(string(body), args[2]) == neg {
		ts.Fatalf("%s: %s\n%s", args[1], res.Status, body)
	}
}

// usage: send FILE PATH BODY TEXT: posts BODY to PATH as a page does; the answer must
// contain TEXT.
func send(ts *testscript.TestScript, neg bool, args []string) {
	client, at := browse(ts, args[0])
	res, err := client.Post("http://"+at.Host+args[1], "application/json", strings.NewReader(args[2]))
	ts.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	if strings.Contains(string(body), args[3]) == neg {
		ts.Fatalf("%s: %s\n%s", args[1], res.Status, body)
	}
}

// browse returns a browser that knows the server whose URL is in a file.
func browse(ts *testscript.TestScript, file string) (*http.Client, *url.URL) {
	var entry string
	poll(ts, func() bool {
		data, _ := os.ReadFile(ts.MkAbs(file)) // it may not exist yet
		entry = strings.TrimSpace(string(data))
		return strings.HasSuffix(string(data), "\n")
	}, "plait ui prints no URL")
	at, err := url.Parse(entry)
	ts.Check(err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	client.Jar, err = cookiejar.New(nil)
	ts.Check(err)
	known := at.Host + " cookie"
	if c := ts.Getenv(known); c != "" {
		name, value, _ := strings.Cut(c, "=")
		client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value}})
	} else {
		res, err := client.Get(entry)
		ts.Check(err)
		res.Body.Close()
		for _, c := range client.Jar.Cookies(at) {
			ts.Setenv(known, c.Name+"="+c.Value)
		}
	}
	return client, at
}
