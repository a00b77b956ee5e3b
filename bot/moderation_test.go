package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/metrics"
	guard "github.com/planbot-go/planbot/bot/moderation"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/models/moderation/service"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// flagged is the word that the fake moderator flags.
const flagged = "grobian"

const (
	saysNoToInput   = "Sorry, I can't help with that message. Please try other words."
	heldBack        = "Sorry, my answer did not pass a content check, so I held it back. Please try other words."
	cannotCheck     = "I can't check messages right now"
	withheldMessage = "[This message was withheld by moderation.]"
)

// moderator is a fake of OpenAI's moderation endpoint, over HTTP.
type moderator struct {
	moderation.Moderator
	mu    sync.Mutex
	texts []string // that it was asked about
	away  bool
}

func newModerator(t *testing.T) *moderator {
	t.Helper()
	m := &moderator{}
	made, err := service.NewOpenAI(service.OpenAIConfig{Key: "key-of-the-moderator", URL: serve(t, m).URL, Transport: overWires})
	must(t, err)
	m.Moderator = made
	return m
}

func (m *moderator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Input []string }
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &request)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = append(m.texts, request.Input...)
	if m.away {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var results []string
	for _, text := range request.Input {
		results = append(results, fmt.Sprintf(`{"flagged":%t,"categories":{"harassment":%[1]t}}`, strings.Contains(text, flagged)))
	}
	_, _ = io.WriteString(w, `{"results":[`+strings.Join(results, ",")+`]}`)
}

// asked takes the texts that the moderator was asked about.
func (m *moderator) asked() (texts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	texts, m.texts = m.texts, nil
	return texts
}

func (m *moderator) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *moderator) guards(c *bot.Config) { c.Moderation.Moderator = m.Moderator }

// moderated is a bot with a moderator and the action sendMail, which counts its calls and returns its
// body, and cite, whose result is flagged.
type moderated struct {
	*bundle
	by      *moderator
	metrics *prometheus.Registry
	mails   chan string
}

func newModerated(t *testing.T, change ...func(*bot.Config)) *moderated {
	t.Helper()
	by, registry := newModerator(t), prometheus.NewRegistry()
	m := &moderated{by: by, metrics: registry, mails: make(chan string, 9)}
	m.bundle = setup(t, append([]func(*bot.Config){by.guards, audited, func(c *bot.Config) {
		c.Metrics, c.Log = metrics.To(registry), c.Log.Level(zerolog.DebugLevel) // more of it is what models are told and say
	}}, change...)...)
	actions.Add(m.actions, "sendMail", "Sends a mail", func(_ context.Context, _ *actions.Turn, in struct {
		Body string   `json:"body"`
		To   []string `json:"to,omitempty"`
	},
	) (actions.Result, error) {
		m.mails <- in.Body
		return actions.Text("sent"), nil
	})
	actions.Add(m.actions, "cite", "Cites a book", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Text("you %s", flagged), nil
	})
	return m
}

// keptNothing fails if the flagged word is in the log, in what Redis keeps, or in the metrics.
func (m *moderated) keptNothing() {
	m.Helper()
	m.until("that the turn is over", func() bool { _, id, _ := m.record(`"id"`); return id == "" })
	for where, text := range map[string]string{"the log": m.log.String(), "Redis": m.kept(), "the metrics": fmt.Sprint(m.gather(m.metrics))} {
		if strings.Contains(text, flagged) || strings.Contains(text, "key-of-the-moderator") {
			m.Errorf("%s has what was flagged, or the key:\n%s", where, text)
		}
	}
}

// TestFlaggedInput: no model is asked, the person reads one sentence, and only the categories and a
// hash stay.
func TestFlaggedInput(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		m.say("you " + flagged)
		m.expect(saysNoToInput)
		m.keptNothing()
		if n := len(m.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
		if log := m.log.String(); !strings.Contains(log, `"categories":["harassment"]`) || !strings.Contains(log, `"kinds":["said"]`) {
			t.Errorf("log:\n%s", log)
		}
		if all := m.expectAudit("moderation harassment flagged aad-mia"); len(all) == 1 && len(all[0].Entities) != 64 {
			t.Errorf("audit %+v", all)
		}
		m.model.Says(plan(say("Hello.")))
		m.say("hello")
		m.expect("Hello.")
		prompt := m.model.Calls()[0].Text()
		if !strings.Contains(prompt, withheldMessage) || strings.Contains(prompt, "Sorry") || strings.Contains(prompt, flagged) {
			t.Errorf("the history is not the mark alone:\n%s", prompt)
		}
		if diff := cmp.Diff([]string{"you " + flagged, "hello", "Hello."}, m.by.asked()); diff != "" {
			t.Error(diff)
		}
		if got := m.gather(m.metrics); got["planbot_moderation_total flagged"] != 1 || got["planbot_moderation_total passed"] != 2 {
			t.Errorf("metrics %v", got)
		}
		m.connector.None(t)
	})
}

