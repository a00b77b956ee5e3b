package app

import (
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/fakemodel"
)

// TestADeadLetterIsRetried: a bot takes over a turn whose plan calls an action that it
// does not have, and makes a dead letter of it; one that has the action then goes on with it.
func TestADeadLetterIsRetried(t *testing.T) {
	t.Parallel()
	l := newLetters(t, redisServer(t))
	connector, model := newConnector(t), fakemodel.New(t)
	prompts := filesIn(t, map[string]string{
		"ShortPoem/skprompt.txt": "A poem about {{$input}}, please.",
		"ShortPoem/config.json":  `{"description": "Writes a short poem", "input": {"parameters": [{"name": "input", "description": "its subject"}]}}`,
	})
	lease := l.accept("turn1", `{"v":1,"id":"turn1","accepted":"`+time.Now().UTC().Format(time.RFC3339)+`","activity":{"type":"message","id":"1","channelId":"console","serviceUrl":"`+connector.URL+
		`","from":{"id":"u"},"recipient":{"id":"b"},"conversation":{"id":"c"},"text":"a poem about cats"},"phase":"running",`+
		`"run":{"progress":{"plan":{"commands":[`+
		`{"type":"DO","action":"ShortPoem","entities":{"input":"cats"},"saveAs":"POEM"},`+
		`{"type":"SAY","response":"Here: $POEM"}]},"next":0,"variables":{}},"rounds":[{}],"usage":{}}}`)
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}

	first := startBot(t, "REDIS_URL="+l.url, "OPENAI_BASE_URL="+model.URL, "BOT_TURNS_KEEP=1h")
	const said = "Sorry, I could not finish this. Somebody has to look at it. (turn turn1)"
	if got := connector.next(t); got != said {
		t.Errorf("said %q", got)
	}
	first.until("dead letter: an operator has to look at this turn")
	if _, out, _ := l.turns("list"); !strings.Contains(out, "its plan does not fit this version of the bot: no plan that could run: unknown_action") {
		t.Errorf("list:\n%s", out)
	}
	if code, _, errs := l.turns("retry", "turn1"); code != 0 {
		t.Fatal(errs)
	}
	if got := connector.next(t); got != said {
		t.Errorf("still without the action, it said %q", got)
	}
	first.until("dead letter: an operator has to look at this turn")
	first.stop()
	if _, out, errs := l.turns("find", said); !strings.Contains(out, "outcome       dead_letter\n") || !strings.HasSuffix(out, "bot turns show turn1\n") {
		t.Errorf("find: %s%s", out, errs)
	}

	model.Says("Cats purr.")
	startBot(t, "REDIS_URL="+l.url, "OPENAI_BASE_URL="+model.URL, "BOT_PROMPTS_DIR="+prompts)
	if code, _, errs := l.turns("retry", "turn1"); code != 0 {
		t.Fatal(errs)
	}
	if got := connector.next(t); got != "Here: Cats purr." {
		t.Errorf("said %q", got)
	}
	if _, out, _ := l.turns("list"); !strings.HasPrefix(out, "0 dead letters") {
		t.Errorf("list:\n%s", out)
	}
	if calls := model.Calls(); len(calls) != 1 || !strings.Contains(calls[0].Text(), "A poem about cats, please.") {
		t.Errorf("the model was asked %d times", len(calls))
	}
}
