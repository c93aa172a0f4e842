package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

// caVariables name files with certificates that agents trust in addition to the system's, as their vendors document
// them. With a gateway between an agent and its model they have no effect in the agent, so the gateway reads them.
var caVariables = []string{"NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"}

// Transport returns the way to a model's server, through the proxy that the environment names. It trusts what agents
// would trust. Its user closes its idle connections.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	for _, name := range caVariables {
		data, err := readCA(name)
		if err != nil || data == nil { // a fault is named if a certificate is not trusted: until then it does not matter
			continue
		}
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{}
		}
		if t.TLSClientConfig.RootCAs == nil {
			if t.TLSClientConfig.RootCAs, err = x509.SystemCertPool(); err != nil {
				t.TLSClientConfig.RootCAs = x509.NewCertPool()
			}
		}
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(data)
	}
	return t
}

// readCA returns the certificates of a variable's file, nil if it is not set.
func readCA(name string) ([]byte, error) {
	file := os.Getenv(name)
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		err = fmt.Errorf("%s has no certificate in PEM form", file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", name, err)
	}
	return data, nil
}

// Untrusted is the code of the error that an agent gets when the certificate of its model's server is not trusted:
// retrying is useless.
const Untrusted = "untrusted_certificate"

// Distrusted returns what is wrong with a server according to an error of a connection, if its certificate is not
// trusted, otherwise "". It begins with what to do, since readers may see no more.
func Distrusted(err error) string {
	var wrong *tls.CertificateVerificationError
	if !errors.As(err, &wrong) {
		return ""
	}
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return "has a certificate that is not valid: " + wrong.Err.Error()
	}
	why := "has a certificate that is not trusted; name a file with its CA's in NODE_EXTRA_CA_CERTS (" + wrong.Err.Error()
	for _, name := range caVariables {
		if _, err := readCA(name); err != nil {
			why += "; " + err.Error()
		}
	}
	return why + ")"
}