// TestFlaggedQuotes: what a person quotes is judged as what they write.
func TestFlaggedQuotes(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		m.deliver(event{"text": "is that so?", "entities": []event{{"type": "quotedReply", "quotedReply": event{"messageId": "1", "senderId": "29:ben", "preview": "you " + flagged}}}})
		m.expect(saysNoToInput)
		m.keptNothing()
		if n := len(m.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
	})
}

// TestFlaggedPlan: nothing of a plan runs if any text of it is flagged, wherever it stands.
func TestFlaggedPlan(t *testing.T) {
	t.Parallel()
	bad, good := `{"body":"you `+flagged+`"}`, `{"body":"hello"}`
	for name, made := range map[string]string{
		"an entity":        plan(do("sendMail", bad), say("Sent.")),
		"the SAY after it": plan(do("sendMail", good), say("Sent to the "+flagged+".")),
		"the second DO":    plan(do("sendMail", good), do("sendMail", bad)),
		"within a list":    plan(do("sendMail", `{"body":"hello","to":["mia","`+flagged+`"]}`), say("Sent.")),
		"prose":            "You are a " + flagged + ".",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, newModerated, func(t *testing.T, m *moderated) {
				m.model.Says(made)
				m.say("write to Otto")
				m.expect(heldBack)
				m.keptNothing()
				m.expectAudit("moderation harassment flagged aad-mia")
				if len(m.mails) != 0 {
					t.Errorf("%d mails were sent", len(m.mails))
				}
				m.model.Says(plan(say("Hello.")))
				m.say("hello")
				m.expect("Hello.")
				calls := m.model.Calls()
				if prompt := calls[1].Text(); len(calls) != 2 || !strings.Contains(prompt, "write to Otto") || !strings.Contains(prompt, "withheld") || strings.Contains(prompt, flagged) {
					t.Errorf("%d calls, the last\n%s", len(calls), prompt)
				}
				m.connector.None(t)
			})
		})
	}
}

// TestFlaggedResults: a text with variables is judged when they are filled in, before it is said or an
// action gets it.
func TestFlaggedResults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ then, want string }{
		"in a SAY": {say("The book says: $B"), heldBack + " Before that I did: Cite."},
		"in a DO":  {do("sendMail", `{"body":"He wrote $B"}`), heldBack + " Before that I did: Cite."},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, newModerated, func(t *testing.T, m *moderated) {
				m.model.Says(plan(saved(do("cite", `{}`), "B"), tt.then))
				m.say("cite it")
				m.expect(tt.want)
				m.keptNothing()
				if len(m.mails) != 0 {
					t.Error("a mail was sent")
				}
				m.connector.None(t)
			})
		})
	}
}

// TestWhatPassesIsJudgedOnce: the input, then the plan as a whole, then only what variables change.
func TestWhatPassesIsJudgedOnce(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		m.model.Says(plan(saved(do("sendMail", `{"body":"hello","to":["otto"]}`), "R"), say("Done with it."), say("It was $R")))
		m.say("write")
		m.expect("Done with it.")
		m.expect("It was sent")
		if diff := cmp.Diff([]string{"write", "Done with it.", "It was $R", "body\nto", "hello", "otto", "It was sent"}, m.by.asked()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFilteredTextOfModeration replaces the sentence.
func TestFilteredTextOfModeration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModerated(t, func(c *bot.Config) { c.FilteredText = "Not here." })
		m.say(flagged)
		m.expect("Not here.")
		m.deliver(event{"text": flagged, "locale": "de-DE"})
		m.expect("Not here.")
	})
}

