package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planbot-go/planbot/models"
)

var streamChecks = []check{
	{"a stream comes to the same text as the whole", checkStream},
	{"a stream that the server breaks off for another caller is no whole answer", checkBrokenOff},
	{"a stream of a prompt that is too long is told as such", checkStreamTooLong},
	{"a refused json_schema falls back in a stream", checkStreamSchema},
}

func streamed(c *models.OpenAIConfig) { c.Stream = true }

func checkStream(ctx context.Context, b *bench) (string, error) {
	whole, err := b.ask(ctx, hello())
	if err != nil {
		return "", err
	}
	got, err := b.ask(ctx, hello(), streamed)
	switch {
	case err != nil:
		return "", err
	case got.Text != whole.Text, got.Finish != whole.Finish, got.Model != whole.Model:
		return "", fmt.Errorf("whole %+v, stream %+v", whole, got)
	}
	return fmt.Sprintf("usage in the stream: %d + %d tokens", got.Usage.Prompt, got.Usage.Completion), nil
}

// checkBrokenOff: llama-cpp-python ends a stream for the next caller with [DONE],
// as if it were whole, but without a finish_reason.
func checkBrokenOff(ctx context.Context, b *bench) (string, error) {
	req := hello()
	req.Messages[0].Text = "Tell a long story."
	req.MaxTokens = 1000
	start := b.tap.count()
	var first *models.Response
	var firstErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		first, firstErr = b.ask(ctx, req, streamed)
	}()
	if err := b.untilStreaming(ctx, start); err != nil {
		return "", err
	}
	_, err := b.ask(ctx, hello())
	<-done
	switch {
	case err != nil:
		return "", fmt.Errorf("the other caller: %w", err)
	case firstErr != nil:
		return firstErr.Error(), nil
	case first.Finish == models.FinishLength && first.Usage.Completion == req.MaxTokens:
		return "the server did not break it off", nil
	case first.Finish == models.FinishLength:
		return "counts as cut off", nil
	case strings.Contains(b.tap.since(start)[0].String(), `"finish_reason": "stop"`):
		return "the story was over before", nil
	}
	return "", fmt.Errorf("%d bytes are taken for whole, finish %q", len(first.Text), first.Finish)
}

// untilStreaming waits for the first bytes of the call.
func (b *bench) untilStreaming(ctx context.Context, call int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if seen := b.tap.since(call); len(seen) > 0 && seen[0].begun() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return errors.New("nothing is streamed")
}

func checkStreamTooLong(ctx context.Context, b *bench) (string, error) {
	_, err := b.ask(ctx, b.tooLong(), streamed)
	fault, ok := errors.AsType[*models.Error](err)
	if !ok || fault.Kind != models.TooLong {
		return "", instead("too_long", err)
	}
	return fmt.Sprintf("status %d, code %s", fault.Status, fault.Code), nil
}

func checkStreamSchema(ctx context.Context, b *bench) (string, error) {
	return b.askTwiceForColours(ctx, streamed)
}
