package skills_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/skills/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Child()
	goleak.VerifyTestMain(m)
}