// TestSentencesOfModeration are in the person's language.
func TestSentencesOfModeration(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		m.deliver(event{"text": flagged, "locale": "de-DE"})
		m.expect("Entschuldigung, bei dieser Nachricht kann ich nicht helfen. Bitte versuch es mit anderen Worten.")
	})
}

// TestAModeratorThatIsAway stops the turn, unless the bot fails open. Its person may try again.
func TestAModeratorThatIsAway(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		m.by.setAway(true)
		m.say("hello")
		m.expectFault(cannotCheck)
		if n := len(m.model.Calls()); n != 0 || len(m.by.asked()) != 2 {
			t.Errorf("%d model calls, or not two tries", n)
		}
		m.by.setAway(false)
		m.model.Answers(func(w http.ResponseWriter, r *http.Request) {
			m.by.setAway(true)
			fakemodel.Answer{Text: plan(do("sendMail", `{"body":"x"}`), say("Sent."))}.Write(w, r, fakemodel.Call{})
		})
		m.say("write")
		m.expectFault(cannotCheck)
		if len(m.mails) != 0 {
			t.Error("a plan ran without a verdict")
		}
		m.until("that both are counted", func() bool { return m.gather(m.metrics)["planbot_moderation_total failed"] == 2 })
	})
}

func TestAModeratorThatIsAwayAndABotThatFailsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModerated(t, func(c *bot.Config) { c.Moderation.FailOpen = true })
		m.by.setAway(true)
		m.model.Says(plan(do("sendMail", `{"body":"x"}`), say("Sent.")))
		m.say("write")
		m.expect("Sent.")
		if got := m.gather(m.metrics); got["planbot_moderation_total let_through"] != 2 || len(m.mails) != 1 {
			t.Errorf("metrics %v", got)
		}
		if log := m.log.String(); strings.Count(log, "could not be judged and is let through") != 2 {
			t.Errorf("log:\n%s", log)
		}
		m.by.setAway(false)
		m.say(flagged)
		m.expect(saysNoToInput)
	})
}

// hangs is a transport on which no answer ever comes.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// stubborn is a moderator of somebody else that waits for the end of its context.
type stubborn struct{}

func (stubborn) Judge(ctx context.Context, _ []moderation.Piece) (moderation.Verdict, error) {
	<-ctx.Done()
	return moderation.Verdict{}, errors.New("no verdict")
}

// TestAModeratorThatHangs holds up a turn for two tries of three seconds, or one that sets no limit
// for ten.
func TestAModeratorThatHangs(t *testing.T) {
	t.Parallel()
	slow, err := service.NewAzure(service.AzureConfig{URL: "https://a.example.com", Key: "k", Threshold: 4, Transport: hangs{}})
	must(t, err)
	for name, tt := range map[string]struct {
		by   moderation.Moderator
		most time.Duration
	}{
		"two tries":      {slow, 6 * time.Second},
		"without limits": {stubborn{}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: actions.New(), Change: func(c *bot.Config) { c.Moderation.Moderator = tt.by }}, func(t *testing.T, kit *bottest.Kit) {
				mia, began := kit.Personal("Mia"), time.Now()
				mia.Say("hello")
				mia.ExpectMatch(cannotCheck)
				if took := time.Since(began); took > tt.most+time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// TestWhatActionsRead is judged before the model sees it.
func TestWhatActionsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModerated(t, func(c *bot.Config) {
			c.Moderation.Moderator = moderatorOf(func(p moderation.Piece) bool {
				return p.Kind == moderation.Document && strings.Contains(p.Text, flagged)
			})
		})
		m.model.Says(plan(do("cite", `{}`)))
		m.say("cite it")
		m.expect("Sorry, something that I read for this did not pass a content check, so I stopped. Before that I did: Cite.")
		m.keptNothing()
		if n := len(m.model.Calls()); n != 1 {
			t.Errorf("%d model calls", n)
		}
	})
}

