package stream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// TestAnswers: the words of an answer say what it means, in any case of letters.
func TestAnswers(t *testing.T) {
	t.Parallel()
	refusal := func(status int, code, message string) error {
		return fmt.Errorf("post: %w", &connector.Error{Status: status, Code: code, Message: message})
	}
	const no = "ContentStreamNotAllowed"
	for _, tt := range []struct {
		err  error
		want answer
	}{
		{nil, accepted},
		{refusal(400, "BadSyntax", "Start streaming activities should include text"), notHere},
		{refusal(400, "BadArgument", "API isn't enabled for the bot"), notHere},
		{refusal(405, "BadArgument", "Streaming api is not enabled"), notHere},
		{refusal(403, no, "Content stream is not allowed"), notHere},
		{refusal(403, no, "Content stream finished due to exceeded streaming time."), expired},
		{refusal(403, no, "Content stream was cancelled by user."), pressedStop},
		{refusal(403, no, "CONTENT STREAM WAS CANCELED"), pressedStop},
		{refusal(403, no, "Content stream is not allowed on an already completed streamed message"), alreadyDone},
		{refusal(403, no, "Request streamed content should contain the previously streamed content"), notPrefix},
		{refusal(403, no, "Message size too large"), tooLarge},
		{refusal(413, "", ""), tooLarge},
		{refusal(403, "BotNotInConversationRoster", "The bot is not part of the conversation roster."), faulty},
		{refusal(404, "ConversationNotFound", ""), faulty},
		{refusal(429, "TooManyRequests", "API calls quota exceeded"), tooFast},
		{refusal(500, "", ""), unsure},
		{refusal(503, "", ""), unsure},
		{fmt.Errorf("post: %w: %w", connector.ErrNoAnswer, context.DeadlineExceeded), unsure},
		{fmt.Errorf("post: %w", connector.ErrBadCall), tooLarge},
		{errors.New("connection refused"), tooFast},
	} {
		if got := answerOf(tt.err); got != tt.want {
			t.Errorf("%v is %d, want %d", tt.err, got, tt.want)
		}
	}
}

// lease is one that lasts, with nothing beside the record.
type lease struct{}

func (lease) Err() error                               { return nil }
func (lease) Beside() []byte                           { return nil }
func (lease) SaveBeside(context.Context, []byte) error { return nil }

// TestSettleWithoutAConnection: an end that could not even be written is sent again later.
func TestSettleWithoutAConnection(t *testing.T) {
	t.Parallel()
	open := &Message{ID: "1", Begun: time.Now().Add(-time.Hour), Shown: "Hello"}
	s := New(Config{About: &activity.Activity{}, Lease: lease{}, Saved: open, Off: true, Speaks: true})
	away := errors.New("connection refused")
	settled := s.Settle(t.Context(), open, Sent{Message: &activity.Activity{Text: "Hello"}, Err: away, Retryable: true})
	if !errors.Is(settled.Err, away) || settled.Done || settled.Repeat || settled.Instead != nil || open.State != Open {
		t.Errorf("%+v, and the message is %q", settled, open.State)
	}
}

// TestADraftThatBecomesShorter while the moderator judges it: what passed is not there any more.
func TestADraftThatBecomesShorter(t *testing.T) {
	t.Parallel()
	judged := make(chan struct{})
	s := New(Config{About: &activity.Activity{}, Lease: lease{}, Speaks: true, Judge: func(context.Context, string) error {
		<-judged
		return nil
	}})
	s.asked = t.Context()
	s.Draft("A; 42")
	s.Draft("A")
	close(judged)
	s.judging.Wait()
	s.Draft("A; 42 [1]. And")
	s.judging.Wait()
	if s.text != "A; 42 [1]." {
		t.Errorf("%q has passed", s.text)
	}
}
