package bottest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

func TestPersonalChat(t *testing.T) {
	t.Parallel()
	both(t, listBot, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(addMilk)
		chat := kit.Personal("Mia")
		chat.Say("add milk to groceries")
		chat.Expect("Added milk.")
		chat.ExpectNothing()
		kept := state.Of[lists.Lists](chat.User())
		if len(kept.All) != 1 || kept.All[0].Items[0].Name != "milk" {
			t.Errorf("kept %+v", kept)
		}
		calls := kit.Calls()
		if len(calls) != 1 || calls[0].Action != "addItem" || calls[0].Entities["item"] != "milk" || calls[0].Conversation != "a:Mia" || !calls[0].Ended {
			t.Errorf("calls %+v", calls)
		}
		if asked := kit.Model.LastCall(); asked.Last("user") != "add milk to groceries" || asked.Conversation != "a:Mia" {
			t.Errorf("asked %+v", asked)
		}
	})
}

func TestGroup(t *testing.T) {
	t.Parallel()
	both(t, listBot, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Group("team", "Mia", "Otto")
		chat.Say("milk is out")
		chat.ExpectNothing() // it was not spoken to
		kit.Model.Says(addMilk, bottest.Plan(bottest.Say("Mia did.")))
		chat.Mention("add milk")
		chat.Expect("Added milk.")
		chat.As("Otto").Mention("who asked for that?")
		chat.Expect("Mia did.")
		if prompt := kit.Model.LastCall().Prompt(); !strings.Contains(prompt, "Mia") || !strings.Contains(prompt, "Otto") {
			t.Errorf("the prompt does not say who speaks:\n%s", prompt)
		}
	})
}

func TestRestartKeepsWhatIsInRedis(t *testing.T) {
	t.Parallel()
	both(t, listBot, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(addMilk)
		chat.Say("add milk")
		chat.Expect("Added milk.")
		kit.Restart()
		kit.Model.Says(bottest.Plan(doAs("LISTS", "summarizeLists"), bottest.Say("$LISTS")))
		chat.Say("what is there?")
		chat.ExpectMatch("milk")
	})
}

func TestCrashAfterAnAction(t *testing.T) {
	t.Parallel()
	bottest.Test(t, ticketBot(new(tickets)), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("createTicket", "title", "VPN"), bottest.Say("Opened.")))
		kit.CrashAfter(1)
		chat.Say("open a ticket")
		chat.ExpectNothing()
		kit.Restart()
		chat.Expect("Opened.") // once the lease of the dead is over
		if calls := kit.Calls(); len(calls) != 2 {
			t.Errorf("%d calls, want one before the crash and the same one after it", len(calls))
		}
	})
}

func TestAnotherReplicaTakesOver(t *testing.T) {
	t.Parallel()
	opened := new(tickets)
	cfg := ticketBot(opened)
	cfg.Replicas = 2
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("createTicket", "title", "VPN"), bottest.Say("Opened.")))
		kit.CrashAfter(1)
		said := chat.Say("open a ticket")
		if again := said.Again(chat.On(2)); again.Status != 200 {
			t.Errorf("the second delivery: %s", again)
		}
		chat.Expect("Opened.")
		chat.ExpectNothing()
		if opened.count() != 1 {
			t.Errorf("%d tickets", opened.count())
		}
	})
}

func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.StopRedis()
		said := chat.Deliver(map[string]any{"type": "message", "text": "add milk"})
		if said.Status != 503 || said.Took < time.Second || said.Took > 15*time.Second {
			t.Errorf("without Redis: %s after %v", said, said.Took)
		}
		kit.StartRedis()
		chat.ExpectNothing()
		kit.Model.Says(addMilk)
		said.Again(chat).Taken()
		chat.Expect("Added milk.")
	})
}

// Processes that begin meanwhile do not have it either.
func TestRedisIsAwayAtARestart(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.StopRedis()
		kit.Restart()
		said := chat.Deliver(map[string]any{"type": "message", "text": "add milk"})
		if said.Status != 503 {
			t.Errorf("after a restart without Redis: %s", said)
		}
		kit.StartRedis()
		kit.Model.Says(addMilk)
		said.Again(chat).Taken()
		chat.Expect("Added milk.")
	})
}

func TestFaultsOfTheModel(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Throttles(2 * time.Second)
		kit.Model.Fails(500, "")
		kit.Model.Answers(bottest.Answer{Text: addMilk, CutOff: true})
		kit.Model.Says(addMilk)
		began := time.Now()
		chat.Say("add milk")
		chat.Expect("Added milk.")
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("it took %v, and was told to wait for 2s", took)
		}
		asked := kit.Model.Hangs(time.Hour)
		chat.Say("add milk")
		chat.ExpectMatch("did not answer in time")
		<-asked
		kit.Model.Fails(400, "content_filter")
		chat.Say("add milk")
		chat.ExpectMatch("content filter")
	})
}

func TestChainOfModels(t *testing.T) {
	t.Parallel()
	cfg := listBot()
	cfg.Models = []string{"big", "small"}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Answers(bottest.Answer{Status: 503, Model: "big"}, bottest.Answer{Text: addMilk, Model: "small"})
		chat.Say("add milk")
		chat.Expect("Added milk.")
		if got := kit.Model.LastCall().Model; got != "small" {
			t.Errorf("the last call went to %s", got)
		}
	})
}

func TestFaultsOfTheConnector(t *testing.T) {
	t.Parallel()
	bottest.Test(t, listBot(), func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Connector.Fails(bottest.Answer{Status: 502}, bottest.Answer{Status: 429, RetryAfter: time.Minute})
		kit.Model.Says(addMilk)
		began := time.Now()
		chat.Say("add milk")
		chat.Expect("Added milk.")
		if took := time.Since(began); took < time.Minute {
			t.Errorf("it took %v, and was told to wait for a minute", took)
		}
		sent := kit.Connector.Sent()
		statuses := []int{}
		for _, s := range sent {
			if s.Activity.Type == "message" {
				statuses = append(statuses, s.Status)
			}
		}
		if len(statuses) != 3 || statuses[0] != 502 || statuses[1] != 429 || statuses[2] != 201 {
			t.Errorf("statuses %v", statuses)
		}
	})
}

func TestTogether(t *testing.T) {
	t.Parallel()
	cfg := listBot()
	cfg.Replicas = 3
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Answers(bottest.Answer{Text: addMilk, Takes: 20 * time.Second})
		said := map[string]any{"type": "message", "id": "m1", "text": "add milk"}
		kit.Together(
			func() { chat.Deliver(said).Taken() },
			func() { chat.On(2).Deliver(said).Taken() },
			func() { chat.On(3).Deliver(said).Taken() },
		)
		chat.Expect("Added milk.")
		chat.ExpectNothing()
	})
}

// doAs is a command whose result later ones can use by that name.
func doAs(name, action string, entities ...any) plan.Command {
	c := bottest.Do(action, entities...)
	c.SaveAs = name
	return c
}
