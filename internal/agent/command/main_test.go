package command_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestMain(m *testing.M) {
	agenttest.FakeMain()
	goleak.VerifyTestMain(m)
}
