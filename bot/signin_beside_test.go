package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
)

// TestSignInBesideOthers: a sign-in that failed is in its queue behind somebody else's turn when the
// next try succeeds. The code is still one, the token is used, and the plan goes on.
func TestSignInBesideOthers(t *testing.T) {
	tests := map[string]func(t *testing.T, s *signing, group *bottest.Chat, card bottest.Sent){
		"a code": func(t *testing.T, s *signing, group *bottest.Chat, _ bottest.Sent) {
			wantStatus(t, group.Invoke("signin/verifyState", map[string]any{"state": "000000"}), http.StatusPreconditionFailed)
			group.Mention(s.Tokens.Page("Mia", "graph"))
		},
		"a code of the page": func(t *testing.T, s *signing, group *bottest.Chat, _ bottest.Sent) {
			group.Mention("000000")
			time.Sleep(time.Second) // it is tried first
			wantStatus(t, group.Invoke("signin/verifyState", map[string]any{"state": s.Tokens.Page("Mia", "graph")}), http.StatusOK)
		},
		"a token": func(t *testing.T, _ *signing, group *bottest.Chat, card bottest.Sent) {
			wantStatus(t, group.Invoke("signin/failure", map[string]any{"code": "authrequestfailed"}), http.StatusOK)
			wantStatus(t, card.SignIn(), http.StatusOK)
		},
	}
	for name, try := range tests {
		t.Run(name, func(t *testing.T) {
			testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
				group := s.Group("team", "Mia", "Ben")
				s.Model.Says(readsMail)
				group.Mention("read my mail")
				card := wantCard(t, group.Next(), "graph")
				s.Model.Answers(bottest.Answer{Text: `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`, Takes: 30 * time.Second})
				group.As("Ben").Mention("hi")
				time.Sleep(time.Second)
				try(t, s, group, card)
				group.Expect("Hello.")
				group.Expect("You have 2 mails.")
				s.ran(t, "note", "readMail graph of 29:mia")
			})
		})
	}
}

// TestSignInThatEndsMeanwhile: a token that comes while the person says that they do not want it is not
// kept for them.
func TestSignInThatEndsMeanwhile(t *testing.T) {
	for command, said := range map[string]string{"/forget yes": "deleted everything", "/signout": "signed you out"} {
		t.Run(command, func(t *testing.T) {
			testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
				s.Model.Says(readsMail)
				chat := s.Personal("Mia")
				chat.Say("read my mail")
				card := wantCard(t, chat.Next(), "graph")
				s.Tokens.Decides(func(c bottest.TokenCall) bottest.Answer {
					if strings.HasSuffix(c.Path, "/exchange") {
						time.Sleep(2 * time.Second)
					}
					return bottest.Answer{}
				})
				s.Together(func() { wantStatus(t, card.SignIn(), http.StatusOK) }, func() {
					time.Sleep(time.Second)
					chat.Say(command)
				})
				chat.ExpectMatch(said)
				s.ran(t, "note")
				if s.Tokens.Token("Mia", "graph") != "" {
					t.Error("still signed in")
				}
			})
		})
	}
}

// TestSignInOfAnExtension: the code with which Teams repeats an action of a message extension is redeemed,
// also if the action has to wait for another turn.
func TestSignInOfAnExtension(t *testing.T) {
	asked := func(ctx context.Context, turn *bot.Turn, _ teams.Input) (teams.Answer, error) {
		if _, err := turn.UserToken(ctx, "graph"); errors.Is(err, connector.ErrNoUserToken) {
			return teams.Answer{}, &teams.SignIn{Connection: "graph"}
		} else if err != nil {
			return teams.Answer{}, err
		}
		return teams.Answer{Message: "Shared."}, nil
	}
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint(busy), func(t *testing.T) {
			cfg := bottest.Config{Change: func(c *bot.Config) {
				c.Teams.Extension.Commands = []teams.Command{{ID: "share", Title: "Share", Fetch: asked, Submit: asked}}
			}}
			testSignIn(t, cfg, func(t *testing.T, s *signing) {
				chat := s.Personal("Mia")
				share := map[string]any{"commandId": "share", "commandContext": "compose", "data": map[string]any{"a": "b"}}
				if body := string(chat.Invoke("composeExtension/submitAction", share).Body); !strings.Contains(body, `"auth"`) {
					t.Errorf("without a sign-in: %s", body)
				}
				if busy {
					s.Model.Answers(bottest.Answer{Text: `{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`, Takes: 2 * time.Second})
					chat.Say("hi")
					time.Sleep(time.Second)
				}
				share["state"] = s.Tokens.Page("Mia", "graph")
				if body := string(chat.Invoke("composeExtension/submitAction", share).Body); !strings.Contains(body, "Shared.") {
					t.Errorf("with the code: %s", body)
				}
				if busy {
					chat.Expect("Hello.")
				}
				chat.Invoke("adaptiveCard/action", map[string]any{"action": map[string]any{"type": "Action.Execute", "verb": "show"}, "state": s.Tokens.Page("Mia", "graph")})
			})
		})
	}
}
