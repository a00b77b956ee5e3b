package settings_test

import (
	"testing"

	"github.com/planbot-go/planbot/internal/settings"
)

// A program without the feature that has a variable asks for it all the same.
func TestIsSetOfAnotherProgram(t *testing.T) {
	t.Parallel()
	if got := new(settings.Settings).IsSet("BOT_OF_NO_FEATURE"); got != nil {
		t.Errorf("set: %v", got)
	}
}