// TestWhatDataSourcesFind is judged before the model sees it, too.
func TestWhatDataSourcesFind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		must(t, os.Mkdir(filepath.Join(folder, "sequence"), 0o700))
		for name, text := range map[string]string{"prompt.txt": "Hello.", "config.json": `{"augmentation": {"augmentation_type": "sequence", "data_sources": {"wiki": 900}}}`} {
			must(t, os.WriteFile(filepath.Join(folder, "sequence", name), []byte(text), 0o600))
		}
		library, err := prompts.Load(folder)
		must(t, err)
		m := newModerated(t)
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: m.model.URL, Model: "fake", Timeout: 5 * time.Second, Transport: overWires})
		must(t, err)
		found := "you " + flagged
		m.addReplica(func(c *bot.Config) {
			c.Moderation.Moderator = moderatorOf(func(p moderation.Piece) bool {
				return p.Kind == moderation.Document && strings.Contains(p.Text, flagged)
			})
			c.Planner, err = planner.NewSequence(t.Context(), planner.Config{
				Model: model, Prompts: library, Actions: m.actions,
				DataSources: map[string]func(context.Context, *actions.Turn, string, int) (string, error){
					"wiki": func(context.Context, *actions.Turn, string, int) (string, error) { return found, nil },
				},
			})
			must(t, err)
		}).say("what does it say?")
		m.expect("Sorry, something that I read for this did not pass a content check, so I stopped.")
		m.keptNothing()
		if n := len(m.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
	})
}

// TestAPassageThatIsFlagged is left out, and the question is answered from the others. What passed is not judged again.
func TestAPassageThatIsFlagged(t *testing.T) {
	t.Parallel()
	for name, knows := range map[string]bool{"the moderator knows which": true, "it does not": false} {
		synctest.Test(t, func(t *testing.T) {
			m := newModerated(t)
			base, err := knowledge.New(knowledge.Config{Sources: []knowledge.NamedSource{{Name: "wiki", Source: passages{
				{ID: "a#1", Document: "a", Text: "The garage is " + flagged}, {ID: "b#1", Document: "b", Text: "The garage is teal."},
			}}}})
			must(t, err)
			must(t, base.Register(m.actions))
			judged := 0
			by := moderatorOf(func(p moderation.Piece) bool {
				if p.Kind == moderation.Document {
					judged++
				}
				return p.Kind == moderation.Document && strings.Contains(p.Text, flagged)
			})
			m.model.Says(plan(do("searchKnowledge", `{"query":"garage"}`)), plan(say("It is as it is [1].")))
			m.addReplica(func(c *bot.Config) {
				c.Moderation.Moderator = by
				if !knows {
					c.Moderation.Moderator = vague{by}
				}
			}).say("which colour has the garage?")
			want, answer := "What was found did not pass a content check", "It is as it is."
			if knows {
				want, answer = "The garage is teal.", "It is as it is [1]."
			}
			m.expect(answer)
			read := m.model.Calls()[1].Text()
			if !strings.Contains(read, want) || strings.Contains(read, flagged) || !strings.Contains(read, "did not pass a content check") || judged != 2 {
				t.Errorf("%s: %d pieces were judged, and the model reads %s", name, judged, read)
			}
		})
	}
}

// vague does not say which piece it flags.
type vague struct{ moderation.Moderator }

func (v vague) Judge(ctx context.Context, pieces []moderation.Piece) (moderation.Verdict, error) {
	verdict, err := v.Moderator.Judge(ctx, pieces)
	verdict.Pieces = nil
	return verdict, err
}

// TestAModeratorThatPanics has no verdict, also where it is asked beside the turn.
func TestAModeratorThatPanics(t *testing.T) {
	by := moderatorOf(func(p moderation.Piece) bool { return p.Kind == moderation.PlannedSay && *(*bool)(nil) })
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"You have some lists here. There are ", 3*time.Second, "two."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Which lists do I have?")
		mia.ExpectMatch(cannotCheck)
	}, func(c *bot.Config) { c.Moderation.Moderator = by })
}

// TestNoEarlyTextWithAModerator: people see what the bot is doing, and an answer when it is whole and
// judged.
func TestNoEarlyTextWithAModerator(t *testing.T) {
	by := moderatorOf(func(p moderation.Piece) bool { return strings.Contains(p.Text, flagged) })
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for _, tt := range [][2]string{{"That is a nice question, Mia, and long.", "That is a nice question, Mia, and long."}, {"That is a nice question, you " + flagged, heldBack}} {
			kit.Model.Answers(writes(300*time.Millisecond, answerOpens+tt[0], 3*time.Second, answerEnds))
			mia.Say("Why?")
			mia.Expect(tt[1])
		}
		expectWire(t, kit, "informative Thinking…", "final That is a nice question, Mia, and long.", "informative Thinking…", "final "+heldBack)
	}, func(c *bot.Config) { c.Moderation.Moderator = by })
}

