package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// tracing keeps the spans of a bot.
type tracing struct{ *tracetest.InMemoryExporter }

func newTracing() tracing { return tracing{tracetest.NewInMemoryExporter()} }

// of puts it into a config.
func (k tracing) of(c *bot.Config) {
	c.Traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(k))
}

// after ends the bot, so that no span is missing, and returns the spans by their begin.
func (k tracing) after(t *testing.T, b *bot.Bot) tracetest.SpanStubs {
	t.Helper()
	if err := b.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k.sorted()
}

func (k tracing) sorted() tracetest.SpanStubs {
	spans := k.GetSpans() // by their end
	deep := depths(spans)
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		if order := a.StartTime.Compare(b.StartTime); order != 0 {
			return order
		}
		return deep[a.SpanContext.SpanID()] - deep[b.SpanContext.SpanID()]
	})
	return spans
}

// depths says how many spans each is below.
func depths(spans tracetest.SpanStubs) map[trace.SpanID]int {
	parents := map[trace.SpanID]trace.SpanID{}
	for _, s := range spans {
		parents[s.SpanContext.SpanID()] = s.Parent.SpanID()
	}
	deep := map[trace.SpanID]int{}
	for id := range parents {
		for up := parents[id]; up.IsValid(); up = parents[up] {
			deep[id]++
		}
	}
	return deep
}

// tree shows each span as a line, below its parent.
func tree(spans tracetest.SpanStubs) []string {
	deep := depths(spans)
	var lines []string
	for _, s := range spans {
		line := strings.Repeat("  ", deep[s.SpanContext.SpanID()]) + s.Name
		if s.Status.Code == codes.Error {
			line += " " + attributeOf(s, "error.type")
		}
		lines = append(lines, line)
	}
	return lines
}

func attributeOf(s tracetest.SpanStub, name string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == name {
			return a.Value.String()
		}
	}
	return ""
}

func TestATurnIsATrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newTracing()
		b := setup(t, kept.of)
		b.model.Says(plan(do("createList", `{"list":"secretlist"}`), say("secretword")))
		b.say("secretwish")
		b.expect("secretword")
		spans := kept.after(t, b.bot)
		want := []string{
			"receive", "  turn", "    plan", "      chat fake", "    execute_tool createList",
			"    save", "    send", "    finish",
		}
		if diff := cmp.Diff(want, tree(spans)); diff != "" {
			t.Error(diff)
		}
		turn := spans[1]
		if attributeOf(turn, "planbot.turn.id") == "" || attributeOf(turn, "gen_ai.conversation.id") != "a:mia" ||
			attributeOf(turn, "planbot.channel") != "msteams" || attributeOf(turn, "planbot.activity.type") != "message" {
			t.Errorf("%v", turn.Attributes)
		}
		if strings.Contains(fmt.Sprint(spans), "secret") {
			t.Errorf("content in %v", spans)
		}
	})
}

func TestFailuresShowInTheTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newTracing()
		b := setup(t, kept.of)
		b.model.Fails(http.StatusUnauthorized, "invalid_api_key")
		b.say("hello")
		b.expectFault("")
		spans := kept.after(t, b.bot)
		want := []string{"receive", "  turn auth", "    plan auth", "      chat fake auth", "    send", "    finish"}
		got := slices.DeleteFunc(tree(spans), func(line string) bool { return strings.TrimSpace(line) == "save" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestATakenOverTurnStaysInItsTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		killed, kept := newTracing(), newTracing()
		b := setup(t)
		slow := addGate(b, "slow")
		first := b.addReplica(killed.of)
		b.model.Says(plan(do("slow", `{}`), say("All done.")))
		first.say("go")
		<-slow.entered
		first.kill()
		second := b.addReplica(kept.of)
		b.expect("All done.")
		spans := kept.after(t, second.bot)
		before := killed.sorted()
		turn := spans[0]
		if turn.Name != "turn" || attributeOf(turn, "planbot.turn.takeovers") != "1" || before[0].Name != "receive" ||
			turn.SpanContext.TraceID() != before[0].SpanContext.TraceID() || turn.Parent.SpanID() != before[0].SpanContext.SpanID() {
			t.Errorf("%v\n%v", before, spans)
		}
		if got := tree(spans); !slices.Contains(got, "    execute_tool slow") || slices.Contains(got, "    plan") {
			t.Errorf("%v", got)
		}
	})
}

func TestWhatFollowsAnApprovalIsInTheTraceOfWhoAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newTracing()
		d := newDesk(t, kept.of)
		d.model.Says(plan(do("closeTicket", `{"id":7}`), say("Closed it.")))
		approve, _ := buttons(t, d.ask(nil, "close it"))
		d.deliver(click(approve, nil))
		d.expect("Closed it.")
		turns := slices.DeleteFunc(kept.after(t, d.bot), func(s tracetest.SpanStub) bool { return s.Name != "turn" })
		if len(turns) != 3 { // who asked, who clicked, what followed: in virtual time all may begin at once
			t.Fatalf("%v", tree(turns))
		}
		asked := turns[0].SpanContext.TraceID()
		for _, turn := range turns {
			if clicked := attributeOf(turn, "planbot.activity.type") == "invoke"; clicked == (turn.SpanContext.TraceID() == asked) {
				t.Errorf("%v", turns)
			}
		}
	})
}

func TestNoticesAreInTheTraceOfWhoSendsThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newTracing()
		b := met(t, kept.of)
		actions.Add(b.actions, "remind", "Reminds", func(ctx context.Context, turn *actions.Turn, in struct{}) (actions.Result, error) {
			for _, n := range []actions.Notice{{Text: "now"}, {Text: "later", At: time.Now().Add(time.Second)}} {
				n.To = actions.To(turn.Activity)
				if _, err := b.bot.Notify(ctx, n); err != nil {
					return actions.Result{}, err
				}
			}
			return actions.Done, nil
		})
		b.model.Says(plan(do("remind", `{}`), say("Done.")))
		b.say("remind me")
		b.expect("Done.")
		b.expect("now")
		b.expect("later")
		turns := slices.DeleteFunc(kept.after(t, b.bot), func(s tracetest.SpanStub) bool { return s.Name != "turn" })
		if len(turns) != 4 { // hello, the one with the action, its two notices
			t.Fatalf("%v", tree(turns))
		}
		action, now, later := turns[1].SpanContext, turns[2], turns[3]
		if now.SpanContext.TraceID() != action.TraceID() || len(now.Links) != 0 {
			t.Errorf("%+v", now)
		}
		if later.SpanContext.TraceID() == action.TraceID() || later.Parent.IsValid() || len(later.Links) != 1 || later.Links[0].SpanContext.TraceID() != action.TraceID() {
			t.Errorf("%+v", later)
		}
	})
}
