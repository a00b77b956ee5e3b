package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// signing is a bot with actions that need people to sign in.
type signing struct {
	*bottest.Kit
	bot        *bot.Bot
	log, redis logBuffer

	mu   sync.Mutex
	used []string // action, and the token that it got
	bad  int      // how many calls find that the service does not take the token
	more []string // scopes that the service wants; nil: it wants no more
}

// testSignIn runs f with a bot that has readMail and sendMail (graph), and openIssue (github), of which
// sendMail also needs an approval.
func testSignIn(t *testing.T, cfg bottest.Config, f func(t *testing.T, s *signing)) {
	t.Helper()
	t.Parallel()
	s := &signing{}
	acts := actions.New()
	add := func(name, connection string, opts ...actions.Option) {
		actions.Add(acts, name, "Does it", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			token, err := turn.UserToken(ctx, connection)
			if err != nil {
				return actions.Done, err
			}
			turn.Activity.Text = fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, struct{ a any }{token}) // whatever it prints
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.bad > 0 {
				s.bad--
				return actions.Done, fmt.Errorf("it answered 401: %w", connector.ErrNoUserToken)
			}
			if s.more != nil {
				return actions.Done, fmt.Errorf("it answered 403: %w", &connector.ScopeError{Scopes: s.more})
			}
			s.used = append(s.used, name+" "+token.Secret())
			return actions.Text("did it"), nil
		}, append(opts, actions.NeedsToken(connection))...)
	}
	add("readMail", "graph")
	add("sendMail", "graph", actions.NeedsApproval)
	add("openIssue", "github")
	actions.Add(acts, "note", "Notes it", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = append(s.used, "note")
		return actions.Done, nil
	})
	name, change := cfg.Planner, cfg.Change
	cfg.Planner, cfg.Change, cfg.Log, cfg.ToRedis = "", nil, &s.log, &s.redis
	cfg.New = func(ctx context.Context, parts bottest.Parts) (b *bot.Bot, err error) {
		c := parts.Bot
		c.Actions = acts
		if c.Planner, err = parts.Planner(ctx, name, planner.Config{Actions: acts}); err != nil {
			return nil, err
		}
		if change != nil {
			change(&c)
		}
		if b, err = bot.New(c); err == nil {
			b.OnNotice("mail", func(ctx context.Context, t *bot.Turn) error { return t.Plan(ctx) })
			s.bot = b
		}
		return b, err
	}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		s.Kit = kit
		f(t, s)
		kit.Settle()
		for _, call := range kit.Model.Calls() {
			_, _ = s.redis.Write([]byte(call.Prompt())) // it never fails
		}
		for _, secret := range []string{"sso-token-of", "token-", "745254", "745255"} {
			for what, text := range map[string]string{"the log": s.log.String(), "what was stored or asked": s.redis.String()} {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s has a secret: %q", what, text[max(0, i-200):i+40])
				}
			}
		}
	})
}

// ran checks which actions ran, with whose token.
func (s *signing) ran(t *testing.T, want ...string) {
	t.Helper()
	s.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	short := func(one string) string {
		name, token, _ := strings.Cut(one, " ")
		_, whose, _ := strings.Cut(token, " for ")
		return strings.TrimSpace(name + " " + whose)
	}
	var got []string
	for _, one := range s.used {
		got = append(got, short(one))
	}
	if !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

// asked counts the calls of the token service with that path.
func (s *signing) asked(path string) (n int) {
	for _, c := range s.Tokens.Calls() {
		if strings.HasSuffix(c.Path, path) {
			n++
		}
	}
	return n
}

func wantCard(t *testing.T, s bottest.Sent, connection string) bottest.Sent {
	t.Helper()
	if c := s.SignInCard(); c == nil || c.Connection != connection || s.Activity.Recipient.ID == "" || len(c.Buttons) != 1 {
		t.Fatalf("sent %s, want a card for %s", s.JSON, connection)
	}
	return s
}

func wantStatus(t *testing.T, d *bottest.Delivery, want int) {
	t.Helper()
	if d.Status != want {
		t.Errorf("status %d %s, want %d", d.Status, d.Body, want)
	}
}

const readsMail = `{"type":"plan","commands":[{"type":"DO","action":"note","entities":{}},{"type":"DO","action":"readMail","entities":{}},{"type":"SAY","response":"You have 2 mails."}]}`

func TestSignInSilently(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(readsMail)
		chat := s.Personal("Mia")
		chat.Say("read my mail")
		card := wantCard(t, chat.Next(), "graph")
		if card.SignInCard().Exchange == nil || strings.Contains(card.JSON, "null") || strings.Contains(card.JSON, "isTargeted") {
			t.Errorf("the card is %s", card.JSON)
		}
		s.ran(t, "note")
		var both []*bottest.Delivery
		s.Together(func() { both = append(both, card.SignIn()) }, func() { both = append(both, card.SignIn()) })
		for _, d := range append(both, card.SignIn()) { // three clients, one of them late
			wantStatus(t, d, http.StatusOK)
		}
		chat.Expect("You have 2 mails.")
		s.ran(t, "note", "readMail graph of 29:mia")
		if n := s.asked("/exchange"); n != 1 {
			t.Errorf("%d exchanges", n)
		}
		s.Model.Says(readsMail)
		chat.Say("and again")
		chat.Expect("You have 2 mails.") // signed in already
	})
}