// moderatorOf is a moderator that flags the pieces for which the function says so.
type moderatorOf func(moderation.Piece) bool

func (f moderatorOf) Judge(_ context.Context, pieces []moderation.Piece) (v moderation.Verdict, err error) {
	for i, p := range pieces {
		if f(p) {
			v.Categories, v.Pieces = []string{"harassment"}, append(v.Pieces, i)
		}
	}
	return v, nil
}

// TestATakeoverKnowsTheVerdicts: it asks about nothing again, and judges a plan that has no verdict
// before it runs.
func TestATakeoverKnowsTheVerdicts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first bool // the first process has the moderator, too
		text  string
		want  string
		asked []string
	}{
		"with verdicts":       {true, "All done.", "All done.", nil},
		"without":             {false, "All done.", "All done.", []string{"All done."}},
		"without, and it bad": {false, "You " + flagged, heldBack, []string{"You " + flagged}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, by := setup(t), newModerator(t)
				slow, after := addGate(b, "slow"), addCount(b, "after")
				first := b.addReplica(func(c *bot.Config) {
					if tt.first {
						by.guards(c)
					}
				})
				b.model.Says(plan(do("slow", `{}`), do("after", `{}`), say(tt.text)))
				first.say("go")
				<-slow.entered
				first.kill()
				by.asked()
				b.addReplica(by.guards)
				b.expect(tt.want)
				if diff := cmp.Diff(tt.asked, by.asked()); diff != "" {
					t.Error(diff)
				}
				if ran := after.Load() == 1; ran != (tt.want == tt.text) || len(b.model.Calls()) != 1 {
					t.Errorf("ran the rest: %t, %d model calls", ran, len(b.model.Calls()))
				}
			})
		})
	}
}

// TestAClickThatIsFlagged does not call the action.
func TestAClickThatIsFlagged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		by := newModerator(t)
		saw := make(chan string, 9)
		b := setup(t, by.guards, func(c *bot.Config) {
			actions.OnClick(c.Actions, "note", func(_ context.Context, _ *actions.Turn, in struct {
				Text string `json:"text"`
			},
			) (actions.Result, error) {
				saw <- in.Text
				return actions.Text("noted"), nil
			})
		})
		for text, want := range map[string]string{"hello": "noted", "you " + flagged: saysNoToInput} {
			if got := b.deliver(pressed("note", event{"text": text})); !strings.Contains(got.body, want) {
				t.Errorf("%q is answered with %s", text, got.body)
			}
		}
		if len(saw) != 1 || <-saw != "hello" {
			t.Error("the action was called with what was flagged")
		}
	})
}

// TestModerationIsOffByDefault: without a moderator a bot judges nothing.
func TestModerationIsOffByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.Moderation = guard.Config{FailOpen: true} })
		b.model.Says(plan(say("You " + flagged)))
		b.say(flagged)
		b.expect("You " + flagged)
	})
}

// TestSentencesAppearOnceTheyHavePassed: what a person sees early was judged, sentence by sentence, each
// with the end of what is before it. What is flagged is never seen, and what was seen is replaced.
func TestSentencesAppearOnceTheyHavePassed(t *testing.T) {
	for name, tt := range map[string]struct {
		second, said string
		wire         []string
		asked        []string
	}{
		"passes": {
			"There are two of them, Mia. Bye", "You have some lists here. There are two of them, Mia. Bye",
			[]string{"streaming You have some lists here.", "streaming You have some lists here. There are two of them, Mia.", "final You have some lists here. There are two of them, Mia. Bye"},
			[]string{"You have some lists here.", "You have some lists here. There are two of them, Mia.", "You have some lists here. There are two of them, Mia. Bye"},
		},
		"is flagged": {
			"You are a " + flagged + ". Bye", "You have some lists here.",
			[]string{"streaming You have some lists here.", "final You have some lists here.", "PUT " + heldBack},
			[]string{"You have some lists here.", "You have some lists here. You are a " + flagged + "."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			by := moderatorOf(func(p moderation.Piece) bool {
				mu.Lock()
				defer mu.Unlock()
				if p.Kind == moderation.PlannedSay {
					asked = append(asked, p.Text)
				}
				return strings.Contains(p.Text, flagged)
			})
			streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"You have some lists ", 600*time.Millisecond, "here. "+tt.second[:3],
					3*time.Second, tt.second[3:], 6*time.Second, answerEnds))
				mia := kit.Personal("Mia")
				mia.Say("Which lists do I have?")
				mia.Expect(tt.said)
				expectWire(t, kit, tt.wire...)
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(tt.asked, asked); diff != "" {
					t.Error(diff)
				}
			}, func(c *bot.Config) { c.Moderation.Moderator = by })
		})
	}
}

