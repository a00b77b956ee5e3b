package bottest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// streaming is a bot whose connector a test calls in the bot's place.
type streaming struct {
	*testing.T
	kit       *bottest.Kit
	transport http.RoundTripper
	chat      string
	kind      string // of the conversation
}

// stream runs what calls the connector, in a bubble, and returns what failed.
func stream(t *testing.T, f func(s *streaming)) string {
	t.Helper()
	var transport http.RoundTripper
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		transport = parts.Transport
		return newBot(ctx, parts)
	}}
	return failingInBubble(t, cfg, func(kit *bottest.Kit) {
		f(&streaming{t, kit, transport, "a:mia", "personal"})
		kit.Connector.Sent()
	})
}

// call calls the connector and compares status and body, in which want is to be found.
func (s *streaming) call(method, path, body string, status int, want string) string {
	s.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.kit.Connector.URL+"v3/conversations/"+url.PathEscape(s.chat)+"/activities"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		if status != 0 {
			s.Errorf("%s %s: %v", method, path, err)
		}
		return ""
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || !strings.Contains(string(raw), want) {
		s.Errorf("%s %s %s was answered with %d %s, %v; want %d with %q", method, path, body, res.StatusCode, raw, err, status, want)
	}
	return string(raw)
}

// post posts a part of a stream. A number of 0 is left out.
func (s *streaming) post(kind, id string, number int, text string, status int, want string) string {
	s.Helper()
	about := fmt.Sprintf(`"streamType":%q`, kind)
	if id != "" {
		about += fmt.Sprintf(`,"streamId":%q`, id)
	}
	if number > 0 {
		about += fmt.Sprintf(`,"streamSequence":%d`, number)
	}
	as := "typing"
	if kind == "final" {
		as = "message"
	}
	body := fmt.Sprintf(`{"type":%q,"text":%q,"channelId":"msteams","conversation":{"id":%q,"conversationType":%q},"entities":[{"type":"streaminfo",%s}],"channelData":{%s}}`,
		as, text, s.chat, s.kind, about, about)
	return s.call(http.MethodPost, "", body, status, want)
}

// begin starts a stream; it is the first message of the kit.
func (s *streaming) begin() {
	s.Helper()
	s.post("streaming", "", 1, "You have", http.StatusCreated, `"id":"1"`)
	time.Sleep(time.Second)
}

const message = `{"type":"message","text":"Hello"}`

func TestStreamAsTeamsHasIt(t *testing.T) {
	t.Parallel()
	if got := stream(t, func(s *streaming) {
		s.post("informative", "", 1, "Searching", http.StatusCreated, `{"id":"1"}`)
		time.Sleep(time.Second)
		s.post("streaming", "1", 2, "You", http.StatusAccepted, "{}")
		time.Sleep(time.Second)
		s.post("streaming", "1", 3, "You have", http.StatusAccepted, "{}")
		time.Sleep(time.Second)
		s.post("final", "1", 0, "You have two lists.", http.StatusAccepted, "{}")
		s.post("final", "1", 0, "You have two lists.", http.StatusForbidden, "already completed streamed message") // it may be repeated
		s.call(http.MethodPut, "/1", `{"type":"message","text":"Three."}`, http.StatusOK, "")
		s.post("streaming", "", 1, "Another", http.StatusCreated, `{"id":"7"}`)
		var final bottest.Sent
		for _, sent := range s.kit.Connector.Sent() {
			if sent.Message() {
				final = sent
			}
		}
		if final.ID != "1" || final.Activity.Text != "You have two lists." {
			t.Errorf("the message is %+v", final)
		}
	}); got != "" {
		t.Error(got)
	}
}

func TestStreamsAgainstTheRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		calls  func(s *streaming)
		broken string
	}{
		"too fast": {func(s *streaming) {
			s.post("streaming", "", 1, "You", http.StatusCreated, "")
			time.Sleep(999 * time.Millisecond)
			s.post("streaming", "1", 2, "You have", http.StatusTooManyRequests, "API calls quota exceeded")
		}, "999ms after the request before it, want 1s at least"},
		"too fast later": {func(s *streaming) {
			s.begin()
			s.post("streaming", "1", 2, "You have two", http.StatusAccepted, "{}")
			time.Sleep(500 * time.Millisecond)
			s.post("streaming", "1", 3, "You have two lists", http.StatusTooManyRequests, "quota")
		}, "500ms after the request before it"},
		"too fast after a refusal": {func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{Status: http.StatusTooManyRequests})
			s.post("streaming", "1", 2, "You have two", http.StatusTooManyRequests, "")
			time.Sleep(500 * time.Millisecond)
			s.post("streaming", "1", 2, "You have two", http.StatusTooManyRequests, "quota")
		}, "500ms after the request before it"},
		"a final too soon": {func(s *streaming) {
			s.post("streaming", "", 1, "You", http.StatusCreated, "")
			s.post("final", "1", 0, "You have", http.StatusTooManyRequests, "quota")
		}, "0s after the request before it"},
		"before the answer": {func(s *streaming) {
			s.begin()
			s.kit.Connector.Decides(func(bottest.Sent) bottest.Answer { return bottest.Answer{Takes: 5 * time.Second} })
			s.kit.Together(func() { s.post("streaming", "1", 2, "You have two", http.StatusAccepted, "") }, func() {
				time.Sleep(2 * time.Second)
				s.post("streaming", "1", 3, "You have two lists", http.StatusTooManyRequests, "quota")
			})
		}, "a request before the one before it was answered"},
		"out of order": {func(s *streaming) {
			s.begin()
			s.post("streaming", "1", 1, "You have two", http.StatusAccepted, "ContentStreamSequenceOrderPreConditionFailed")
		}, "out of order: the newest streamSequence was 1"},
		"a number left out": {func(s *streaming) {
			s.begin()
			s.post("streaming", "1", 3, "You have two", http.StatusAccepted, "ContentStreamSequenceOrderPreConditionFailed")
		}, "out of order"},
		"another text": {func(s *streaming) {
			s.begin()
			s.post("streaming", "1", 2, "We have", http.StatusForbidden, "should contain the previously streamed content")
		}, `the text does not continue what is shown: "You have"`},
		"another final text": {func(s *streaming) {
			s.begin()
			s.post("final", "1", 0, "We have", http.StatusForbidden, "should contain the previously streamed content")
		}, "the text does not continue what is shown"},
		"a long text": {func(s *streaming) {
			s.begin()
			s.post("streaming", "1", 2, "You have"+strings.Repeat("x", 51_200), http.StatusRequestEntityTooLarge, "MessageSizeTooBig")
		}, "a text of 51208 bytes"},
		"a long status": {func(s *streaming) {
			s.post("informative", "", 1, strings.Repeat("x", 1001), http.StatusForbidden, "Message size too large")
		}, "a status of 1001 bytes"},
		"a status after text": {func(s *streaming) {
			s.begin()
			s.post("informative", "1", 2, "Searching", http.StatusAccepted, "{}")
		}, "a status after text"},
		"after two minutes": {func(s *streaming) {
			s.begin()
			time.Sleep(2 * time.Minute)
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "exceeded streaming time")
		}, "a chunk after two minutes"},
		"after the final": {func(s *streaming) {
			s.begin()
			s.post("final", "1", 0, "You have", http.StatusAccepted, "{}")
			time.Sleep(time.Second)
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "already completed streamed message")
		}, "a chunk after the final"},
		"in a group": {func(s *streaming) {
			s.chat, s.kind = "19:team@unq.gbl.spaces", "groupChat"
			s.post("streaming", "", 1, "You have", http.StatusMethodNotAllowed, "Streaming api is not enabled")
		}, "streams to a group or a channel"},
		"without the kind of conversation": {func(s *streaming) {
			s.kind = ""
			s.post("streaming", "", 1, "You have", http.StatusMethodNotAllowed, "Streaming api is not enabled")
		}, "the body lacks channelId or conversation.conversationType"},
		"two at once": {func(s *streaming) {
			s.begin()
			s.post("streaming", "", 1, "We have", http.StatusForbidden, "Content stream is not allowed")
		}, "a second stream while one is open"},
		"a start without text": {func(s *streaming) {
			s.post("streaming", "", 1, "", http.StatusBadRequest, "Start streaming activities should include text")
		}, "starts without text"},
		"a chunk without the id": {func(s *streaming) {
			s.begin()
			s.post("streaming", "", 2, "You have two", http.StatusBadRequest, "")
		}, "without streamId goes on"},
		"a final without the id": {func(s *streaming) {
			s.begin()
			s.post("final", "", 0, "You have two", http.StatusBadRequest, "")
		}, "a final without streamId"},
		"an unknown id": {func(s *streaming) {
			s.post("streaming", "7", 2, "You have two", http.StatusBadRequest, "")
		}, `no stream "7" was started here`},
		"a numbered final": {func(s *streaming) {
			s.begin()
			s.post("final", "1", 2, "You have two", http.StatusAccepted, "{}")
		}, "a streamSequence on the final"},
		"a final that is typing": {func(s *streaming) {
			s.call(http.MethodPost, "", `{"type":"typing","text":"x","entities":[{"type":"streaminfo","streamType":"final"}]}`, http.StatusBadRequest, "Only start streaming and continue streaming types")
		}, `the streamType "final" in a typing`},
		"on the path of replies": {func(s *streaming) {
			s.call(http.MethodPost, "/7", `{"type":"typing","text":"x","entities":[{"type":"streaminfo","streamType":"streaming"}]}`, http.StatusBadRequest, "")
		}, "posts to /activities/7, want /activities"},
		"an update before the end": {func(s *streaming) {
			s.begin()
			s.call(http.MethodPut, "/1", message, http.StatusForbidden, "Content stream is not allowed")
		}, "an update before the stream's end"},
		"deleted while open": {func(s *streaming) {
			s.begin()
			s.call(http.MethodDelete, "/1", "", http.StatusOK, "")
			s.post("streaming", "1", 2, "You have two", http.StatusAccepted, "{}") // the bubble stays
		}, "deletes an open stream"},
		"after Stop": {func(s *streaming) {
			s.begin()
			s.kit.Connector.PressStop(s.chat)
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "cancelled by user")
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "cancelled by user")
		}, "a chunk after the person stopped the stream"},
		"Stop of nothing": {func(s *streaming) { s.kit.Connector.PressStop(s.chat) }, "nothing is streamed to a:mia"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := stream(t, tt.calls)
			contains(t, got, tt.broken)
			if n := strings.Count(got, "bottest:"); n != 1 {
				t.Errorf("%d failures, want 1:\n%s", n, got)
			}
		})
	}
}