func TestSignInNeedsConsent(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(readsMail)
		chat := s.Personal("Mia")
		chat.Say("read my mail")
		card := wantCard(t, chat.Next(), "graph")
		for _, status := range []int{400, 404, 409, 412} {
			s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer {
				return bottest.Answer{Status: status, Body: `{"error":{"message":"token-x"}}`}
			})
			d := card.SignIn()
			wantStatus(t, d, http.StatusPreconditionFailed)
			if !strings.Contains(string(d.Body), `"failureDetail":`) || !strings.Contains(string(d.Body), `"connectionName":"graph"`) {
				t.Errorf("answer %s", d.Body)
			}
		}
		for _, fault := range []bottest.Answer{{Status: 500}, {Status: 401}, {CutOff: true}, {Status: 200, Body: "<html>"}} {
			before := s.asked("/exchange")
			s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return fault })
			wantStatus(t, card.SignIn(), http.StatusBadGateway)
			if n := s.asked("/exchange") - before; n > 2 {
				t.Errorf("%+v was tried %d times", fault, n)
			}
		}
		chat.ExpectNothing()
		s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return bottest.Answer{} })
		d := chat.Deliver(map[string]any{"type": "invoke", "name": "signin/verifyState", "value": map[string]any{"state": s.Tokens.Page("Mia", "graph")}})
		wantStatus(t, d, http.StatusOK)
		chat.Expect("You have 2 mails.")
		s.ran(t, "note", "readMail graph of 29:mia")
		wantStatus(t, card.SignIn(), http.StatusOK) // it is complete
	})
}

func TestSignInByCode(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		group := s.Group("team", "Mia", "Ben")
		s.Model.Says(readsMail)
		group.Mention("read my mail")
		wantCard(t, group.Next(), "graph")
		s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"What number?"}]}`)
		group.As("Ben").Mention("111111")
		group.Expect("What number?")
		group.Mention("999999")
		group.ExpectMatch("That code didn't work. Please send")
		s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return bottest.Answer{Status: 503} })
		code := s.Tokens.Page("Mia", "graph")
		group.Mention(code)
		group.ExpectMatch("couldn't check the code")
		s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return bottest.Answer{} })
		group.Mention(code)
		group.Expect("You have 2 mails.")
		s.ran(t, "note", "readMail graph of 29:mia")
	})
}

// TestSignInCodeAgain: a code that the channel delivers once more, when it is worth nothing any more, is a
// duplicate, and no message for the model.
func TestSignInCodeAgain(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(readsMail)
		chat := s.Personal("Mia")
		chat.Say("read my mail")
		wantCard(t, chat.Next(), "graph")
		for range 2 { // their codes must not reach Redis, see testSignIn
			s.Tokens.Page("Mia", "graph")
		}
		code := chat.Say(s.Tokens.Page("Mia", "graph"))
		chat.Expect("You have 2 mails.")
		code.Again(chat)
		chat.ExpectNothing()
		if n := len(s.Model.Calls()); n != 1 {
			t.Errorf("%d calls of the model", n)
		}
	})
}

func TestSignInEnds(t *testing.T) {
	ends := map[string]func(t *testing.T, s *signing, chat *bottest.Chat){
		"by the person": func(t *testing.T, s *signing, chat *bottest.Chat) {
			wantStatus(t, chat.Invoke("signin/verifyState", map[string]any{"state": "CancelledByUser"}), http.StatusOK)
			chat.Expect("OK, I won't do this: Read mail.")
		},
		"by wrong codes": func(t *testing.T, s *signing, chat *bottest.Chat) {
			for range 2 {
				wantStatus(t, chat.Invoke("signin/verifyState", map[string]any{"state": "000000"}), http.StatusPreconditionFailed)
				chat.ExpectMatch("That code didn't work. ")
			}
			chat.Say("000000")
			chat.Expect("That code didn't work either. OK, I won't do this: Read mail.")
		},
		"by time": func(t *testing.T, s *signing, chat *bottest.Chat) {
			time.Sleep(15*time.Minute + time.Second)
		},
		"by another": func(t *testing.T, s *signing, chat *bottest.Chat) {
			s.Model.Says(readsMail)
			chat.Say("no, read it again")
			card := wantCard(t, chat.Next(), "graph")
			wantStatus(t, card.SignIn(), http.StatusOK)
			chat.Expect("You have 2 mails.")
			s.ran(t, "note", "note", "readMail graph of 29:mia")
			s.used = s.used[:1]
		},
		"by /signout": func(t *testing.T, s *signing, chat *bottest.Chat) {
			chat.Say("/signout")
			chat.Expect("I've signed you out.")
		},
		"by /forget": func(t *testing.T, s *signing, chat *bottest.Chat) {
			chat.Say("/forget yes")
			chat.ExpectMatch("deleted everything")
			if s.asked("/SignOut") != 2 {
				t.Error("not signed out")
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
				s.Model.Says(readsMail)
				chat := s.Personal("Mia")
				chat.Say("read my mail")
				card := wantCard(t, chat.Next(), "graph")
				end(t, s, chat)
				s.Settle()
				wantStatus(t, card.SignIn(), http.StatusOK)
				s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Just a number."}]}`)
				chat.Say("123123") // no code any more
				chat.Expect("Just a number.")
				s.ran(t, "note")
			})
		})
	}
}

