package bottest_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/models"
)

// streamingBot asks its model for streams, or does not.
func streamingBot(stream bool) bottest.Config {
	return bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: parts.ModelURL, Model: "own", Stream: stream, Transport: parts.Transport})
		if err != nil {
			return nil, err
		}
		parts.Model = &models.Chain{Models: []models.Model{model}}
		return routedBot(ctx, parts)
	}}
}

// streamedAndNot runs a test with a bot that asks for streams and one that does not, and with
// what it logs.
func streamedAndNot(t *testing.T, test func(t *testing.T, kit *bottest.Kit, log *bytes.Buffer)) {
	t.Helper()
	for name, stream := range map[string]bool{"stream": true, "whole": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, log := streamingBot(stream), new(bytes.Buffer)
			cfg.Log = log
			bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) { test(t, kit, log) })
		})
	}
}

const (
	page     = "<!DOCTYPE html>\n<html><body>Sign in to the network</body></html>"
	noJSON   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hel`
	noStream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\n\ndata: [DONE]\n\n"
)

// TestAnswersThatAreNone: what servers, and those on the way to them, say with 200 and is no
// answer.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	hello := bottest.Answer{Text: "Hello."}
	for name, tt := range map[string]struct {
		answers []bottest.Answer
		want    string
	}{
		"no money":     {[]bottest.Answer{{Status: 429, Code: "insufficient_quota"}}, "account of the AI model is used up"},
		"filtered":     {[]bottest.Answer{{Text: "You", Finish: "content_filter"}}, "content filter"},
		"cut plan":     {[]bottest.Answer{{Text: addMilk[:40], Finish: "length"}, hello}, "^Hello.$"},
		"cut text":     {[]bottest.Answer{{Text: "You", Finish: "length"}, hello}, "^Hello.$"},
		"page":         {[]bottest.Answer{{Body: page}}, "isn't available right now"},
		"page and 502": {[]bottest.Answer{{Body: page, Status: http.StatusBadGateway}, hello}, "^Hello.$"},
		"JSON":         {[]bottest.Answer{{Body: noJSON}}, "isn't available right now"},
		"stream":       {[]bottest.Answer{{Body: noStream}}, "isn't available right now"},
		"text":         {[]bottest.Answer{{Body: "Bad gateway"}}, "isn't available right now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamedAndNot(t, func(t *testing.T, kit *bottest.Kit, _ *bytes.Buffer) {
				chat := kit.Personal("Mia")
				kit.Model.Answers(tt.answers...)
				chat.Say("hi")
				chat.ExpectMatch(tt.want)
			})
		})
	}
}

// TestUsage: what an answer took is counted with its turn.
func TestUsage(t *testing.T) {
	t.Parallel()
	streamedAndNot(t, func(t *testing.T, kit *bottest.Kit, log *bytes.Buffer) {
		chat := kit.Personal("Mia")
		kit.Model.Answers(bottest.Answer{Text: "Hello.", Usage: models.Usage{Prompt: 1234, Completion: 56, Cached: 1000, Reasoning: 7}})
		kit.Model.Says("And again.")
		for _, want := range []string{"Hello.", "And again."} {
			chat.Say("hi")
			chat.Expect(want)
		}
		contains(t, log.String(), `"prompt_tokens":1234,"completion_tokens":56`, `"prompt_tokens":10,"completion_tokens":5`)
	})
}

// TestLostAnswer: what was taken and not confirmed is sent again, since it might be lost.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	streamedAndNot(t, func(t *testing.T, kit *bottest.Kit, _ *bytes.Buffer) {
		chat := kit.Personal("Mia")
		kit.Connector.Fails(bottest.Answer{CutOff: true})
		kit.Model.Says("Hello.")
		chat.Say("hi")
		lost, again := chat.Expect("Hello."), chat.Expect("Hello.")
		chat.ExpectNothing()
		if lost.Status != 0 || again.Status != http.StatusCreated || lost.ID == again.ID {
			t.Errorf("the first was answered with %d as %s, the second with %d as %s", lost.Status, lost.ID, again.Status, again.ID)
		}
	})
}

// TestRefusalsByTheirCode: a bot that was thrown out does not insist, and says why.
func TestRefusalsByTheirCode(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"BotNotInConversationRoster": http.StatusForbidden, "ConversationNotFound": http.StatusNotFound} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			streamedAndNot(t, func(t *testing.T, kit *bottest.Kit, log *bytes.Buffer) {
				chat := kit.Personal("Mia")
				kit.Connector.Fails(bottest.Answer{Status: status, Code: code})
				kit.Model.Says("Hello.")
				chat.Say("hi")
				chat.ExpectNothing()
				if n := len(kit.Connector.Sent()); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
				contains(t, log.String(), code+`","message":"the bot cannot speak here any more"`)
			})
		})
	}
}

// TestDeadReplicasCostNothing: days pass no slower with a replica that looks for nothing any
// more.
func TestDeadReplicasCostNothing(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "hours pass")
	dayWith := func(test func(kit *bottest.Kit)) time.Duration {
		cfg := listBot()
		cfg.Replicas = 2
		began := time.Now()
		bottest.Test(t, cfg, func(_ *testing.T, kit *bottest.Kit) {
			test(kit)
			time.Sleep(24 * time.Hour)
			kit.Model.Says("Hello.")
			chat := kit.Personal("Mia")
			chat.Say("hi")
			chat.Expect("Hello.")
		})
		return time.Since(began)
	}
	living := dayWith(func(*bottest.Kit) {})
	dead := dayWith(func(kit *bottest.Kit) { kit.Kill(2) })
	if dead > 5*living+time.Second {
		t.Errorf("a day took %v with a dead replica, %v without", dead, living)
	}
}
