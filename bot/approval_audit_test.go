package bot_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/audit"
	"github.com/planbot-go/planbot/bottest"
)

// TestAuditOfWhoWasAsked names who could not be, whom who asked in private let read it, and that it was taken back.
func TestAuditOfWhoWasAsked(t *testing.T) {
	t.Parallel()
	for button, want := range map[string][]string{
		"Send":       {"unreachable aad-Nora", "asked ", "sent aad-Ben (policy)", "withdrawn "},
		"Don't send": {"unreachable aad-Nora", "asked ", "withdrawn "},
	} {
		config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Nora", "aad-Ben"}})
		entriesOf := auditOf(&config)
		bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
			kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
				if s.To == "" && strings.Contains(s.JSON, "aad-Nora") {
					return bottest.Answer{Status: 403, Code: "ForbiddenOperationException"}
				}
				return bottest.Answer{}
			})
			mia := kit.Personal("Mia")
			kit.Model.Says(orderTwo)
			mia.Say("order two laptops")
			mia.ExpectCard("Ben").Press(button)
			if button == "Send" {
				kit.Personal("Ben").ExpectCard("Approve")
				mia.Press("Take it back")
			}
			mia.ExpectMatch(".")
			kit.Settle()
			if *ordered != 0 {
				t.Error("it ran")
			}
			entries := entriesOf(t, func(e audit.Entry) string { return e.Outcome + " " + e.Asked })
			if diff := cmp.Diff(want, entries); diff != "" {
				t.Errorf("%s: %s", button, diff)
			}
			kit.Connector.Sent()
		})
	}
}

// TestNobodyDecidesBeforeSend: not even somebody who may decide, and who has guessed the card.
func TestNobodyDecidesBeforeSend(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		kit.Model.Says(orderTwo)
		mia.Say("order two laptops")
		card := mia.ExpectCard("May I ask Ben")
		for _, verb := range []string{"planbot/approve", "planbot/reject", "planbot/send"} {
			forged, err := card.Click(card.Buttons()[0])
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(forged)
			raw = []byte(strings.NewReplacer("planbot/send", verb, `"approval"`, `"in":"a:Mia","approval"`).Replace(string(raw)))
			if err := json.Unmarshal(raw, &forged); err != nil {
				t.Fatal(err)
			}
			expectShown(t, ben.Deliver(forged), "You can't decide this. Nothing was done.")
		}
		card.Press("Send")
		ben.ExpectCard("Approve").Press("Approve")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
	})
}

// TestLanguageOfAnUnknownApprover is that of who asked, until they write in another one.
func TestLanguageOfAnUnknownApprover(t *testing.T) {
	t.Parallel()
	config, ordered := laptops(actions.Approval{Approvers: []string{"aad-Ben"}})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
		kit.Model.Says(orderTwo)
		mia.Deliver(map[string]any{"type": "message", "text": "zwei Laptops", "locale": "de-DE"})
		mia.ExpectCard("Ben").Press("Senden")
		ben.ExpectCard("Freigeben").Press("Freigeben")
		mia.Expect("They are on their way.")
		expectDone(t, kit, ordered, 2)
	})
}