func TestSignInFailsSilently(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(readsMail)
		chat := s.Personal("Mia")
		chat.Say("read my mail")
		card := wantCard(t, chat.Next(), "graph")
		for _, code := range []string{"resourcematchfailed", "userconsentrequired", "other"} {
			wantStatus(t, chat.Invoke("signin/failure", map[string]any{"code": code, "message": "sso-token-of"}), http.StatusOK)
			if !strings.Contains(s.log.String(), code) {
				t.Errorf("%s is not in the log", code)
			}
		}
		chat.ExpectNothing()
		wantStatus(t, chat.Invoke("signin/failure", map[string]any{"code": "authrequestfailed"}), http.StatusOK)
		chat.Expect("I couldn't sign you in. Please use the button on the card.")
		s.Settle()
		wantStatus(t, chat.Invoke("signin/failure", map[string]any{"code": "authrequestfailed"}), http.StatusOK)
		chat.ExpectNothing()
		wantStatus(t, card.SignIn(), http.StatusOK)
		chat.Expect("You have 2 mails.")
	})
}

func TestSignInElsewhere(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(readsMail, readsMail)
		group := s.Group("team", "Mia", "Ben")
		group.Mention("read my mail")
		card := wantCard(t, group.Next(), "graph")
		if card.SignInCard().Exchange == nil || !strings.Contains(card.JSON, `"isTargeted":true`) {
			t.Errorf("in a group: %s", card.JSON)
		}
		wantStatus(t, card.As("Ben").SignIn(), http.StatusOK) // ignored
		s.ran(t, "note")
		if s.asked("/exchange") != 0 || !strings.Contains(s.log.String(), `"audit":"sign-in"`) {
			t.Errorf("Ben answered Mia's card: %s", s.log.String())
		}
		channel := s.Channel("general", "Mia")
		channel.Mention("read my mail")
		card = wantCard(t, channel.Next(), "graph")
		if card.SignInCard().Exchange != nil || !strings.Contains(card.JSON, `"isTargeted":true`) {
			t.Errorf("in a channel: %s", card.JSON)
		}
		channel.Mention(s.Tokens.Page("Mia", "graph"))
		channel.Expect("You have 2 mails.")
		s.ran(t, "note", "note", "readMail graph of 29:mia")
	})
}

