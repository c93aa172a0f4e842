package control

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/testing/housetest"
)

// slow are the tests that take longer than a second on a busy machine, mostly those that drive real git.
var slow = []string{
	"TestABrokenTreeIsOnePathsFailure",
	"TestAFailedJoinKeepsWhatWasWritten",
	"TestAForkAtAPlanIsMerged",
	"TestAForkNeedsNoTreeOfItsOrigin",
	"TestAForkOfAMergedAction",
	"TestAMergeThatIsInTheWay",
	"TestAPathThatNeverBeganHasATreeNextTime",
	"TestAPlanInAWritingPath",
	"TestATreeIsPutBackToBeforeTheStep",
	"TestATreeThatIsPutBackBeginsANewSession",
	"TestAnAnswerIsNotToldToANewSession",
	"TestAttemptsAreNeverMoreThanAllowed",
	"TestBadPlans",
	"TestBranchesOfAForkInALoop",
	"TestClocksThatJump",
	"TestConflictsAreAskedAbout",
	"TestFaults",
	"TestFaultsInTrees",
	"TestForgedAnswers",
	"TestForgedTaskDirectory",
	"TestHostileWorktrees",
	"TestInterruptedWritersArePutBack",
	"TestMergePolicies",
	"TestMergeSurvivesCrashes",
	"TestMergeWithWhatAPersonWrote",
	"TestModel",
	"TestNotesOpenNoGate",
	"TestPlanSurvivesCrashes",
	"TestPlantedInTheRepository",
	"TestProtectedFilesAreAskedAbout",
	"TestRejoiningKeepsWhatWasWritten",
	"TestRejoiningMerges",
	"TestSetUpOfWorktrees",
	"TestStrategies",
	"TestTheNextTryAsksAboutTheOneCutOff",
	"TestTwoOfManyFail",
	"TestUnattendedRunEnds",
	"TestUselessWorkers",
	"TestWithoutATreeItCanBeCancelled",
	"TestWritersAreMerged",
	"TestWritesIntoATreeThatIsKept",
	"TestWritingPathsHaveWorktrees",
}

func TestMain(m *testing.M) {
	housetest.OwnMounts()
	if flag.Parse(); testing.Short() && flag.Lookup("test.run").Value.String() == "" {
		fmt.Println("NOT TESTED with -short:", strings.Join(slow, " "))
		flag.Set("test.skip", "^("+strings.Join(slow, "|")+")$")
	}
	os.Exit(m.Run())
}