// A refusal that the test asked for is no failure, and the stream goes on as it does in Teams.
func TestStreamRefusedOnDemand(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]func(s *streaming){
		"Stop": func(s *streaming) {
			s.begin()
			s.kit.Connector.PressStop(s.chat)
			s.post("final", "1", 0, "You have two", http.StatusForbidden, "cancelled by user")
			s.post("streaming", "", 1, "Another", http.StatusCreated, "") // of the next turn
		},
		"the number of a refused chunk is used again": func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{Status: http.StatusTooManyRequests, Body: `{"error":{"message":"API calls quota exceeded"}}`, RetryAfter: time.Second})
			s.post("streaming", "1", 2, "You have two", http.StatusTooManyRequests, `{"error":{"message":"API calls quota exceeded"}}`)
			time.Sleep(time.Second)
			s.post("streaming", "1", 2, "You have two lists", http.StatusAccepted, "{}")
		},
		"that of a chunk which may have arrived is not": func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{Status: http.StatusBadGateway})
			s.post("streaming", "1", 2, "You have two", http.StatusBadGateway, "")
			s.post("streaming", "1", 3, "You have two lists", http.StatusAccepted, "{}")
		},
		"text without an answer need not go on": func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{CutOff: true, Takes: 3 * time.Second})
			s.post("streaming", "1", 2, "You have two", 0, "")
			s.post("streaming", "1", 3, "You have three", http.StatusAccepted, "{}")
		},
		"a final without an answer": func(s *streaming) {
			s.begin()
			s.kit.Connector.Fails(bottest.Answer{CutOff: true})
			s.post("final", "1", 0, "You have two", 0, "")
			s.post("final", "1", 0, "You have two", http.StatusForbidden, "already completed")
		},
		"Stop in the test's own words": func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{Status: http.StatusForbidden, Body: `{"error":{"code":"ContentStreamNotAllowed","message":"Content stream was canceled by user"}}`})
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "canceled")
			s.post("streaming", "", 1, "Another", http.StatusCreated, "")
		},
		"two minutes, early": func(s *streaming) {
			s.begin()
			s.decides(bottest.Answer{Status: http.StatusForbidden, Body: `{"error":{"message":"Content stream finished due to exceeded streaming time."}}`})
			s.post("streaming", "1", 2, "You have two", http.StatusForbidden, "exceeded")
			s.call(http.MethodPut, "/1", message, http.StatusOK, "")
		},
		"a late final": func(s *streaming) { // of a process that took over
			s.begin()
			time.Sleep(2 * time.Minute)
			s.post("final", "1", 0, "You have two", http.StatusForbidden, "exceeded streaming time")
			s.call(http.MethodPut, "/1", message, http.StatusOK, "")
		},
		"a stream after one whose start was not answered": func(s *streaming) {
			s.decides(bottest.Answer{CutOff: true})
			s.post("streaming", "", 1, "You have", 0, "")
			s.call(http.MethodPost, "", message, http.StatusCreated, "")
			s.post("streaming", "", 1, "Another", http.StatusForbidden, "Content stream is not allowed")
			time.Sleep(2*time.Minute + time.Second)
			s.post("streaming", "", 1, "Another", http.StatusCreated, "")
		},
		"an update": func(s *streaming) {
			s.decides(bottest.Answer{Status: http.StatusNotFound, Body: "gone"})
			s.call(http.MethodPut, "/1", message, http.StatusNotFound, "gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := stream(t, calls); got != "" {
				t.Error(got)
			}
		})
	}
}