func TestSignInAfterApproval(t *testing.T) {
	testSignIn(t, bottest.Config{Change: func(c *bot.Config) { c.Approvers = []string{"29:ben"} }}, func(t *testing.T, s *signing) {
		s.Tokens.Decides(func(c bottest.TokenCall) bottest.Answer {
			if c.Query.Get("userId") == "29:ben" {
				t.Error("the token service was asked about the approver")
			}
			return bottest.Answer{}
		})
		s.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"sendMail","entities":{}},{"type":"DO","action":"openIssue","entities":{}},{"type":"SAY","response":"Sent."}]}`)
		group := s.Group("team", "Mia", "Ben")
		group.Mention("send it")
		asks := group.ExpectCard("May I do this?")
		if len(s.Tokens.Calls()) != 0 {
			t.Error("the token was asked for before the approval")
		}
		asks.As("Ben").Press("Approve")
		card := wantCard(t, group.Next(), "graph")
		s.ran(t)
		wantStatus(t, card.SignIn(), http.StatusOK)
		card = wantCard(t, group.Next(), "github")
		s.ran(t, "sendMail graph of 29:mia")
		wantStatus(t, card.SignIn(), http.StatusOK)
		group.Expect("Sent.")
		s.ran(t, "sendMail graph of 29:mia", "openIssue github of 29:mia")
	})
}

// TestSignInOfTools: a model that calls tools sees the result, or that the person did not sign in.
func TestSignInOfTools(t *testing.T) {
	testSignIn(t, bottest.Config{Planner: "tools"}, func(t *testing.T, s *signing) {
		s.Model.CallsTools(models.Call{ID: "c1", Name: "readMail", Arguments: "{}"})
		chat := s.Personal("Mia")
		chat.Say("read my mail")
		card := wantCard(t, chat.Next(), "graph")
		s.Model.Says("You have 2 mails.")
		wantStatus(t, card.SignIn(), http.StatusOK)
		chat.Expect("You have 2 mails.")
		s.ran(t, "readMail graph of 29:mia")
		if said := s.Model.LastCall().Prompt(); !strings.Contains(said, "did it") {
			t.Errorf("the model was told %s", said)
		}
		s.Model.CallsTools(models.Call{ID: "c2", Name: "readMail", Arguments: "{}"}, models.Call{ID: "c3", Name: "openIssue", Arguments: "{}"})
		chat.Say("open an issue")
		wantCard(t, chat.Next(), "github")
		s.Model.Says("OK, then not.")
		wantStatus(t, chat.Invoke("signin/verifyState", map[string]any{"state": "CancelledByUser"}), http.StatusOK)
		chat.Expect("OK, then not.")
		if said := s.Model.LastCall().Prompt(); !strings.Contains(said, "the person did not sign in") {
			t.Errorf("the model was told %s", said)
		}
		s.ran(t, "readMail graph of 29:mia", "readMail graph of 29:mia")
	})
}

// TestSignInOfANotice: nobody asked, so nobody is asked to sign in. Who is signed in need not be asked.
func TestSignInOfANotice(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		chat := s.Personal("Mia")
		remind := func() {
			s.Model.Says(readsMail)
			to := actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:mia"}
			if _, err := s.bot.Notify(t.Context(), actions.Notice{To: to, Run: "mail", Text: "read my mail"}); err != nil {
				t.Fatal(err)
			}
		}
		s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`)
		chat.Say("hello")
		chat.Expect("Hello.")
		remind()
		chat.Expect("I can't do this: Read mail. You have to be signed in for it, so please ask me for it yourself.")
		s.ran(t, "note")
		s.Model.Says(readsMail)
		chat.Say("read my mail")
		wantStatus(t, wantCard(t, chat.Next(), "graph").SignIn(), http.StatusOK)
		chat.Expect("You have 2 mails.")
		remind()
		chat.Expect("You have 2 mails.")
		s.ran(t, "note", "note", "readMail graph of 29:mia", "note", "readMail graph of 29:mia")
	})
}

// TestSignInNowhere: where the channel does not prove who a person is, or the token service is away, the
// model says so, and nothing runs.
func TestSignInNowhere(t *testing.T) {
	for name, set := range map[string]func(s *signing){
		"no token service": func(s *signing) {},
		"the service is off": func(s *signing) {
			s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return bottest.Answer{Status: 500} })
		},
		"it gives no link": func(s *signing) {
			s.Tokens.Decides(func(c bottest.TokenCall) bottest.Answer {
				if strings.HasSuffix(c.Path, "Resource") {
					return bottest.Answer{Status: 200, Body: `{"signInLink":"http://evil.example/?token-x"}`}
				}
				return bottest.Answer{}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testSignIn(t, bottest.Config{Change: func(c *bot.Config) {
				if name == "no token service" {
					_, c.Tokens = local(t)
				}
			}}, func(t *testing.T, s *signing) {
				set(s)
				s.Model.Says(readsMail, `{"type":"plan","commands":[{"type":"SAY","response":"That did not work."}]}`)
				chat := s.Personal("Mia")
				chat.Say("read my mail")
				chat.Expect("That did not work.")
				s.ran(t, "note")
			})
		})
	}
}