// TestResultsOfAFlaggedTurn are kept from hooks, too: what was flagged may be in them.
func TestResultsOfAFlaggedTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan []actions.Outcome, 1)
		m := newModerated(t, func(c *bot.Config) {
			c.Features = append(c.Features, bot.Feature{Ended: func(_ context.Context, t *bot.Turn, _ turn.Ended) { ended <- t.Outcomes() }})
		})
		m.model.Says(plan(saved(do("cite", `{}`), "B"), say("The book says: $B")))
		m.say("cite it")
		m.expect(heldBack + " Before that I did: Cite.")
		if outcomes := <-ended; len(outcomes) != 1 || outcomes[0].Action != "cite" || outcomes[0].Text != "" || outcomes[0].Shown != "" {
			t.Errorf("outcomes %+v", outcomes)
		}
	})
}

// TestCardsAreJudged before anybody sees them, though an action made them: words of the model may be in
// them.
func TestCardsAreJudged(t *testing.T) {
	inBubble(t, newModerated, func(t *testing.T, m *moderated) {
		actions.Add(m.actions, "draw", "Draws a card", func(_ context.Context, _ *actions.Turn, in struct {
			First string `json:"first"`
		},
		) (actions.Result, error) {
			return actions.Card(activity.Card{Fallback: "a card", Body: []any{activity.TextBlock{Text: in.First + "bian"}}}, "drawn"), nil
		})
		m.model.Says(plan(do("draw", `{"first":"gro"}`)))
		m.say("draw")
		m.expect(heldBack + " Before that I did: Draw.")
		m.connector.None(t)
		if asked := m.by.asked(); !slices.Contains(asked, flagged) || slices.Contains(asked, "TextBlock") {
			t.Errorf("asked about %q", asked)
		}
	})
}

// TestQuestionsAreJudged before the person reads them, and what the person types before the call gets it.
func TestQuestionsAreJudged(t *testing.T) {
	t.Parallel()
	by := moderatorOf(func(p moderation.Piece) bool { return strings.Contains(p.Text, flagged) })
	acts, got := actions.New(), make(chan map[string]any, 9)
	actions.Add(acts, "order", "Orders it", func(ctx context.Context, _ *actions.Turn, in struct {
		Hint string `json:"hint"`
	},
	) (actions.Result, error) {
		if answer := actions.AttemptOf(ctx).Answer; answer != nil {
			got <- answer.Values
			return actions.Text("ordered"), nil
		}
		return actions.Ask(actions.Form{Text: "Where to?", Fields: []actions.Field{{Name: "place", Hint: in.Hint + "bian"}}}, nil), nil
	})
	bottest.Test(t, bottest.Config{Actions: acts, Change: func(c *bot.Config) { c.Moderation.Moderator = by }}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(do("order", `{"hint":"gro"}`)))
		mia.Say("order it")
		mia.Expect(heldBack)
		kit.Settle()
		for typed, want := range map[string]string{"gate 7": "ordered", "you " + flagged: saysNoToInput} {
			kit.Model.Says(plan(saved(do("order", `{"hint":"nu"}`), "O"), say("$O")))
			mia.Say("order it")
			mia.ExpectCard("nubian").Press("Send", "f0", typed)
			mia.Expect(want)
		}
		if len(got) != 1 || (<-got)["place"] != "gate 7" {
			t.Error("the action was called with what was flagged")
		}
		kit.Model.Says(plan(say("Hello.")))
		mia.Say("hello")
		mia.Expect("Hello.")
		if prompt := kit.Model.LastCall().Prompt(); strings.Contains(prompt, flagged) || strings.Count(prompt, "order it") != 3 {
			t.Errorf("the model is told %s", prompt)
		}
	})
}
