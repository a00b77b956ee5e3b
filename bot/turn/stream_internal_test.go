package turn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/planbot-go/planbot/connector"
)

// TestJudge: the words of an answer say what it means, in any case of letters.
func TestJudge(t *testing.T) {
	t.Parallel()
	answer := func(status int, code, message string) error {
		return fmt.Errorf("post: %w", &connector.Error{Status: status, Code: code, Message: message})
	}
	const no = "ContentStreamNotAllowed"
	for _, tt := range []struct {
		err  error
		want verdict
	}{
		{nil, accepted},
		{answer(400, "BadSyntax", "Start streaming activities should include text"), notHere},
		{answer(400, "BadArgument", "API isn't enabled for the bot"), notHere},
		{answer(405, "BadArgument", "Streaming api is not enabled"), notHere},
		{answer(403, no, "Content stream is not allowed"), notHere},
		{answer(403, no, "Content stream finished due to exceeded streaming time."), expired},
		{answer(403, no, "Content stream was cancelled by user."), pressedStop},
		{answer(403, no, "CONTENT STREAM WAS CANCELED"), pressedStop},
		{answer(403, no, "Content stream is not allowed on an already completed streamed message"), alreadyDone},
		{answer(403, no, "Request streamed content should contain the previously streamed content"), notPrefix},
		{answer(403, no, "Message size too large"), tooLarge},
		{answer(413, "", ""), tooLarge},
		{answer(403, "BotNotInConversationRoster", "The bot is not part of the conversation roster."), faulty},
		{answer(404, "ConversationNotFound", ""), faulty},
		{answer(429, "TooManyRequests", "API calls quota exceeded"), tooFast},
		{answer(500, "", ""), unsure},
		{answer(503, "", ""), unsure},
		{fmt.Errorf("post: %w: %w", connector.ErrNoAnswer, context.DeadlineExceeded), unsure},
		{fmt.Errorf("post: %w", connector.ErrBadCall), tooLarge},
		{errors.New("connection refused"), tooFast},
	} {
		if got := judge(tt.err); got != tt.want {
			t.Errorf("%v is %d, want %d", tt.err, got, tt.want)
		}
	}
}