// TestSignInCrashes kills the process around each step of a sign-in. The plan goes on once.
func TestSignInCrashes(t *testing.T) {
	once := func(f func()) func() {
		var do sync.Once
		return func() { do.Do(f) }
	}
	t.Run("while the card is sent", func(t *testing.T) {
		testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
			kill := once(func() { s.Kill(1) })
			s.Connector.Decides(func(sent bottest.Sent) bottest.Answer {
				if sent.SignInCard() != nil {
					kill()
				}
				return bottest.Answer{}
			})
			s.Model.Says(readsMail)
			chat := s.Personal("Mia")
			chat.Say("read my mail")
			first := wantCard(t, chat.Next(), "graph")
			s.Restart()
			second := wantCard(t, chat.Next(), "graph") // nobody knows that the first arrived
			wantStatus(t, first.SignIn(), http.StatusOK)
			wantStatus(t, second.SignIn(), http.StatusOK)
			chat.Expect("You have 2 mails.")
			s.ran(t, "note", "readMail graph of 29:mia")
		})
	})
	for _, way := range []string{"exchange", "GetToken"} {
		t.Run("after the token is there by "+way, func(t *testing.T) {
			testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
				s.Model.Says(readsMail)
				chat := s.Personal("Mia")
				chat.Say("read my mail")
				card := wantCard(t, chat.Next(), "graph")
				kill := once(func() { s.Kill(1) })
				s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer {
					kill()
					return bottest.Answer{}
				})
				if way == "exchange" {
					card.SignIn()
				} else {
					chat.Deliver(map[string]any{"type": "message", "text": s.Tokens.Page("Mia", "graph")})
				}
				s.Settle()
				s.Restart()
				chat.Expect("You have 2 mails.")
				wantStatus(t, card.SignIn(), http.StatusOK)
				s.ran(t, "note", "readMail graph of 29:mia")
			})
		})
	}
	t.Run("before the code is redeemed", func(t *testing.T) {
		testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
			s.Model.Says(readsMail)
			chat := s.Personal("Mia")
			chat.Say("read my mail")
			wantCard(t, chat.Next(), "graph")
			kill := once(func() { s.Kill(1) })
			s.Tokens.Decides(func(c bottest.TokenCall) bottest.Answer {
				if c.Query.Has("code") {
					kill()
					return bottest.Answer{Status: 500}
				}
				return bottest.Answer{}
			})
			code := s.Tokens.Page("Mia", "graph")
			chat.Deliver(map[string]any{"type": "message", "text": code})
			s.Settle()
			s.Restart()
			chat.Expect("I lost the code. Please send it again.")
			s.Tokens.Decides(func(bottest.TokenCall) bottest.Answer { return bottest.Answer{} })
			chat.Say(code)
			chat.Expect("You have 2 mails.")
			s.ran(t, "note", "readMail graph of 29:mia")
		})
	})
	t.Run("after the action", func(t *testing.T) {
		testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
			s.Model.Says(readsMail)
			chat := s.Personal("Mia")
			chat.Say("read my mail")
			card := wantCard(t, chat.Next(), "graph")
			s.CrashAfter(1)
			if got := card.SignIn(); got.Status != http.StatusOK && got.Status != http.StatusServiceUnavailable { // the dying process may refuse it first
				t.Errorf("status %d %s", got.Status, got.Body)
			}
			s.Settle()
			s.Restart()
			chat.Expect("You have 2 mails.")
			s.ran(t, "note", "readMail graph of 29:mia", "readMail graph of 29:mia") // the second with Again, as of any action
		})
	})
}

func TestSignInNeedsTokens(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "readMail", "Reads mail", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsToken("graph"))
	guard, client := local(t)
	_, err := bot.New(bot.Config{Actions: acts, Planner: bot.PlannerFunc(nil), Authenticator: guard, Channel: client})
	if err == nil || !strings.Contains(err.Error(), "no Tokens") {
		t.Errorf("error %v", err)
	}
}

