package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody bounds what the stand-ins read.
const maxBody = 16 << 20

// step is a message of the cycle that each conversation goes through, and what the model plans
// for it: DOs, and what is said then.
type step struct{ text, dos, said string }

// steps are the cycle. After it the state is as it was after the first cycle.
var steps = []step{
	{
		"create a list Groceries and add bananas to it",
		`{"type":"DO","action":"createList","entities":{"list":"Groceries"}},` +
			`{"type":"DO","action":"addItem","entities":{"list":"Groceries","item":"bananas"}}`,
		"Groceries is there, with bananas.",
	},
	{"add milk to Groceries", `{"type":"DO","action":"addItem","entities":{"list":"Groceries","item":"milk"}}`, "Milk is on Groceries."},
	{"remove bananas from Groceries", `{"type":"DO","action":"removeItem","entities":{"list":"Groceries","item":"bananas"}}`, "Bananas are off Groceries."},
	{"summarize my lists", `{"type":"DO","action":"summarizeLists"}`, "Those are your lists."},
}

// planFor is what the model answers to the text of a person: the plan of its step, with the tag
// of the message at the end of what is said, so that the reply can be told from all others.
func planFor(text string) (string, error) {
	text, tag, tagged := strings.Cut(text, tagMark)
	for _, s := range steps {
		if tagged && text == s.text {
			return fmt.Sprintf(`{"type":"plan","commands":[%s,{"type":"SAY","response":%q}]}`, s.dos, s.said+tagMark+tag), nil
		}
	}
	return "", fmt.Errorf("%.80q is no message of the load", text)
}

// model is an OpenAI-compatible server that knows the cycle.
type model struct {
	url     string
	server  *http.Server
	latency atomic.Int64 // time.Duration
	calls   atomic.Int64
	bytes   atomic.Int64 // of the requests
}

func startModel(ctx context.Context) (*model, error) {
	m := &model{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	server, url, err := serve(ctx, mux)
	m.server, m.url = server, url+"v1"
	return m, err
}

func (m *model) close() { _ = m.server.Close() } // the bots are gone

func (m *model) complete(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	m.bytes.Add(int64(len(raw)))
	var prompt struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	if err == nil {
		err = json.Unmarshal(raw, &prompt)
	}
	said := "" // last by the person
	for _, message := range prompt.Messages {
		if message.Role == "user" {
			said = message.Content
		}
	}
	text := ""
	if err == nil {
		text, err = planFor(said)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, object{"error": object{"message": err.Error(), "type": "invalid_request_error"}})
		return
	}
	if err := pause(r.Context(), time.Duration(m.latency.Load())); err != nil {
		return // the bot hung up
	}
	asked, written := len(raw)/4, len(text)/4 // a token has about four characters
	answer(w, http.StatusOK, object{
		"id": "chatcmpl-bench", "object": "chat.completion", "created": time.Now().Unix(), "model": prompt.Model,
		"choices": []any{object{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": text}}},
		"usage":   object{"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written},
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // to a bot that may be gone
}
