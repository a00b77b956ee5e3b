package app

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// TestAParkedTurnIsRetried: a bot takes over a turn whose plan calls an action that it
// does not have, and parks it; one that has the action then goes on with it.
func TestAParkedTurnIsRetried(t *testing.T) {
	t.Parallel()
	p := newParking(t, redisServer(t))
	connector, model := fakeconnector.New(t), fakemodel.New(t)
	prompts := filesIn(t, map[string]string{
		"ShortPoem/skprompt.txt": "A poem about {{$input}}, please.",
		"ShortPoem/config.json":  `{"description": "Writes a short poem", "input": {"parameters": [{"name": "input", "description": "its subject"}]}}`,
	})
	hold := p.accept("turn1", `{"v":1,"activity":{"type":"message","id":"1","channelId":"console","serviceUrl":"`+connector.URL+
		`","from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"a poem about cats"}}`)
	if err := hold.Save(t.Context(), []byte(`{"v":1,"run":{"execution":{"plan":{"commands":[`+
		`{"type":"DO","action":"ShortPoem","entities":{"input":"cats"},"saveAs":"POEM"},`+
		`{"type":"SAY","response":"Here: $POEM"}]},"next":0,"variables":{}},"rounds":[{}],"usage":{}}}`)); err != nil {
		t.Fatal(err)
	}
	if err := hold.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}

	first := startBot(t, "REDIS_URL="+p.url, "OPENAI_BASE_URL="+model.URL)
	const said = "Sorry, I could not finish this, and put it aside for whoever runs me. (turn turn1)"
	if got := connector.Next(t).Text(); got != said {
		t.Errorf("said %q", got)
	}
	first.until("turn parked")
	if _, out, _ := p.turns("list"); !strings.Contains(out, "its plan does not fit this version of the bot: no plan that could run: unknown_action") {
		t.Errorf("list:\n%s", out)
	}
	if code, _, errs := p.turns("retry", "turn1"); code != 0 {
		t.Fatal(errs)
	}
	if got := connector.Next(t).Text(); got != said {
		t.Errorf("still without the action, it said %q", got)
	}
	first.until("turn parked")
	first.stop()

	model.Says("Cats purr.")
	startBot(t, "REDIS_URL="+p.url, "OPENAI_BASE_URL="+model.URL, "BOT_PROMPTS_DIR="+prompts)
	if code, _, errs := p.turns("retry", "turn1"); code != 0 {
		t.Fatal(errs)
	}
	if got := connector.Next(t).Text(); got != "Here: Cats purr." {
		t.Errorf("said %q", got)
	}
	if _, out, _ := p.turns("list"); !strings.HasPrefix(out, "0 turns parked") {
		t.Errorf("list:\n%s", out)
	}
	if calls := model.Calls(); len(calls) != 1 || !strings.Contains(calls[0].Text(), "A poem about cats, please.") {
		t.Errorf("the model was asked %d times", len(calls))
	}
}
