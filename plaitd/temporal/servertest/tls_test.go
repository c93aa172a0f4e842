package servertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/rpc/encryption"
	server "go.temporal.io/server/temporal"
	"go.temporal.io/server/temporaltest"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/plaitd/temporal"
)

// serverName is the name in the server's certificate.
const serverName = "temporal.test"

// An authority signs certificates and writes them into a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.crt and NAME.key.
func (a *authority) sign(name string, cert *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert.Subject, cert.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(time.Now().UnixNano())
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// guarded starts a server that speaks TLS, and only with clients whose certificate the authority has signed.
func guarded(t *testing.T, a *authority) (address string) {
	a.sign("server", &x509.Certificate{DNSNames: []string{serverName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.sign("own", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	quiet := log.NewNoopLogger()
	tls, err := encryption.NewTLSConfigProviderFromConfig(config.RootTLS{
		Frontend: config.GroupTLS{Server: config.ServerTLS{
			CertFile: a.file("server.crt"), KeyFile: a.file("server.key"), ClientCAFiles: []string{a.file("ca.crt")},
			RequireClientAuth: true,
		}},
		SystemWorker: config.WorkerTLS{
			CertFile: a.file("own.crt"), KeyFile: a.file("own.key"),
			Client: config.ClientTLS{ServerName: serverName, RootCAFiles: []string{a.file("ca.crt")}},
		},
	}, metrics.NoopMetricsHandler, quiet, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := temporaltest.NewServer(temporaltest.WithT(t), temporaltest.WithBaseServerOptions(
		server.WithTLSConfigFactory(tls)))
	return s.GetFrontendHostPort()
}

// once is work that reports when it is called, and says that there is nothing to do.
type once chan string

func (o once) Reconcile(_ context.Context, task string) (dispatch.Agenda, error) {
	o <- task
	return dispatch.Agenda{Ended: true}, nil
}
func (o once) Drive(context.Context, string, *dispatch.Slot) error { return nil }

// TestTLS serves a host at a server that uses TLS and asks for a certificate, configured by TEMPORAL_… variables. A
// client with no certificate, or another authority's, is refused, and so is a server of another name.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, a := range []*authority{ours, theirs} {
		a.sign("worker", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	address := guarded(t, ours)
	open := func(env map[string]string) *temporal.Engine {
		t.Helper()
		for name, value := range map[string]string{
			"ADDRESS": address, "NAMESPACE": namespace, "TLS_SERVER_NAME": serverName,
			"TLS_SERVER_CA_CERT_PATH": ours.file("ca.crt"),
			"TLS_CLIENT_CERT_PATH":    ours.file("worker.crt"), "TLS_CLIENT_KEY_PATH": ours.file("worker.key"),
		} {
			if other, ok := env[name]; ok {
				value = other
			}
			t.Setenv("TEMPORAL_"+name, value)
		}
		cfg, err := temporal.Environment()
		if err != nil {
			t.Fatal(err)
		}
		if len(env) == 0 {
			register(t, cfg.Client)
		}
		e, err := temporal.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	e := open(nil)
	ctx, stop := context.WithCancel(t.Context())
	served, called := make(chan error), make(once, 1)
	go func() { served <- e.Serve(ctx, dispatch.Host{ID: "a"}, called) }()
	if err := e.Poke(ctx, "task"); err != nil {
		t.Fatal(err)
	}
	select {
	case task := <-called:
		if task != "task" {
			t.Errorf("called for %q", task)
		}
	case <-time.After(time.Minute):
		t.Error("it is not called")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for name, env := range map[string]map[string]string{
		"no certificate": {"TLS_CLIENT_CERT_PATH": "", "TLS_CLIENT_KEY_PATH": ""},
		"a certificate of another": {"TLS_CLIENT_CERT_PATH": theirs.file("worker.crt"),
			"TLS_CLIENT_KEY_PATH": theirs.file("worker.key")},
		"another name of the server": {"TLS_SERVER_NAME": "elsewhere.test"},
		"another authority":          {"TLS_SERVER_CA_CERT_PATH": theirs.file("ca.crt")},
		"no TLS": {"TLS_CLIENT_CERT_PATH": "", "TLS_CLIENT_KEY_PATH": "", "TLS_SERVER_CA_CERT_PATH": "",
			"TLS_SERVER_NAME": "",
			"TLS":             "false"},
	} {
		if err := open(env).Poke(t.Context(), "task"); err == nil {
			t.Errorf("with %s it is let in", name)
		}
	}
}
