package rooms

import (
	"os"
	"strings"
	"testing"
)

// TestModules checks that plait requires none of the libraries for the shared record: a server library in its module
// could get linked into it. plaitd has its own module, which requires this one.
func TestModules(t *testing.T) {
	here, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile("../../../plaitd/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{
		"github.com/jackc/pgx/", "github.com/aws/aws-sdk-go-v2", "github.com/johannesboyne/gofakes3", "github.com/prometheus/",
		"plaitd/river",
	} {
		if !strings.Contains(string(there), library) {
			t.Errorf("plaitd does not need %s any more: name what it needs instead", library)
		}
		if strings.Contains(string(here), library) {
			t.Errorf("the module of plait requires %s", library)
		}
	}
}
