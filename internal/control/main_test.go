package control

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		fmt.Println("NOT TESTED with -short: the controller")
		return
	}
	os.Exit(m.Run())
}