// TestSignInThatIsNoLongerGood: a service may revoke what the token service keeps. Then the person signs in
// again, once.
func TestSignInThatIsNoLongerGood(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		chat := s.Personal("Mia")
		s.Model.Says(readsMail)
		chat.Say("read my mail")
		wantStatus(t, wantCard(t, chat.Next(), "graph").SignIn(), http.StatusOK)
		chat.Expect("You have 2 mails.")
		s.mu.Lock()
		s.bad = 1
		s.mu.Unlock()
		s.Model.Says(readsMail)
		s.Model.Says(readsMail)
		chat.Say("read my mail")
		card := wantCard(t, chat.Next(), "graph")
		wantStatus(t, card.SignIn(), http.StatusOK)
		chat.Expect("You have 2 mails.")
		s.ran(t, "note", "readMail graph of 29:mia", "note", "note", "readMail graph of 29:mia")
		if !strings.Contains(s.log.String(), "does not take the token") {
			t.Error("the log does not say so")
		}
	})
}

// wideTokens knows what people can give by signing in again.
type wideTokens struct {
	signin.Tokens
	asked func()
}

func (w wideTokens) CanWiden(_ context.Context, _ activity.Reference, connection string, needed []string) (bool, error) {
	w.asked()
	return connection == "graph" && slices.Equal(needed, []string{"Mail.Read"}), nil
}

// TestSignInForMoreRights: who can give them signs in again, and for others nobody is asked.
func TestSignInForMoreRights(t *testing.T) {
	for _, tt := range []struct {
		wants       string
		knows, asks bool
	}{{"Mail.Read", true, true}, {"Mail.Read", false, false}, {"Everything", true, false}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			asked := func() {}
			change := func(c *bot.Config) {
				if tt.knows {
					c.Tokens = wideTokens{c.Tokens, func() { asked() }}
				}
			}
			testSignIn(t, bottest.Config{Change: change}, func(t *testing.T, s *signing) {
				chat := s.Personal("Mia")
				s.Model.Says(readsMail)
				chat.Say("read my mail")
				wantStatus(t, wantCard(t, chat.Next(), "graph").SignIn(), http.StatusOK)
				chat.Expect("You have 2 mails.")
				s.mu.Lock()
				s.more = []string{tt.wants}
				s.mu.Unlock()
				asked = func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					if tt.asks {
						s.more = nil // from then on
					}
				}
				if !tt.asks {
					s.Model.Says(readsMail, plan(say("I may not read it.")))
					chat.Say("read my mail")
					chat.Expect("I may not read it.")
					calls := s.Model.Calls()
					if got := calls[len(calls)-1].Prompt(); !strings.Contains(got, "more rights for it than the person can give") || strings.Contains(got, tt.wants) {
						t.Errorf("the model reads %s", got)
					}
					if !strings.Contains(s.log.String(), tt.wants) {
						t.Error("the log does not say which")
					}
					return
				}
				s.Model.Says(readsMail, readsMail)
				chat.Say("read my mail")
				wantStatus(t, wantCard(t, chat.Next(), "graph").SignIn(), http.StatusOK)
				chat.Expect("You have 2 mails.")
			})
		})
	}
}

// TestWhatWasDoneBeforeASignInThatFails stays done in state.
func TestWhatWasDoneBeforeASignInThatFails(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "readMail", "Reads mail", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsToken("graph"))
	lists.Register(acts)
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		kit.Tokens.Decides(func(c bottest.TokenCall) (a bottest.Answer) {
			if strings.HasSuffix(c.Path, "/GetSignInResource") {
				a.Status = http.StatusNotFound
			}
			return a
		})
		kit.Model.Says(plan(do("createList", `{"list":"Mails"}`), do("readMail", `{}`), say("Read.")), plan(say("I made the list.")))
		mia := kit.Personal("Mia")
		mia.Say("list my mails")
		mia.Expect("I made the list.")
		if all := state.Of[lists.Lists](mia.User()).All; len(all) != 1 {
			t.Errorf("kept %v", all)
		}
	})
}

// TestASpentApproval is for its call alone: what the model plans after that call failed runs.
func TestASpentApproval(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Tokens.Decides(func(c bottest.TokenCall) (a bottest.Answer) {
			if strings.HasSuffix(c.Path, "/GetSignInResource") {
				a.Status = http.StatusNotFound
			}
			return a
		})
		chat := s.Personal("Mia")
		s.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"sendMail","entities":{}},{"type":"SAY","response":"Sent."}]}`,
			`{"type":"plan","commands":[{"type":"DO","action":"note","entities":{}},{"type":"SAY","response":"Noted instead."}]}`)
		chat.Say("send it")
		chat.ExpectCard("May I do this?").Press("Approve")
		chat.Expect("Noted instead.")
		s.ran(t, "note")
	})
}