// decides answers the next request with a, and accepts what follows.
func (s *streaming) decides(a bottest.Answer) {
	s.kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
		next := a
		a = bottest.Answer{}
		return next
	})
}

// ask asks the model, and returns when which line of the answer came.
func (s *streaming) ask(ctx context.Context, body string) (lines []string) {
	s.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.kit.Model.URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	for scan := bufio.NewScanner(res.Body); scan.Scan(); {
		lines = append(lines, fmt.Sprintf("%v %s", time.Since(began).Round(time.Millisecond), scan.Text()))
	}
	return lines
}

func TestAnswersInPieces(t *testing.T) {
	t.Parallel()
	milk := models.Call{ID: "1", Name: "addItem", Arguments: `{"item":"milk"}`}
	answer := bottest.Answer{Pieces: []bottest.Piece{{At: time.Second, Text: "You have "}, {At: 3 * time.Second, Text: "two lists."}, {At: 4 * time.Second, Call: &milk}}}
	if got := stream(t, func(s *streaming) {
		s.kit.Model.Answers(answer, answer, answer)
		contains(t, strings.Join(s.ask(context.Background(), `{"stream":true}`), "\n"),
			`1s data: {"choices":[{"delta":{"content":"You have "}`, `3s data: {"choices":[{"delta":{"content":"two lists."}`,
			`4s data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"item\":\"milk\"}","name":"addItem"}`, `"finish_reason":"tool_calls"`, "4s data: [DONE]")
		contains(t, strings.Join(s.ask(context.Background(), `{}`), "\n"), "4s {", `"content":"You have two lists."`, `"name":"addItem"`)

		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		s.ask(ctx, `{"stream":true}`)
		time.Sleep(time.Second)
		for i, call := range s.kit.Model.Calls() {
			if call.Cancelled != (i == 2) {
				t.Errorf("call %d is cancelled: %t", i+1, call.Cancelled)
			}
		}
	}); got != "" {
		t.Error(got)
	}
}
