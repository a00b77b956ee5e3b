package bottest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bottest"
)

// Days of waiting cost next to nothing: nobody asks the Redis of a bubble each second
// whether it is time.
func TestDaysPass(t *testing.T) {
	t.Parallel()
	began := time.Now()
	bottest.Test(t, ticketBot(new(tickets)), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("closeTicket", "id", 7), bottest.Say("Closed.")), bottest.Plan(bottest.Say("Hello again.")))
		chat.Say("close 7")
		card := chat.ExpectCard("Close ticket", "7")
		time.Sleep(48 * time.Hour)
		if shown := card.Press("Approve").Shown(); !strings.Contains(shown, "not decided in time") {
			t.Errorf("a click after two days was answered %q", shown)
		}
		chat.Say("hi")
		chat.Expect("Hello again.")
	})
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("two days took %v", took)
	}
}
