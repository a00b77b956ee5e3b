package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/fakeconnector"
)

// say delivers a message as a channel does.
func say(t *testing.T, botURL, serviceURL, id, text string) {
	t.Helper()
	body := fmt.Sprintf(`{"type":"message","id":%q,"channelId":"test","serviceUrl":%q,"text":%q,
		"from":{"id":"mia"},"recipient":{"id":"bot"},"conversation":{"id":"c1"}}`, id, serviceURL, text)
	resp, err := http.Post(botURL, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s, %v", resp.Status, err)
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	b, err := newBot(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	channel := fakeconnector.New(t)
	for i, step := range []struct{ say, want string }{
		{"rollDice sides=20", `roll 1 is a (1?\d|20)\b`},
		{"rollDice", `roll 2 is a [1-6]\b`},
		{"rollDice sides=1", `at least 2 sides`},
	} {
		say(t, server.URL, channel.URL, fmt.Sprint(i), step.say)
		if got := channel.Next(t).Text(); !regexp.MustCompile(step.want).MatchString(got) {
			t.Errorf("%q: got %q, want %s", step.say, got, step.want)
		}
	}
}
